// The kernels of randk's all-reduce and their arguments. A call is
//
//   project   GatherTask, then ScanTask, which the flag at the end of the slice is for
//   finish    KeepTask for all values, then ScatterTask for those of the slice, then AdvanceTask
//
// Which slice a call takes is known on the device alone, from the state: a replayed graph runs none
// of our code, yet has to take another one each time; and whether the call before came out finite,
// which decides, the host would have to wait for.
#ifndef COMPRESS_KERNELS_RANDK_DEVICE_TASKS_H_
#define COMPRESS_KERNELS_RANDK_DEVICE_TASKS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/projection_tasks.h"
#include "compress_kernels/randk/permutation.h"
#include "compress_kernels/randk/slices.h"

namespace ringpress::compress_kernels::randk {

/// The slice of a call.
struct SliceChoice {
  Permutation permutation;
  Slices slices;
  float by_turn = 0;  // If there is no state that all ranks have.
  core::DeviceState state;
};

/// A tensor's values, and its residual or null.
struct TensorOnDevice {
  const void* values = nullptr;
  std::size_t count = 0;
  float* residual = nullptr;
};

/// own = the values of the slice, a zero if it is short, and a flag of 0. Pieces of 32 of these.
struct GatherTask : core::WarpTask {
  SliceChoice choice;
  TensorOnDevice tensor;
  float* own = nullptr;
};

/// *flag = NaN if some value is not finite. Pieces of 256 values.
struct ScanTask : core::WarpTask {
  TensorOnDevice tensor;
  float* flag = nullptr;
};

/// result = 0, residual = the values; NaN and as it was if the sum of flags is not finite. Pieces
/// of 256 values.
struct KeepTask : core::WarpTask {
  TensorOnDevice tensor;
  void* result = nullptr;
  const float* flag = nullptr;
};

/// What the sums make of the slice. Pieces of 32 of its values.
struct ScatterTask : core::WarpTask {
  SliceChoice choice;
  const float* sums = nullptr;
  const float* dropped = nullptr;  // Null: nothing was.
  std::size_t divisor = 1;
  float factor = 1;
  void* result = nullptr;
  float* residual = nullptr;
};

/// The state that the next call finds. One piece.
struct AdvanceTask : core::WarpTask {
  SliceChoice choice;
  const float* flag = nullptr;
  std::uint64_t call = 0;  // Number of this one, plus 1.
};

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_DEVICE_TASKS_H_
