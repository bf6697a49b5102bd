#include <charconv>
#include <cmath>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/randk/randk.h"
#include "compress_kernels/randk/randk_codec.h"
#include "compress_kernels/randk/task_projection.h"
#include "compress_kernels/specification.h"

namespace ringpress::compress_kernels::randk {
namespace {

bool accepts_density(std::string_view text) {
  const double density = decimal_of(text);
  return density >= kSmallestDensity && density <= 1;
}

bool takes_bits(std::string_view code) {
  return code == "qsgd" || code == "qsgd-ms";
}

/// The codec that sums the chosen values.
std::string inner_specification(std::string_view code, std::string_view bits) {
  return std::string(code) + (bits.empty() ? "" : ":bits=" + std::string(bits));
}

bool accepts_bits(std::string_view text) {
  return parse_specification(inner_specification("qsgd", text)).is_ok() ||
         parse_specification(inner_specification("qsgd-ms", text)).is_ok();
}

/// Bits are a matter of the codes that are named without.
Status settle_bits(ParameterValues& values) {
  const std::string& code = values.text("code");
  if (!takes_bits(code)) {
    if (values.text("bits").empty()) return Status::ok();
    return Status(Code::kInvalidArgument, "codec parameter bits=" + values.text("bits") +
                                              ": only code=qsgd and code=qsgd-ms have it");
  }
  const std::string usual = code == "qsgd" ? "4" : "4/8";
  if (values.text("bits").empty()) values.set("bits", usual);
  const Status inner = parse_specification(inner_specification(code, values.text("bits"))).status();
  if (inner.is_ok()) return inner;
  return Status(Code::kInvalidArgument, "codec parameter bits=\"" + values.text("bits") +
                                            "\": must fit code=" + code + " (maybe " + usual +
                                            "?)");
}

/// One spelling for one number: equal specifications mean equal bytes.
Status settle(const CodecEntry&, ParameterValues& values) {
  RINGPRESS_RETURN_IF_ERROR(settle_bits(values));
  char text[32];
  const auto [end, error] = std::to_chars(
      text, text + sizeof text, decimal_of(values.text("density")), std::chars_format::fixed);
  if (error == std::errc()) values.set("density", std::string_view(text, end));
  return Status::ok();
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry&,
                            const ParameterValues& values) {
  identity.traits.deterministic = false;
  const Parameters parameters{decimal_of(values.text("density")), values.text("unbiased") == "1",
                              identity.dtype};
  return std::make_unique<RandomCodec>(
      std::move(identity), parameters,
      inner_specification(values.text("code"), values.text("bits")),
      selected_kernels(reference_kernels(), simd_kernels));
}

DeviceParameters device_parameters(const CodecEntry&, const ParameterValues& values, DType) {
  return {decimal_of(values.text("density")), values.text("unbiased") == "1"};
}

ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  const double slices = std::ceil(1 / decimal_of(values.text("density")));
  ErrorBound bound;
  bound.of_norm = values.text("unbiased") == "1" ? std::max(1.0, slices) : 1;
  bound.block = std::size_t{1} << 48;
  return bound;
}

/// Of the codec that sums the chosen values.
Specification inner_of(const ParameterValues& values) {
  return parse_specification(inner_specification(values.text("code"), values.text("bits"))).value();
}

/// What is unbiased keeps no residual; else as the codec that sums the chosen values.
bool refuses_feedback(const CodecEntry&, const ParameterValues& values) {
  if (values.text("unbiased") == "1") return true;
  const auto [codec, inner] = inner_of(values);
  return codec.family->refuses_feedback != nullptr && codec.family->refuses_feedback(codec, inner);
}

/// What takes all values loses what the codec of their sums does.
FeedbackNeed feedback_need(const CodecEntry&, const ParameterValues& values) {
  if (values.text("unbiased") == "1") return FeedbackNeed::kNone;
  if (decimal_of(values.text("density")) < 1) return FeedbackNeed::kNeeded;
  const auto [codec, inner] = inner_of(values);
  return codec.family->feedback_need == nullptr ? FeedbackNeed::kNone
                                                : codec.family->feedback_need(codec, inner);
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters =
          {
              {"density", "0.01", "a number from 0.000001 to 1", accepts_density},
              {"bits", "", "from 1 to 8, or for code=qsgd-ms a list such as 4/8", accepts_bits},
              {"code", "none", "none, fp16, bf16, q8, q4, qsgd or qsgd-ms"},
              {"unbiased", "0", "0 or 1"},
          },
      .settle = settle,
      .make = make,
      .error_bound = error_bound,
      .refuses_feedback = refuses_feedback,
      .feedback_need = feedback_need,
      .plan_projection = plan_of<DeviceFamilyId::kRandk, device_parameters>,
      .unbiased = "unbiased=1",
      .variants = {"density=0.1", "density=0.3,unbiased=1", "density=1"},
      .examples =
          {
              {"randk:density=0.01", "beside topk: no index travels, sums stay as sparse",
               "8 bytes a tensor"},
              {"randk:density=0.01,code=qsgd", "the same, fewer bits: GlobalRandK with MaxNorm",
               "8 bytes a tensor"},
              {"randk:density=0.01,unbiased=1", "unbiased sums where the variance may be huge",
               "8 bytes a tensor"},
          },
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::randk
