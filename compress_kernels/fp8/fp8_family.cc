#include "compress_kernels/codec_family.h"
#include "compress_kernels/fp8/codes.h"
#include "compress_kernels/fp8/fp8.h"

namespace ringpress::compress_kernels::fp8 {
namespace {

Fp8Parameters parameters_of(const CodecEntry&, const ParameterValues& values, DType dtype) {
  Fp8Parameters parameters;
  parameters.format = values.text("format") == "e4m3" ? Float8Format::kE4m3 : Float8Format::kE5m2;
  parameters.block = values.number("block");
  parameters.stochastic = values.text("round") == "stochastic";
  parameters.dtype = dtype;
  return parameters;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  const Fp8Parameters parameters = parameters_of(entry, values, identity.dtype);
  identity.traits.deterministic = !parameters.stochastic;
  return make_kernel_codec(std::move(identity), parameters, reference_kernels(), simd_kernels);
}

/// See fp8.h. Units are rounded up to 8 significant bits.
ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  const bool is_e4m3 = values.text("format") == "e4m3";
  const double steps = values.text("round") == "stochastic" ? 2 : 1;
  constexpr double kUnit = 1 + 0x1p-7;
  ErrorBound bound;
  bound.block = values.number("block");
  bound.of_value = steps * (is_e4m3 ? 0x1p-4 : 0x1p-3) * (1 + 0x1p-20);
  bound.of_magnitude = steps * (is_e4m3 ? 0x1p-10 / 448 : 0x1p-17 / 57344) * kUnit;
  bound.absolute = 0x1p-94;
  return bound;
}

/// Unbiased forms have none.
FeedbackNeed feedback_need(const CodecEntry&, const ParameterValues& values) {
  const bool is_coarse = values.text("format") == "e5m2" && values.text("round") == "nearest";
  return is_coarse ? FeedbackNeed::kAdvised : FeedbackNeed::kNone;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters =
          {
              {"block", "128", "a power of two from 32 to 1024", is_block},
              {"format", "e4m3", "e4m3 or e5m2"},
              {"round", "nearest", "nearest or stochastic"},
          },
      .make = make,
      .error_bound = error_bound,
      .feedback_need = feedback_need,
      .plan_for_device = plan_of<DeviceFamilyId::kFp8, parameters_of>,
      .unbiased = "round=stochastic",
      .variants = {"format=e5m2", "block=32", "block=1024,round=stochastic",
                   "block=64,format=e5m2,round=stochastic"},
      .examples =
          {
              {"fp8", "values of very different size in a block; hardware that has float8"},
              {"fp8:format=e5m2", "the same, where they differ a million times and more"},
          },
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::fp8
