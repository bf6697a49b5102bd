// hadamard() of block.h for a warp that holds a tile: butterflies within a lane, and between lanes.
// The last tile of a chunk, whose blocks may be cut into parts of any size, goes through the warp's
// memory.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_HADAMARD_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_HADAMARD_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/rotation.h"

namespace ringpress::compress_kernels::lloyd {

inline constexpr unsigned kTileValues = core::kRows * core::kGroup;  // Of a lane.

template <typename TileOf>
RINGPRESS_DEVICE bool is_whole(const TileOf& tile) {
  return TileOf::kIsWhole || tile.count == kTileElements;
}

/// Where the lane's value number i lies in the warp's memory.
template <typename TileOf>
RINGPRESS_DEVICE unsigned slot_of(const TileOf& tile, unsigned i) {
  return core::memory_slot(tile.place(i / core::kGroup) + i % core::kGroup);
}

/// The blocks that are rotated: see rotations().
struct RotatedBlocks {
  unsigned size;
  bool rotate;
  bool unbiased;

  explicit RINGPRESS_DEVICE RotatedBlocks(const LloydParameters& parameters)
      : size(static_cast<unsigned>(parameters.block)),
        rotate(parameters.rotates),
        unbiased(parameters.unbiased) {}

  RINGPRESS_DEVICE int rounds() const { return unbiased ? 2 : 1; }
  /// One of `count` elements.
  RINGPRESS_DEVICE bool include(std::size_t count) const {
    return rotate && (!unbiased || count == size);
  }
  /// Elements of the block that a place of the tile belongs to.
  template <typename TileOf>
  RINGPRESS_DEVICE unsigned count_at(const TileOf& tile, unsigned place) const {
    const unsigned begin = place & ~(size - 1);
    return tile.count - begin < size ? tile.count - begin : size;
  }
};

template <typename Simt>
class TileHadamard {
 public:
  /// `memory`: of the warp, room for a tile.
  RINGPRESS_DEVICE TileHadamard(const Simt& simt, const RotatedBlocks& blocks, float* memory)
      : simt_(simt), blocks_(blocks), memory_(memory) {}

  template <typename TileOf>
  RINGPRESS_DEVICE void transform(const TileOf& tile, core::Rows& y) const {
    if (is_whole(tile)) {
      transform_whole(y);
    } else {
      transform_parts(tile, y);
    }
  }

 private:
  RINGPRESS_DEVICE void transform_whole(core::Rows& y) const {
    constexpr unsigned kStrides = core::log2_of(kTileElements);
    RINGPRESS_UNROLL
    for (unsigned step = 1; step <= kStrides; ++step) {
      const unsigned stride = static_cast<unsigned>(kTileElements) >> step;
      if (stride >= blocks_.size) continue;
      if (stride < core::kGroup) {
        within_groups(stride, y);
      } else if (stride < core::kRowElements) {
        between_lanes(stride / core::kGroup, y);
      } else {
        between_rows(stride / core::kRowElements, y);
      }
    }
  }

  RINGPRESS_DEVICE static void butterfly(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
  }
  RINGPRESS_DEVICE static void within_groups(unsigned stride, core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      const unsigned k = i % core::kGroup;
      if ((k & stride) == 0) butterfly(y[i / core::kGroup][k], y[i / core::kGroup][k | stride]);
    }
  }
  RINGPRESS_DEVICE static void between_rows(unsigned stride, core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      const unsigned row = i / core::kGroup;
      const unsigned k = i % core::kGroup;
      if ((row & stride) == 0) butterfly(y[row][k], y[row | stride][k]);
    }
  }
  RINGPRESS_DEVICE void between_lanes(unsigned stride, core::Rows& y) const {
    float others[kTileValues];
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) others[i] = y[i / core::kGroup][i % core::kGroup];
    simt_.shuffle_xor(others, stride);
    // The upper one of two takes itself from the other: minus itself, plus the other.
    const float sign = (simt_.lane() & stride) != 0 ? -1.0f : 1.0f;
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      float& value = y[i / core::kGroup][i % core::kGroup];
      value = core::add_exact_product(value, sign, others[i]);
    }
  }

  /// hadamard() of every part of every block, in the warp's memory.
  template <typename TileOf>
  RINGPRESS_DEVICE void transform_parts(const TileOf& tile, core::Rows& y) const {
    simt_.sync_warp();
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      memory_[slot_of(tile, i)] = y[i / core::kGroup][i % core::kGroup];
    }
    simt_.sync_warp();
    RINGPRESS_ROLL
    for (unsigned stride = blocks_.size / 2; stride >= 1; stride /= 2) {
      RINGPRESS_ROLL
      for (unsigned pair = tile.lane; pair < kTileElements / 2; pair += core::kLanes) {
        const unsigned place = (pair & ~(stride - 1)) * 2 + (pair & (stride - 1));
        if (!is_mixed(tile, place, stride)) continue;
        butterfly(memory_[core::memory_slot(place)], memory_[core::memory_slot(place + stride)]);
      }
      simt_.sync_warp();
    }
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      y[i / core::kGroup][i % core::kGroup] = memory_[slot_of(tile, i)];
    }
  }

  /// True if the value at this place and the one `stride` further on are added and subtracted.
  template <typename TileOf>
  RINGPRESS_DEVICE bool is_mixed(const TileOf& tile, unsigned place, unsigned stride) const {
    if (place >= tile.count) return false;
    const unsigned count = blocks_.count_at(tile, place);
    if (!blocks_.include(count)) return false;
    return 2 * stride <= part_of(place & (blocks_.size - 1), count);
  }

  const Simt& simt_;
  const RotatedBlocks blocks_;
  float* const memory_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_HADAMARD_CUH_
