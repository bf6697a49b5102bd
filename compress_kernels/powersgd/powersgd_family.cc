#include <charconv>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/powersgd/powersgd.h"
#include "compress_kernels/powersgd/powersgd_codec.h"
#include "compress_kernels/powersgd/task_projection.h"

namespace ringpress::compress_kernels::powersgd {
namespace {

bool accepts_rank(std::string_view text) {
  std::size_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() && text[0] != '0' && rank >= 1 &&
         rank <= kLargestRank;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry&,
                            const ParameterValues& values) {
  identity.traits.rounds = 2;
  const Parameters parameters{values.number("rank"), identity.dtype};
  return std::make_unique<PowerCodec>(std::move(identity), parameters,
                                      selected_kernels(reference_kernels(), simd_kernels));
}

DeviceParameters device_parameters(const CodecEntry&, const ParameterValues& values, DType) {
  return {values.number("rank")};
}

ErrorBound error_bound(const CodecEntry&, const ParameterValues&) {
  ErrorBound bound;
  bound.of_norm = 1 + 0x1p-12;  // A projection; the margin is for rounding.
  bound.block = std::size_t{1} << 48;
  return bound;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters = {{"rank", "4", "a whole number from 1 to 64", accepts_rank}},
      .make = make,
      .error_bound = error_bound,
      .feedback_need = always_needs_feedback,
      .plan_projection = plan_of<DeviceFamilyId::kPowersgd, device_parameters>,
      .variants = {"rank=1", "rank=7", "rank=32"},
      .examples =
          {
              {"powersgd:rank=4",
               "matrices on the slowest links: a hundredth of the bytes and less",
               "4 r columns bytes a matrix: Q"},
          },
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::powersgd
