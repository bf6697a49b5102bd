// lossless: exponents in a short code, everything else as it is. Every bit pattern survives.
//
// Wire bytes of a chunk of n elements of s bytes: either n * s bytes, which are the elements as
// they stand in memory, or fewer, which are tiles of 1024 elements (the last may have fewer), one
// after the other. So the wire is never larger than the input, and a chunk needs no header. No
// tiles are written that would not be smaller.
//
// A tile of m elements in g = ceil(m / 64) groups of 64. An element is rotated left by one bit, so
// that its exponent comes first and its sign last; of a float32 the upper half is, as if it were a
// bfloat16, and the lower half is left alone.
//
//   bytes           content
//   1               exponent at which the window begins
//   1               bits 0-2: the place of the three short codes in the window; bit 3: exponent 0
//                   has a code; bits 4-5: 0 coded, 1 elements as they are, 2 all bits zero
//   -- the rest of a coded tile --
//   16 g            short codes: of each group 64 lower bits, then 64 upper bits, LSB first
//   m               the lower 8 bits of each rotated element
//   0, 24 g or 2 m  float16: bits 8, 9 and 10 of each rotated element, 64 of each per group;
//                   float32: the lower halves
//   3 ceil(k / 8)   long codes of the k elements whose short code is 3: all lower bits, all middle
//                   bits, all upper bits
//   e               exponents of the e elements whose long code is 7
//
// A window is ten exponents in a row. Three of them in a row have the short codes 0 to 2, the other
// seven the long codes 0 to 6 (the last of which can be given to exponent 0 instead: zeros). All
// other exponents are escaped. 2, 5 or 13 bits.
//
// Why so. Limit: sign and mantissa of a gradient are noise, so nothing beats them plus the entropy
// of the exponent: 2.55 bits for Gaussian values, 2.8 to 3.1 for recorded gradients, hence 1.44 to
// 1.52 for bfloat16. Expectation, computed on recorded gradients and Gaussian, Laplace and
// Student-t values before there was any kernel: one list of exponents per 64 Ki elements with 3
// short and 7 long codes is 2 to 4.4 % above that floor, 3 bits for 7 exponents 5 to 7 %, 2 + 4
// bits 4 to 6 %, a Huffman-like 1 + 2 + 3 bits 3 to 5.4 %. A window of its own for each tile is 1.1
// to 3.1 % above it, as it follows the scale of layers and rows (it goes below the floor of the
// chunk where scales differ much), and takes two bytes. A third stage would win 1 % more for half
// as much time again.
//
// As the window is one run of exponents, a code is a subtraction and a look-up in 16 bytes, and
// long codes are gathered and spread by one bit-extract or -deposit per 64 elements. Where the
// window lies relative to the short codes is fixed (five exponents below, two above): fitting that
// to 128 samples came out worse, and a histogram of them took as long as all the rest (tile.h has
// the guess).
//
// Outcome (perf/lossless_perf): bfloat16 gradients 1.3 to 2.2 % above the floor (ratio 1.41
// to 1.46; zstd -1: 1.26), float32 0.6 to 0.9 %, Gaussian values 2.5 %. With AVX-512 12 to 16 times
// as fast as zstd -1 each way, limited by memory beyond the second-level cache. Not good: float16
// without a loss scale, whose values have exponent 0 for the most part; a code of one bit would
// suit those.
#ifndef COMPRESS_KERNELS_LOSSLESS_LOSSLESS_H_
#define COMPRESS_KERNELS_LOSSLESS_LOSSLESS_H_

#include <cstddef>
#include <cstdint>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::lossless {

/// What one instruction set does with a tile of up to kTileElements elements of one type.
struct TileKernels {
  /// Writes a tile and returns its bytes. `wire` has kTileSpace bytes, any of which may be changed.
  std::size_t (*encode)(const void* values, std::size_t count, std::byte* wire) = nullptr;
  /// Decodes a tile and returns its bytes, at most `bytes`; 0 if they make no tile. From `wire`,
  /// `bytes` + kReadAhead bytes can be read.
  std::size_t (*decode)(const std::byte* wire, std::size_t bytes, std::size_t count,
                        void* values) = nullptr;
  /// sum[i] = element i, or sum[i] += element i.
  void (*load)(const void* values, std::size_t count, float* sum) = nullptr;
  void (*add)(const void* values, std::size_t count, float* sum) = nullptr;
  /// Divides the sums, rounds them to the element type and stores them.
  void (*finish)(float* sum, std::size_t divisor, std::size_t count, void* values) = nullptr;
};

/// The kernels of one instruction set.
struct KernelSet {
  TileKernels float32;
  TileKernels float16;
  TileKernels bfloat16;

  const TileKernels& of(DType dtype) const {
    if (dtype == DType::kFloat16) return float16;
    return dtype == DType::kBfloat16 ? bfloat16 : float32;
  }
};

/// The specification.
const KernelSet& reference_kernels();
/// Null if this build has none for the target.
const KernelSet* simd_kernels(std::int64_t target);

/// The operations of Codec on whole chunks, with any kernels.
struct Chunks {
  const TileKernels* kernels = nullptr;
  std::size_t element_bytes = 0;

  std::size_t encode(const EncodeArgs& args) const;
  void decode(const DecodeArgs& args) const;
  void decode_add(const DecodeAddArgs& args) const;
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const;
};

}  // namespace ringpress::compress_kernels::lossless

#endif  // COMPRESS_KERNELS_LOSSLESS_LOSSLESS_H_
