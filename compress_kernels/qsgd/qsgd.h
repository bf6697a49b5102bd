// qsgd: integer codes on a grid that all ranks share, so that encoded forms are added as integers
// (QSGD-MaxNorm of Vineeth S., Unbiased Single-scale and Multi-scale Quantizers for Distributed
// Optimization, arXiv 2109.12497, 2021); qsgd-ms: the same with several grids, the finest of which
// that fits is agreed on value by value.
//
// Nouns. A grid of b bits has s = 2^b - 1 steps on either side of zero. M is the norm: the largest
// |x| of a block on any rank. A form that sums h codes holds, for each value, X + h s_0 in
//
//   w(h) = ceil(log2(2 h s_0 + 1)) bits
//
// where X is the sum of the codes and s_0 the steps of the coarsest grid: no sum ever wraps.
//
// Wire bytes of n values, m = ceil(n / block). "Packed" is lane_pack.h.
//
//   form              bytes                    content
//   world > 1         packed(n, w(h))          codes; the rest has been agreed on
//   alone             2 m                      norm of each block, bfloat16; norm=global: of each
//                                              tile, since there is nobody to share it with
//                     packed(n, levels)        grid of each value: 0, 1 (two grids) or 2 bits
//                     packed(n, w(1))          codes
//
// Agreed on (agreement.h); each is a round that travels while earlier chunks do, but for the norm
// of the tensor:
//
//   tensor            4                        norm=global: the norm, bfloat16, and two zero bytes
//   chunk, norms      2 m                      norm=bucket: the norm of each block, bfloat16.
//                                              Merged by the larger: as unsigned integers bfloat16
//                                              magnitudes are in order, NaN above all
//   chunk, levels     packed(n, levels)        several grids: the grid of each value. Merged by the
//                                              smaller of each
//
// Arithmetic, each operation rounded to float32 (x: value plus residual):
//
//   M           largest |x|, rounded up to bfloat16; 0 below 2^-100; NaN if not all are finite
//   grid j      inverse_j = 256 s_j / M, unit_j = M / s_j; both 0 where M is 0
//   level       the largest j with |x| inverse_j <= 256 s_0: from the value before rounding, so
//               that either outcome of rounding fits
//   code + s_0  stochastic   (trunc(x inverse + 256 s_0 + v) + byte) >> 8, where byte and v are the
//                            random bits of dither.h; the sum limited to [0, 512 s_0] before
//               zero         trunc((x inverse) / 256) + s_0, limited to [0, 2 s_0]
//   value of X  (float32(X) unit) / divisor; not divided by 1
//
// So every rank of an all-reduce gets the same bits, in whatever order codes were added.
//
// Error of one value in a finite block: less than one step unit_j, plus float32 rounding;
// stochastic codes are unbiased to within 2^-15 of a step. A block that holds NaN or an infinity on
// any rank (norm=global: the whole tensor) decodes to NaN on all of them; its codes are 0 and its
// residual stays as it was. Blocks below 2^-100 decode to zeros. Error feedback keeps x minus the
// value of the own code.
#ifndef COMPRESS_KERNELS_QSGD_QSGD_H_
#define COMPRESS_KERNELS_QSGD_QSGD_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/qsgd/grid.h"
#include "compress_kernels/qsgd/lane_pack.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::qsgd {

inline constexpr std::size_t kMostGrids = 4;
inline constexpr int kMostTransportBits = 8;
inline constexpr int kMostBits = 16;
inline constexpr std::size_t kSmallestBlock = 32;
inline constexpr std::size_t kLargestBlock = 1024;

struct Parameters {
  std::uint32_t steps[kMostGrids] = {15};  // Ascending.
  std::size_t grids = 1;
  bool has_global_norm = false;
  std::size_t block = 512;  // Elements; a power of two. norm=global: those of a tile.
  bool is_stochastic = true;
  DType dtype = DType::kFloat32;
};

