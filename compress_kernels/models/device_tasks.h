// The kernels of gossip and their arguments: what a worker does with its model and what it keeps
// beside it; and those of gradients that are put off. Arrays of values are aligned to their
// elements.
#ifndef COMPRESS_KERNELS_MODELS_DEVICE_TASKS_H_
#define COMPRESS_KERNELS_MODELS_DEVICE_TASKS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/projection_tasks.h"
#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels::models {

/// parts[i] = the sums of squares of the values that piece i has looked at. kChangeParts pieces.
struct ChangeTask : core::WarpTask {
  const void* values = nullptr;
  const void* reference = nullptr;
  std::size_t count = 0;
  ChangePart* parts = nullptr;
};

/// values = (values + theirs) / 2. Pieces of 256 values, as in what follows.
struct AverageTask : core::WarpTask {
  void* values = nullptr;
  const void* theirs = nullptr;
  std::size_t count = 0;
};

/// difference = values - base.
struct DifferenceTask : core::WarpTask {
  const void* values = nullptr;
  const float* base = nullptr;
  std::size_t count = 0;
  float* difference = nullptr;  // May be `base`.
};

/// values += (theirs - own) / 2 where both are finite; else *lost is at least `mark` from then on.
struct HalfDifferenceTask : core::WarpTask {
  void* values = nullptr;
  const float* own = nullptr;
  const float* theirs = nullptr;
  std::size_t count = 0;
  std::uint32_t* lost = nullptr;
  std::uint32_t mark = 0;
};

/// wide = values.
struct WidenTask : core::WarpTask {
  const void* values = nullptr;
  std::size_t count = 0;
  double* wide = nullptr;
};

/// values = sums / divisor, rounded to float32 and then to the type.
struct MeanTask : core::WarpTask {
  const double* sums = nullptr;
  std::size_t count = 0;
  double divisor = 1;
  void* values = nullptr;
};

/// parts[i] = the sums of squares of the values that piece i has looked at. kChangeParts pieces.
struct LengthTask : core::WarpTask {
  const void* values = nullptr;
  const float* sum = nullptr;  // Null: the total is 0.
  std::size_t count = 0;
  LengthPart* parts = nullptr;
};

/// sum += values.
struct AddValuesTask : core::WarpTask {
  const void* values = nullptr;
  std::size_t count = 0;
  float* sum = nullptr;
};

/// to = sum + values.
struct TotalTask : core::WarpTask {
  const void* values = nullptr;
  const float* sum = nullptr;
  std::size_t count = 0;
  void* to = nullptr;  // May be `values`.
};

}  // namespace ringpress::compress_kernels::models

#endif  // COMPRESS_KERNELS_MODELS_DEVICE_TASKS_H_
