// A tile as one warp of a device holds it: lane l has the values of lane l of lane_pack.h, so that
// codes are packed without a word between lanes and neighbouring lanes read neighbouring values. A
// row is what all lanes hold at one index: 32 values that share their norm.
#ifndef COMPRESS_KERNELS_QSGD_TILE_ROWS_CUH_
#define COMPRESS_KERNELS_QSGD_TILE_ROWS_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/qsgd/lane_pack.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::qsgd {

/// A lane's view of a tile.
struct LaneTile {
  std::size_t first = 0;  // Element of the chunk that it begins with.
  unsigned count = 0;     // Its elements.
  unsigned lane = 0;

  RINGPRESS_DEVICE bool is_whole() const { return count == kTileElements; }
  /// Whether the lane has a value in a row.
  RINGPRESS_DEVICE bool has(unsigned row) const { return row * kPackLanes + lane < count; }
  /// The element of the chunk that it is.
  RINGPRESS_DEVICE std::size_t index(unsigned row) const { return first + row * kPackLanes + lane; }
  RINGPRESS_DEVICE unsigned rows() const {
    return static_cast<unsigned>((count + kPackLanes - 1) / kPackLanes);
  }
};

/// Calls body(tile) for the tiles of this warp. TileAgent has a loop of its own: one that both went
/// through would take 15 registers more there.
template <typename Simt, typename Body>
RINGPRESS_DEVICE void for_each_tile(const Simt& simt, std::size_t count, Body&& body) {
  const std::size_t tiles = (count + kTileElements - 1) / kTileElements;
  const std::size_t step = static_cast<std::size_t>(simt.blocks()) * simt.warps();
  std::size_t tile = static_cast<std::size_t>(simt.block()) * simt.warps() + simt.warp();
  for (; tile < tiles; tile += step) {
    const std::size_t first = tile * kTileElements;
    const std::size_t rest = count - first < kTileElements ? count - first : kTileElements;
    body(LaneTile{first, static_cast<unsigned>(rest), simt.lane()});
  }
}

/// What one lane holds of a tile. In registers: loops over rows are unrolled.
using LaneValues = float[kRows];
using LaneNumbers = std::uint32_t[kRows];

template <typename T, typename Simt>
RINGPRESS_DEVICE float load_value(const Simt& simt, const void* array, std::size_t index) {
  const std::byte* const from = static_cast<const std::byte*>(array) + index * sizeof(T);
  return core::widen_raw<T>(simt.template load<core::Raw<T>>(from));
}
template <typename T, typename Simt>
RINGPRESS_DEVICE void store_value(const Simt& simt, void* array, std::size_t index, float value) {
  std::byte* const to = static_cast<std::byte*>(array) + index * sizeof(T);
  simt.store(to, static_cast<core::Raw<T>>(core::narrow_raw<T>(value)));
}

/// x = the lane's values; zeros in the place of what lies beyond the end.
template <typename T, typename Simt>
RINGPRESS_DEVICE void load_rows(const Simt& simt, const LaneTile& tile, const void* array,
                                LaneValues& x) {
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    x[row] = tile.has(row) ? load_value<T>(simt, array, tile.index(row)) : 0.0f;
  }
}

/// x += the residual, which may be null.
template <typename Simt>
RINGPRESS_DEVICE void add_residual(const Simt& simt, const LaneTile& tile, const float* residual,
                                   LaneValues& x) {
  if (residual == nullptr) return;
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    if (tile.has(row)) x[row] += load_value<float>(simt, residual, tile.index(row));
  }
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TILE_ROWS_CUH_
