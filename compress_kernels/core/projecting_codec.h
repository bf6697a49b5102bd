// What codecs with a projection share: the four operations on forms that stand alone, in terms of
// two. All-reduces go by the projection, so these are for tests and measurements, and are plain.
#ifndef COMPRESS_KERNELS_CORE_PROJECTING_CODEC_H_
#define COMPRESS_KERNELS_CORE_PROJECTING_CODEC_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/projection.h"

namespace ringpress::compress_kernels::core {

/// Values to encode: element i is values[i] + residual[i].
struct ChunkValues {
  const void* values = nullptr;
  std::size_t count = 0;  // Not zero.
  DType dtype = DType::kFloat32;
  const float* residual = nullptr;  // Null: none. Any alignment.
};

class ProjectingCodec : public IdentifiedCodec {
 public:
  ProjectingCodec(CodecIdentity identity, std::unique_ptr<Projection> projection)
      : IdentifiedCodec(std::move(identity)), projection_(std::move(projection)) {}

  const Projection* projection() const override { return projection_.get(); }

  std::size_t wire_bytes(std::size_t count, Contributions) const override {
    return encoded_bytes(count);
  }
  std::size_t encode(const EncodeArgs& args) const override;
  void decode(const DecodeArgs& args) const override;
  void decode_add(const DecodeAddArgs& args) const override;
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override;

 protected:
  virtual std::size_t encoded_bytes(std::size_t count) const = 0;
  /// As Codec::encode(): `residual` is that of `values`, to be changed, or null; `decoded` is of
  /// dtype(), and may be values.values.
  virtual void encode_chunk(const ChunkValues& values, const RandomKey& random, std::byte* wire,
                            float* residual, void* decoded) const = 0;
  /// Writes `count` elements of type `dtype`.
  virtual void decode_chunk(const std::byte* wire, std::size_t count, DType dtype,
                            void* values) const = 0;

 private:
  const std::unique_ptr<Projection> projection_;
};

/// floats[i] = element i
void load_chunk(const ChunkValues& values, float* floats);
/// Element i = floats[i]
void store_chunk(const float* floats, std::size_t count, DType dtype, void* elements);

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_PROJECTING_CODEC_H_
