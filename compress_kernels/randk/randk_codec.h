// randk as a Codec: the form of one chunk that stands alone.
#ifndef COMPRESS_KERNELS_RANDK_RANDK_CODEC_H_
#define COMPRESS_KERNELS_RANDK_RANDK_CODEC_H_

#include <cstddef>
#include <string>
#include <utility>

#include "compress_kernels/core/projecting_codec.h"
#include "compress_kernels/randk/randk.h"

namespace ringpress::compress_kernels::randk {

class RandomCodec final : public core::ProjectingCodec {
 public:
  RandomCodec(CodecIdentity identity, const Parameters& parameters, const std::string& code,
              const Kernels& kernels)
      : ProjectingCodec(std::move(identity), make_projection(parameters, code, kernels)),
        parameters_(parameters),
        kernels_(kernels) {}

 private:
  std::size_t encoded_bytes(std::size_t count) const override {
    if (count == 0) return 0;
    return sizeof(std::uint32_t) + Slices(parameters_.density, count).longest() * sizeof(float);
  }
  void encode_chunk(const core::ChunkValues& values, const RandomKey& random, std::byte* wire,
                    float* residual, void* decoded) const override;
  void decode_chunk(const std::byte* wire, std::size_t count, DType dtype,
                    void* values) const override;

  /// What a value of the slice is multiplied by.
  float factor(const Slices& slices) const {
    return parameters_.unbiased ? static_cast<float>(slices.number) : 1.0f;
  }

  const Parameters parameters_;
  const Kernels& kernels_;
};

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_RANDK_CODEC_H_
