// What is done to the values of one tile, as a table of functions that the scalar reference and
// each instruction set fill. transcoder.cc walks over tiles and knows where things lie.
#ifndef COMPRESS_KERNELS_QSGD_TILE_KERNELS_H_
#define COMPRESS_KERNELS_QSGD_TILE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/qsgd/dither.h"
#include "compress_kernels/qsgd/qsgd.h"

namespace ringpress::compress_kernels::qsgd {

/// A row is the values that the 32 lanes of lane_pack.h hold at one time; they share their norms.
inline constexpr std::size_t kRowElements = kPackLanes;

/// The grids of each row of a tile.
struct Scales {
  alignas(64) float inverse[kMostGrids][kRows];
  alignas(64) float unit[kMostGrids][kRows];
  bool any_is_lost;  // Some unit is NaN.
};

/// The grid of each value: `levels` is null if there is but one.
struct Grids {
  const Scales* scales = nullptr;
  const std::uint32_t* levels = nullptr;
  std::size_t grids = 1;
  std::uint32_t steps = 0;  // Of the coarsest.
};

struct QuantiseArgs {
  const float* x = nullptr;  // kTileElements, any alignment.
  Grids grids;
  bool is_stochastic = false;
  Dither dither;
  /// encode() only, null or of any alignment: added to x, then gets x minus the values of the
  /// codes.
  float* residual = nullptr;
};

struct DequantiseArgs {
  const std::uint32_t* codes = nullptr;
  std::uint32_t offset = 0;
  Grids grids;
  std::size_t divisor = 1;
  bool streams = false;  // `values` is aligned to 64 bytes, and written around the cache.
};

/// Arrays of the caller have any alignment; all others are those of a Scratch.
struct TileKernels {
  /// x[i] = values[first + i] + residual[first + i] for i < count, then zeros to the end of the
  /// tile. `residual` may be null.
  void (*load)(DType dtype, const void* values, const float* residual, std::size_t first,
               std::size_t count, float* x);
  /// array[first + i] = values[i]
  void (*store)(DType dtype, const float* values, std::size_t count, void* array,
                std::size_t first);
  /// sum[i] += values[i]; `sum` may be the caller's.
  void (*add)(const float* values, std::size_t count, float* sum);
  /// values[i] /= divisor
  void (*divide)(std::size_t divisor, std::size_t count, float* values);
  /// Bits of the largest magnitude in each row of x, which may be the caller's.
  void (*measure)(const float* x, std::uint32_t* magnitudes);
  /// The finest grid that each value fits; `grids.levels` is not used.
  void (*choose_levels)(const float* x, const Grids& grids, std::uint32_t* levels);
  /// codes[i] = code + steps
  void (*quantise)(const QuantiseArgs& args, std::uint32_t* codes);
  /// quantise() and pack() and the residual, for one grid, codes of one contribution and units that
  /// are not NaN if there is a residual.
  void (*encode)(const QuantiseArgs& args, int width, std::byte* bytes);
  /// `values` may be the caller's.
  void (*dequantise)(const DequantiseArgs& args, float* values);
  /// Ends what `streams` began.
  void (*flush)();
  /// residual[i] = x[i] - value of codes[i] for i < count; `x` and `residual` may be the caller's.
  void (*subtract)(const float* x, const DequantiseArgs& args, std::size_t count, float* residual);
  /// codes[i] = min(codes[i] + lift, largest)
  void (*lift)(std::uint32_t lift, std::uint32_t largest, std::uint32_t* codes);
  /// A whole tile, as lane_pack.h says. unpack_add: numbers[i] = min(numbers[i] + packed number,
  /// largest).
  void (*pack)(const std::uint32_t* numbers, int width, std::byte* bytes);
  void (*unpack)(const std::byte* bytes, int width, std::uint32_t* numbers);
  void (*unpack_add)(const std::byte* bytes, int width, std::uint32_t largest,
                     std::uint32_t* numbers);
};

/// The specification: one element at a time.
const TileKernels& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const TileKernels* simd_kernels(std::int64_t target);

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TILE_KERNELS_H_
