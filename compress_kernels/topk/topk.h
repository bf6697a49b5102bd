// topk: the largest values, as packed index gaps and values; what is not sent stays in the residual
// (Aji and Heafield, 2017; Lin et al., Deep Gradient Compression, 2018). This is select=tensor;
// what select=chunk makes is in chunk_topk/chunk_topk.h.
//
// Wire bytes of a chunk: its segments of 65536 elements one after another, the last one shorter. A
// segment of n elements, of which m are sent, takes the smallest of three forms. Byte 0 names it:
//
//   0          empty: m = 0, nothing follows
//   1          dense: the values of all n elements, zeros where there is none
//   2 + b      sparse, b from 0 to 15:
//                2 bytes          m - 1
//                ceil(m b / 8)    the low b bits of each gap, least significant bit first
//                values           of the m elements
//                to a whole byte  the rest of each gap: gap >> b zeros, then a one (Rice, 1979)
//              A gap is the number of elements between one that is sent and the one before it.
//
// Values of p elements: p times bfloat16 (value=16), or (value=8) a code for each, after a scale
// for every 1024 of them: see value_code.h. All integers are little-endian, pad bits are zero. The
// bytes do not depend on the element type. A segment that breaks these rules ends the chunk: the
// elements that it has not named by then, and all of the segments after it, are zeros.
//
// What is selected. Every element has a key of 64 bits: the magnitude of x = value + residual as an
// integer, then 32 bits of a hash of the element's index in the tensor, which decide between equal
// magnitudes (the same way on every rank, so that unions stay small). Of N elements the
// k = ceil(density N) with the largest keys are selected; zeros never, NaN and infinities always.
// The smallest selected key is the threshold. It is found
//
//   in the whole tensor   Agreed::tensor holds it (8 bytes, made by summarise_tensor(); each rank
//                         has its own), or
//   in the chunk          where there is no Agreed::tensor: a chunk that stands alone.
//
// encode()  x of the selected elements becomes d, the value on the wire. r = x - d there, r = x
//           elsewhere; an element whose x is not finite keeps its r.
//
// decode_add_encode()
//   with a threshold      y = (sum of what was sent, own selected x among it, in rank order)
//                         / divisor, for every element that any rank has sent: no new selection.
//                         With y sent as d:
//                         r = (0 if own x was selected, else x) + (y - d) divisor
//                         so that over time d divisor and all residuals add up to all values. If y
//                         is not finite the second part is left out; if x is not, r stays.
//                         Own values that are not selected count in no sum, not even without a
//                         residual.
//   without               y = (sum, own values in full) / divisor, and y is encoded as above.
//
// The error of an element is at most its magnitude. Sums that become 0 are not sent.
#ifndef COMPRESS_KERNELS_TOPK_TOPK_H_
#define COMPRESS_KERNELS_TOPK_TOPK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

struct TopkParameters {
  double density = 0.01;  // Of elements that are selected.
  int value_bits = 8;     // 8 or 16.
  DType dtype = DType::kFloat32;
};

namespace topk {

inline constexpr std::size_t kSegmentElements = 65536;
inline constexpr std::size_t kScaleElements = 1024;  // Values that share a scale.
inline constexpr std::size_t kScaleBytes = 4;

inline constexpr std::uint8_t kEmptyForm = 0;
inline constexpr std::uint8_t kDenseForm = 1;
inline constexpr std::uint8_t kSparseForm = 2;  // And the Rice parameter.
inline constexpr int kLargestRice = 15;
inline constexpr std::size_t kSparseHeaderBytes = 3;

/// Bytes of `count` values.
RINGPRESS_HOST_DEVICE inline std::size_t value_bytes(int value_bits, std::size_t count) {
  if (value_bits == 16) return 2 * count;
  return (count + kScaleElements - 1) / kScaleElements * kScaleBytes + count;
}

/// The most that `count` elements take: all segments dense.
inline std::size_t largest_bytes(int value_bits, std::size_t count) {
  const std::size_t whole = count / kSegmentElements;
  const std::size_t rest = count % kSegmentElements;
  return whole * (1 + value_bytes(value_bits, kSegmentElements)) +
         (rest > 0 ? 1 + value_bytes(value_bits, rest) : 0);
}

/// ceil(density count); products that are whole but for their rounding are taken as whole.
inline std::size_t selected_count(double density, std::size_t count) {
  const double exact = density * static_cast<double>(count);
  const auto below = static_cast<std::size_t>(exact);
  const bool is_whole = exact - static_cast<double>(below) <= exact * 0x1p-50;
  return std::min(count, is_whole ? below : below + 1);
}

/// Mixes the index of an element; different indices below 2^32 have different hashes. The constants
/// are those of MurmurHash3's last step (Appleby).
RINGPRESS_HOST_DEVICE inline std::uint32_t hash_of(std::uint64_t element) {
  auto h = static_cast<std::uint32_t>(element);
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

RINGPRESS_HOST_DEVICE inline std::uint64_t key_of(std::uint32_t magnitude, std::uint64_t element) {
  return static_cast<std::uint64_t>(magnitude) << 32 | hash_of(element);
}

// The threshold lies between these: zeros are never selected, NaN and infinities always.
inline constexpr std::uint64_t kSmallestThreshold = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kLargestThreshold = std::uint64_t{core::kInfinityBits} << 32;

RINGPRESS_HOST_DEVICE inline std::uint64_t limit_threshold(std::uint64_t key) {
  if (key < kSmallestThreshold) return kSmallestThreshold;
  return key > kLargestThreshold ? kLargestThreshold : key;
}

}  // namespace topk
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_TOPK_TOPK_H_
