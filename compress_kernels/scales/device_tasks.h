// The kernels of coordinate scales and their arguments. Arrays of values are aligned to their
// elements.
#ifndef COMPRESS_KERNELS_SCALES_DEVICE_TASKS_H_
#define COMPRESS_KERNELS_SCALES_DEVICE_TASKS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/projection_tasks.h"
#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels::scales {

// Of a piece of DivideTask and MultiplyTask: a group of 8 to a lane.
inline constexpr std::size_t kPieceElements = 256;

/// Parts one after the other, each of as many pieces as the largest has.
struct DivideTask : core::WarpTask {
  std::size_t pieces_of_part = 1;
  std::size_t part_count = 0;
  DividedPart parts[core::kMostShards];
};
struct MultiplyTask : core::WarpTask {
  std::size_t pieces_of_part = 1;
  std::size_t part_count = 0;
  MultipliedPart parts[core::kMostShards];
};

/// squares += (result^2 - squares) * weight, then codes by these. Pieces of two blocks.
struct LearnTask : core::WarpTask {
  KeptScales tensor;
  const void* result = nullptr;  // Null: squares stay as they are.
  float weight = 0;
};

/// parts[i] = what the blocks that half a warp has looked at lose. kScaleErrorParts / 2 pieces.
struct MeasureTask : core::WarpTask {
  KeptScales tensor;
  const void* result = nullptr;
  ScaleErrorPart* parts = nullptr;
};

/// *use says what the parts say. One piece.
struct SettleTask : core::WarpTask {
  std::uint64_t* use = nullptr;
  const std::uint64_t* agreed = nullptr;  // As in KeptScales.
  const ScaleErrorPart* parts = nullptr;
  std::uint32_t calls = 0;
};

}  // namespace ringpress::compress_kernels::scales

#endif  // COMPRESS_KERNELS_SCALES_DEVICE_TASKS_H_
