// The operations of qsgd: walks over the tiles of a chunk, whatever the instruction set.
#ifndef COMPRESS_KERNELS_QSGD_TRANSCODER_H_
#define COMPRESS_KERNELS_QSGD_TRANSCODER_H_

#include "compress_kernels/qsgd/qsgd.h"
#include "compress_kernels/qsgd/tile_kernels.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::qsgd {

/// What all operations need to know of the codec.
struct Transcoder {
  Parameters parameters;
  const TileKernels* kernels = nullptr;

  void encode(const EncodeArgs& args) const;
  void decode(const DecodeArgs& args) const;
  void decode_add(const DecodeAddArgs& args) const;
  void decode_add_encode(const DecodeAddEncodeArgs& args) const;

  /// Bits of the largest magnitude.
  std::uint32_t measure_tensor(const SummariseArgs& args) const;
  /// Writes the norms of blocks, as qsgd.h says.
  void measure_blocks(const SummariseArgs& args) const;
  /// Writes the levels of values, by the norms that have been agreed on.
  void choose_levels(const SummariseArgs& args) const;
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TRANSCODER_H_
