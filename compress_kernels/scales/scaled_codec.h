// A codec whose values have coordinate scales (scales.h).
//
// Wire bytes: those of the inner codec for kGroupElements values at a time, one form after the
// other, each made of what a value is after the division by its scale. They are as many as the
// inner codec's for the whole, but for the few bytes that a form with grid=lloyd begins with.
//
// All that the inner codec sees is in scaled units: values, residuals, and the sums of a hop, whose
// contributions have been encoded with the same scales. So a residual is what was lost, to within a
// rounding of float32; in a block with a value that is not finite it stays as it was, to within as
// much.
#ifndef COMPRESS_KERNELS_SCALES_SCALED_CODEC_H_
#define COMPRESS_KERNELS_SCALES_SCALED_CODEC_H_

#include <cstddef>
#include <memory>

#include "compress_kernels/kernel_codec.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels::scales {

/// Runs the kernels of the instruction set that is selected when it is made. Its operations need
/// `scales`.
class ScaledCodec final : public IdentifiedCodec {
 public:
  /// Few enough for the first-level cache, in whole tiles.
  static constexpr std::size_t kGroupElements = 2 * kTileElements;

  /// `inner`: of float32, of fixed size, without an agreement or a projection.
  ScaledCodec(CodecIdentity identity, std::unique_ptr<Codec> inner);

  std::size_t wire_bytes(std::size_t count, Contributions form) const override;
  std::size_t encode(const EncodeArgs& args) const override;
  void decode(const DecodeArgs& args) const override;
  void decode_add(const DecodeAddArgs& args) const override;
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override;

 private:
  struct Scratch;
  template <typename Args>
  void take_values(const Args& args, std::size_t first, Scratch* scratch) const;
  template <typename Args>
  void store_results(const Args& args, std::size_t first, const Scratch& scratch) const;
  template <typename Args>
  DecodeArgs decode_group(const Args& args, std::size_t first, const std::byte* wire,
                          std::size_t divisor, Scratch* scratch) const;

  const std::unique_ptr<Codec> inner_;
  const ScaleKernels kernels_;
};

}  // namespace ringpress::compress_kernels::scales

#endif  // COMPRESS_KERNELS_SCALES_SCALED_CODEC_H_
