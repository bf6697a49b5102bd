// Norms of a tile and what they make of its grids. Lane l finds out what holds for row l; the
// warp's memory shows it to the others.
#ifndef COMPRESS_KERNELS_QSGD_TILE_SCALES_CUH_
#define COMPRESS_KERNELS_QSGD_TILE_SCALES_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/qsgd/grid.h"
#include "compress_kernels/qsgd/qsgd.h"
#include "compress_kernels/qsgd/tile_rows.cuh"

namespace ringpress::compress_kernels::qsgd {

/// Lanes whose bit `kDistance` is set keep the upper half of 2 kDistance rows, the others the
/// lower.
template <unsigned kDistance, typename Simt>
RINGPRESS_DEVICE void halve_rows(const Simt& simt, unsigned lane, LaneNumbers& magnitudes) {
  const bool is_upper = (lane & kDistance) != 0;
  std::uint32_t others[kDistance];
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < kDistance; ++i) {
    const std::uint32_t lower = magnitudes[i];
    const std::uint32_t upper = magnitudes[i + kDistance];
    magnitudes[i] = is_upper ? upper : lower;
    others[i] = is_upper ? lower : upper;
  }
  simt.shuffle_xor(others, kDistance);
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < kDistance; ++i) {
    magnitudes[i] = core::largest_of(magnitudes[i], others[i]);
  }
}

/// The largest of what the lanes have, in groups of `lanes` neighbours: a power of two.
template <typename Simt>
RINGPRESS_DEVICE std::uint32_t largest_of_lanes(const Simt& simt, unsigned lanes,
                                                std::uint32_t magnitude) {
  std::uint32_t largest[1] = {magnitude};
  RINGPRESS_ROLL
  for (unsigned distance = 1; distance < lanes; distance *= 2) {
    core::combine_lanes(simt, distance, largest, core::largest_of);
  }
  return largest[0];
}

/// The norm of the block that row `lane` belongs to. `block`: elements.
template <typename Simt>
RINGPRESS_DEVICE std::uint16_t measure_block(const Simt& simt, unsigned lane, std::size_t block,
                                             const LaneValues& x) {
  LaneNumbers magnitudes;
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) magnitudes[row] = core::magnitude_bits(x[row]);
  halve_rows<16>(simt, lane, magnitudes);
  halve_rows<8>(simt, lane, magnitudes);
  halve_rows<4>(simt, lane, magnitudes);
  halve_rows<2>(simt, lane, magnitudes);
  halve_rows<1>(simt, lane, magnitudes);
  const auto rows = static_cast<unsigned>(block / kPackLanes);
  return norm_of_magnitude(largest_of_lanes(simt, rows, magnitudes[0]));
}

/// Writes the norms of the tile's blocks; `norm` is what measure_block() gave this lane.
template <typename Simt>
RINGPRESS_DEVICE void store_norms(const Simt& simt, const LaneTile& tile, std::size_t block,
                                  std::uint16_t norm, std::byte* norms) {
  const std::size_t element = tile.lane * kPackLanes;
  if (element >= tile.count || (element & (block - 1)) != 0) return;
  const std::size_t index = (tile.first + element) >> core::log2_of(block);
  core::store_any(simt, norms + index * sizeof norm, norm);
}

/// The norm of row `lane`, of a form.
template <typename Simt>
RINGPRESS_DEVICE std::uint16_t load_norm(const Simt& simt, const LaneTile& tile, const Form& form) {
  const std::size_t element = tile.lane * kPackLanes;
  if (element >= tile.count) return 0;
  // Blocks are larger than a tile where the whole tensor has one norm.
  const std::size_t index = form.norm_block > kTileElements
                                ? 0
                                : (tile.first + element) >> core::log2_of(form.norm_block);
  return core::load_any<std::uint16_t>(simt, form.norms + index * sizeof(std::uint16_t));
}

/// The grids of each row of a tile.
class TileScales {
 public:
  static constexpr unsigned kMemoryWords = kRows * kMostGrids * 2;

  /// `memory`: kMemoryWords of the warp.
  RINGPRESS_DEVICE TileScales(const Parameters& parameters, std::uint32_t* memory)
      : parameters_(parameters), memory_(memory) {}

  /// `norm`: that of row `lane`. All lanes take part.
  template <typename Simt>
  RINGPRESS_DEVICE void put(const Simt& simt, unsigned lane, std::uint16_t norm) const {
    simt.sync_warp();
    RINGPRESS_UNROLL
    for (unsigned j = 0; j < kMostGrids; ++j) {
      if (j >= parameters_.grids) continue;
      const GridScale scale = grid_scale(norm, parameters_.steps[j]);
      std::uint32_t* const place = memory_ + place_of(lane, j);
      place[0] = core::bits_of(scale.inverse);
      place[1] = core::bits_of(scale.unit);
    }
    simt.sync_warp();
  }

  RINGPRESS_DEVICE GridScale at(unsigned row, unsigned level) const {
    const std::uint32_t* const place = memory_ + place_of(row, level);
    return {core::float_of(place[0]), core::float_of(place[1])};
  }

  /// The finest grid that a value of a row fits.
  RINGPRESS_DEVICE unsigned choose_level(unsigned row, float x) const {
    unsigned level = 0;
    RINGPRESS_UNROLL
    for (unsigned j = 1; j < kMostGrids; ++j) {
      if (j >= parameters_.grids) continue;
      level += fits_grid(x, at(row, j).inverse, parameters_.steps[0]) ? 1 : 0;
    }
    return level;
  }

 private:
  RINGPRESS_DEVICE static unsigned place_of(unsigned row, unsigned level) {
    return (row * static_cast<unsigned>(kMostGrids) + level) * 2;
  }

  const Parameters& parameters_;
  std::uint32_t* const memory_;
};

/// The levels of a lane's values, 2 bits each at most.
class LaneLevels {
 public:
  RINGPRESS_DEVICE explicit LaneLevels(const Parameters& parameters)
      : bits_(static_cast<unsigned>(level_bits(parameters))),
        last_(static_cast<unsigned>(parameters.grids - 1)) {}

  RINGPRESS_DEVICE void put(unsigned row, std::uint32_t level) {
    levels_ |= static_cast<std::uint64_t>(level) << (row * bits_);
  }
  /// As it was put.
  RINGPRESS_DEVICE std::uint32_t packed(unsigned row) const {
    return static_cast<std::uint32_t>(levels_ >> (row * bits_)) & ((1u << bits_) - 1u);
  }
  /// One that there is, whatever was put.
  RINGPRESS_DEVICE unsigned at(unsigned row) const {
    return packed(row) < last_ ? packed(row) : last_;
  }

 private:
  const unsigned bits_;
  const unsigned last_;
  std::uint64_t levels_ = 0;
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TILE_SCALES_CUH_
