#include <array>
#include <charconv>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/tern/tern.h"

namespace ringpress::compress_kernels::tern {
namespace {

/// The number, or -1 if the text is not one that `clip` takes.
float clip_from(std::string_view text) {
  float number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return -1;
  return number == 0 || (number >= 1 && number <= 100) ? number : -1;
}

bool accepts_clip(std::string_view text) {
  return clip_from(text) >= 0;
}

/// Spells equal numbers alike: ranks compare specifications.
Status settle(const CodecEntry&, ParameterValues& values) {
  std::array<char, 32> text{};
  const float clip = clip_from(values.text("clip")) + 0.0f;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), clip);
  if (error != std::errc()) return Status(Code::kInternal, "cannot spell codec parameter clip");
  values.set("clip", std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
  return Status::ok();
}

TernParameters parameters_of(const CodecEntry&, const ParameterValues& values, DType dtype) {
  TernParameters parameters;
  parameters.block = values.number("block");
  parameters.clip = clip_from(values.text("clip"));
  parameters.dtype = dtype;
  return parameters;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  const TernParameters parameters = parameters_of(entry, values, identity.dtype);
  identity.traits.deterministic = false;
  return make_kernel_codec(std::move(identity), parameters, reference_kernels(), simd_kernels);
}

/// A value's error is at most the scale, or its magnitude if that is clipped.
ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  ErrorBound bound;
  bound.block = values.number("block");
  bound.of_magnitude = 1 + 0x1p-7;
  bound.absolute = 0x1p-100;
  return bound;
}

/// As its bound says, with or without clipping.
bool refuses_feedback(const CodecEntry&, const ParameterValues&) {
  return true;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters =
          {
              {"block", "128", "a power of two from 32 to 1024", is_block},
              {"clip", "0", "0 (off) or a number from 1 to 100, such as 2.5", accepts_clip},
          },
      .settle = settle,
      .make = make,
      .error_bound = error_bound,
      .refuses_feedback = refuses_feedback,
      .plan_for_device = plan_of<DeviceFamilyId::kTern, parameters_of>,
      .unbiased = "clip=0",
      .variants = {"block=32", "block=1024", "block=64,clip=2.5", "block=512,clip=1"},
      .examples = {{"tern", "slow links without a residual: unbiased"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::tern
