// Makes codecs of the kernels.
#include <utility>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/lossless/lossless.h"

namespace ringpress::compress_kernels::lossless {
namespace {

class LosslessCodec final : public IdentifiedCodec {
 public:
  LosslessCodec(CodecIdentity identity, const TileKernels& kernels)
      : IdentifiedCodec(std::move(identity)), chunks_{&kernels, dtype_size(dtype())} {}

  std::size_t wire_bytes(std::size_t count, Contributions) const override {
    return count * chunks_.element_bytes;
  }
  std::size_t encode(const EncodeArgs& args) const override {
    return args.count == 0 ? 0 : chunks_.encode(args);
  }
  void decode(const DecodeArgs& args) const override {
    if (args.count > 0) chunks_.decode(args);
  }
  void decode_add(const DecodeAddArgs& args) const override {
    if (args.count > 0) chunks_.decode_add(args);
  }
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override {
    return args.count == 0 ? 0 : chunks_.decode_add_encode(args);
  }

 private:
  Chunks chunks_;
};

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry&, const ParameterValues&) {
  identity.traits.lossless = true;
  identity.traits.fixed_size = false;
  const KernelSet& kernels = selected_kernels(reference_kernels(), simd_kernels);
  const TileKernels& tile_kernels = kernels.of(identity.dtype);
  return std::make_unique<LosslessCodec>(std::move(identity), tile_kernels);
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .make = make,
      .error_bound = [](const CodecEntry&, const ParameterValues&) { return ErrorBound{}; },
      .unbiased = "",
      .examples = {{"lossless",
                    "`RINGPRESS=lossless`: exact sums from two thirds of the bytes of bfloat16"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::lossless