/// Bits that say which grid a value is on.
RINGPRESS_HOST_DEVICE inline int level_bits(const Parameters& parameters) {
  return parameters.grids == 1 ? 0 : parameters.grids == 2 ? 1 : 2;
}

RINGPRESS_HOST_DEVICE inline std::size_t norm_bytes(const Parameters& parameters,
                                                    std::size_t count) {
  return core::blocks_of(count, parameters.block) * sizeof(std::uint16_t);
}

RINGPRESS_HOST_DEVICE inline std::size_t level_bytes(const Parameters& parameters,
                                                     std::size_t count) {
  return packed_bytes(count, level_bits(parameters));
}

inline int width_of(const Parameters& parameters, std::size_t summed) {
  return width_of_sum(summed, parameters.steps[0]);
}

RINGPRESS_HOST_DEVICE inline bool stands_alone(const Contributions& form) {
  return form.world == 1;
}

inline std::size_t encoded_bytes(const Parameters& parameters, std::size_t count,
                                 const Contributions& form) {
  const std::size_t codes = packed_bytes(count, width_of(parameters, form.summed));
  if (!stands_alone(form)) return codes;
  return norm_bytes(parameters, count) + level_bytes(parameters, count) + codes;
}

/// What a summary says.
enum class Summary {
  kTensorNorm,
  kBlockNorms,
  kLevels,
};

/// The norms of blocks are the first round of a chunk, levels the last.
inline Summary summary_of_round(const Parameters& parameters, int round) {
  return round == 0 && !parameters.has_global_norm ? Summary::kBlockNorms : Summary::kLevels;
}

/// What an encoded form of `count` values consists of, wherever that lies.
struct Form {
  const std::byte* norms = nullptr;
  std::size_t norm_block = 0;  // Elements that share one of them.
  const std::byte* levels = nullptr;
  std::size_t codes_offset = 0;  // Of the codes, from the start of the wire bytes.
  int width = 0;
  std::uint32_t offset = 0;  // What has been added to the sum of codes.
};

/// `width`: of the codes, width_of() such a form.
RINGPRESS_HOST_DEVICE inline Form form_of(const Parameters& parameters, std::size_t count,
                                          const Contributions& summed, int width,
                                          const Agreed& agreed, const std::byte* wire) {
  Form form;
  form.width = width;
  form.offset = static_cast<std::uint32_t>(summed.summed) * parameters.steps[0];
  form.norm_block = parameters.block;
  if (stands_alone(summed)) {
    form.norms = wire;
    form.levels = wire == nullptr ? nullptr : wire + norm_bytes(parameters, count);
    form.codes_offset = norm_bytes(parameters, count) + level_bytes(parameters, count);
  } else if (parameters.has_global_norm) {
    form.norms = agreed.tensor;
    form.norm_block = std::numeric_limits<std::size_t>::max();
    form.levels = agreed.chunk;
  } else {
    form.norms = agreed.chunk;
    form.levels = agreed.chunk + (norm_bytes(parameters, count) + 7) / 8 * 8;
  }
  return form;
}

/// What has been agreed on, as a form without codes.
RINGPRESS_HOST_DEVICE inline Form agreed_form(const Parameters& parameters, std::size_t count,
                                              const Agreed& agreed) {
  constexpr Contributions kTogether{1, 2};
  return form_of(parameters, count, kTogether, 0, agreed, nullptr);
}

inline Form form_of(const Parameters& parameters, std::size_t count, const Contributions& summed,
                    const Agreed& agreed, const std::byte* wire) {
  return form_of(parameters, count, summed, width_of(parameters, summed.summed), agreed, wire);
}

/// What the offset of a form is more than those of `summed` codes together, modulo 2^32.
RINGPRESS_HOST_DEVICE inline std::uint32_t lift_of_sum(const Form& form,
                                                       const Parameters& parameters,
                                                       std::size_t summed) {
  return form.offset - static_cast<std::uint32_t>(summed) * parameters.steps[0];
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_QSGD_H_
