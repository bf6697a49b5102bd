// The kernels of powersgd's all-reduce and their arguments. For each matrix a call is
//
//   round 0   StartTask: Q0; LeftTask: X Q0
//   round 1   OrthonormaliseTask: P from the sums; RightTask: X^T P by blocks of rows; AddTask:
//             those of all blocks
//   finish    SettleTask: whether all is finite, and Q from the sums; RebuildTask: result and
//             residual; StateTask: the state; core::MarkTask behind all matrices
//
// and for values that are sent as they are LoadTask, then StoreTask. The order of every sum is the
// reference's (powersgd.h, factors.h), so the bytes are too: no sum depends on how many blocks run.
#ifndef COMPRESS_KERNELS_POWERSGD_DEVICE_TASKS_H_
#define COMPRESS_KERNELS_POWERSGD_DEVICE_TASKS_H_

#include <cstddef>

#include "compress_kernels/core/projection_tasks.h"
#include "compress_kernels/powersgd/powersgd.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::powersgd {

/// As MatrixView. The arrays are aligned to their elements.
struct MatrixOnDevice {
  MatrixShape shape;
  std::size_t count = 0;
  const void* values = nullptr;
  float* residual = nullptr;  // Null: none.
};

/// The columns of Q in a state, and what takes their place where there is none.
struct Columns {
  std::size_t count = 0;  // Values of each.
  std::size_t rank = 0;
  core::DeviceState state;  // Its values: those of this matrix.
  RandomKey random;
  float factor = 1;  // factor_of_draws()
};

/// q = the state, or random columns; column k at k * stride_of(). Pieces of 32 groups of 8 values.
struct StartTask : core::WarpTask {
  Columns columns;
  float* q = nullptr;
};

/// p = X q. Pieces of kRows rows.
struct LeftTask : core::WarpTask {
  static constexpr std::size_t kRows = 4;
  /// Columns of Q for which M is read once; more take as many passes as they need.
  static constexpr std::size_t kRanks = 16;
  static constexpr std::size_t kWarpMemory = kRanks * 32 * 2 * sizeof(float);

  MatrixOnDevice matrix;
  std::size_t rank = 0;
  const float* q = nullptr;
  float* p = nullptr;
};

/// Makes the columns of p orthonormal; p[0] = NaN if not all is finite. One block.
struct OrthonormaliseTask : core::BlockTask {
  std::size_t rows = 0;
  std::size_t rank = 0;
  float* p = nullptr;
};

/// sums[b] = X^T p over the kRowsOfSum rows of block b. Pieces of 32 columns of one block.
struct RightTask : core::WarpTask {
  static constexpr std::size_t kColumns = 32;
  /// Columns of P in shared memory at a time. M is read once, whatever the rank.
  static constexpr std::size_t kRanks = 16;
  static constexpr std::size_t kWarpMemory = kRanks * kRowsOfSum * sizeof(float);

  MatrixOnDevice matrix;
  std::size_t rank = 0;
  const float* p = nullptr;
  float* sums = nullptr;  // [blocks][rank][columns]
};

/// own = the sums of all blocks, in order; 0 if p[0] is not finite. Pieces of 32 values.
struct AddTask : core::WarpTask {
  std::size_t count = 0;  // rank * columns
  std::size_t blocks = 0;
  const float* sums = nullptr;
  const float* p = nullptr;
  float* own = nullptr;
};

/// q = the sums, divided, columns at stride_of(); *flag = 0, or NaN if not all is finite. One
/// block.
struct SettleTask : core::BlockTask {
  std::size_t columns = 0;
  std::size_t rank = 0;
  std::size_t divisor = 1;
  const float* p = nullptr;
  const float* sums = nullptr;
  float* q = nullptr;
  float* flag = nullptr;
};

/// result = p q^T, residual = X - p own_q^T; NaN and as it was if the flag says so. Pieces of kRows
/// rows and kColumns columns.
struct RebuildTask : core::WarpTask {
  static constexpr std::size_t kRows = 16;
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kWarpMemory = kLargestRank * kRows * sizeof(float);

  MatrixOnDevice matrix;
  std::size_t rank = 0;
  const float* p = nullptr;
  const float* q = nullptr;
  const float* own_q = nullptr;  // One column after the other.
  void* result = nullptr;
  const float* flag = nullptr;
};

/// The state of the next call, from the sums. A block for each column.
struct StateTask : core::BlockTask {
  Columns columns;
  const float* sums = nullptr;
  const float* flag = nullptr;
};

/// own = the values. Pieces of 32 values.
struct LoadTask : core::WarpTask {
  const void* values = nullptr;
  const float* residual = nullptr;
  std::size_t count = 0;
  float* own = nullptr;
};

/// result = the sums, divided; residual = 0 where own is finite. Pieces of 32 values.
struct StoreTask : core::WarpTask {
  const float* sums = nullptr;
  const float* own = nullptr;
  std::size_t count = 0;
  std::size_t divisor = 1;
  void* result = nullptr;
  float* residual = nullptr;
};

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_DEVICE_TASKS_H_
