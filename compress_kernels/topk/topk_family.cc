// topk: density, value bits, and what is looked at as a whole. See topk.h and, for select=chunk,
// chunk_topk.h.
#include <charconv>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/codec_family.h"
#include "compress_kernels/isa.h"
#include "compress_kernels/topk/topk.h"
#include "compress_kernels/topk/topk_codec.h"

namespace ringpress::compress_kernels::topk {
namespace {

constexpr double kSmallestDensity = 1e-5;
constexpr double kLargestDensity = 0.5;

bool accepts_density(std::string_view text) {
  const double density = decimal_of(text);
  return density >= kSmallestDensity && density <= kLargestDensity;
}

/// Equal numbers are spelled alike: specifications are compared as text.
Status settle(const CodecEntry&, ParameterValues& values) {
  char text[32];
  const double density = decimal_of(values.text("density"));
  const auto [end, error] = std::to_chars(text, text + sizeof text, density);
  values.set("density", std::string_view(text, static_cast<std::size_t>(end - text)));
  return Status::ok();
}

bool goes_by_chunks(const ParameterValues& values) {
  return values.text("select") == "chunk";
}

ChunkTopkParameters chunk_parameters(const ParameterValues& values, DType dtype) {
  ChunkTopkParameters parameters;
  parameters.density = decimal_of(values.text("density"));
  parameters.value_bits = static_cast<int>(values.number("value"));
  parameters.dtype = dtype;
  return parameters;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry&,
                            const ParameterValues& values) {
  if (goes_by_chunks(values)) {
    const ChunkTopkParameters parameters = chunk_parameters(values, identity.dtype);
    return make_kernel_codec(std::move(identity), parameters, chunk_topk::reference_kernels(),
                             chunk_topk::simd_kernels);
  }
  TopkParameters parameters;
  parameters.density = decimal_of(values.text("density"));
  parameters.value_bits = static_cast<int>(values.number("value"));
  parameters.dtype = identity.dtype;
  identity.traits.fixed_size = false;
  return std::make_unique<TopkCodec>(std::move(identity), parameters,
                                     selected_kernels(reference_kernels(), simd_kernels));
}

std::optional<DevicePlan> plan_for_device(const CodecEntry&, const ParameterValues& values,
                                          DType dtype) {
  if (!goes_by_chunks(values)) return std::nullopt;
  return DevicePlan{DeviceFamilyId::kChunkTopk, PlanParameters(chunk_parameters(values, dtype))};
}

/// What is not sent is lost; what is sent is nearer to its value than zero is.
ErrorBound error_bound(const CodecEntry&, const ParameterValues&) {
  ErrorBound bound;
  bound.of_norm = 1;
  bound.block = 1;
  return bound;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters =
          {
              {"density", "0.01", "a number from 0.00001 to 0.5, such as 0.01", accepts_density},
              {"value", "8", "8 or 16"},
              {"select", "tensor", "tensor or chunk"},
          },
      .settle = settle,
      .make = make,
      .error_bound = error_bound,
      .feedback_need = always_needs_feedback,
      .plan_for_device = plan_for_device,
      .in_streams = "select=chunk",
      .variants = {"value=16", "density=0.3", "density=0.5,value=16", "select=chunk",
                   "density=0.3,value=16,select=chunk"},
      .examples = {{"topk", "links so slow that 1 % of the values must do; heavy-tailed gradients"},
                   {"topk:density=0.1", "as above where training needs more of them"},
                   {"topk:select=chunk", "`topk` in streams of a GPU: chunks of a fixed size"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::topk
