// powersgd as a Codec: the form of one chunk that stands alone.
#ifndef COMPRESS_KERNELS_POWERSGD_POWERSGD_CODEC_H_
#define COMPRESS_KERNELS_POWERSGD_POWERSGD_CODEC_H_

#include <cstddef>
#include <utility>

#include "compress_kernels/core/projecting_codec.h"
#include "compress_kernels/powersgd/powersgd.h"

namespace ringpress::compress_kernels::powersgd {

class PowerCodec final : public core::ProjectingCodec {
 public:
  PowerCodec(CodecIdentity identity, const Parameters& parameters, const Kernels& kernels)
      : ProjectingCodec(std::move(identity), make_projection(parameters, kernels)),
        parameters_(parameters),
        kernels_(kernels) {}

 private:
  std::size_t encoded_bytes(std::size_t count) const override {
    return powersgd::encoded_bytes(parameters_, count);
  }
  void encode_chunk(const core::ChunkValues& values, const RandomKey& random, std::byte* wire,
                    float* residual, void* decoded) const override;
  void decode_chunk(const std::byte* wire, std::size_t count, DType dtype,
                    void* values) const override;

  void encode_matrix(const MatrixView& values, std::byte* wire) const;
  void encode_as_it_is(const core::ChunkValues& values, std::byte* wire, float* residual,
                       void* decoded) const;

  const Parameters parameters_;
  const Kernels& kernels_;
};

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_POWERSGD_CODEC_H_
