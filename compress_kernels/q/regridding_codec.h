// Partial sums of a ring on another grid than its first and last frames.
//
// With 2 bits the uniform grid has three levels, of which the outer two stand for the largest
// magnitude of a block: about four times the error of the best four levels (lloyd/levels.h), and
// what becomes zero is lost in the same direction at each hop. A third bit would take 1.2 times the
// bytes. So partial sums go on those levels, in the same 2 bits and blocks (of at least 64 values,
// 256 with unbiased rounding), rotated so that no outlier costs its block much. Errors are then no
// larger than those of `sra`, at a quarter of the speed. They take a third bit from 45
// contributions on, and another one whenever these have grown fourfold. A zero among other values
// does not stay one: it gets its share of its block's error.
#ifndef COMPRESS_KERNELS_Q_REGRIDDING_CODEC_H_
#define COMPRESS_KERNELS_Q_REGRIDDING_CODEC_H_

#include <cstddef>

#include "compress_kernels/kernel_codec.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/uniform/uniform.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::q {

/// Of codecs with 2 bits on a uniform grid.
class RegriddingCodec final : public IdentifiedCodec {
 public:
  RegriddingCodec(CodecIdentity identity, const UniformParameters& parameters,
                  const KernelTable<UniformParameters>& kernels,
                  const KernelTable<LloydParameters>& sum_kernels);

  std::size_t wire_bytes(std::size_t count, Contributions form) const override;
  std::size_t encode(const EncodeArgs& args) const override;
  void decode(const DecodeArgs& args) const override;
  void decode_add(const DecodeAddArgs& args) const override;
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override;

 private:
  LloydParameters sum_parameters(Contributions form) const;
  /// Decodes the parts, adds them up and encodes the sum, one after the other.
  void convert(const DecodeAddEncodeArgs& args) const;
  /// `sum` = own values and all parts in order, divided.
  void add_up(const DecodeAddEncodeArgs& args, float* sum) const;
  /// encode() and decode() with values of `dtype`, whatever the type of the elements.
  void encode_from(DType dtype, const EncodeArgs& args) const;
  void decode_to(DType dtype, const DecodeArgs& args) const;
  /// Gives the kernels of the form's grid and their parameters to `call`.
  template <typename Call>
  void with_grid(DType dtype, Contributions form, Call&& call) const;

  UniformParameters parameters_;
  KernelTable<UniformParameters> kernels_;
  KernelTable<LloydParameters> sum_kernels_;
};

}  // namespace ringpress::compress_kernels::q

#endif  // COMPRESS_KERNELS_Q_REGRIDDING_CODEC_H_
