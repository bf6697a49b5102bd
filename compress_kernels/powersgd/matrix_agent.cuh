// The kernels of powersgd that go over the matrix (device_tasks.h): each reads it once. Lanes take
// neighbouring elements of a row, one each, and many rows or steps along it at a time: that keeps
// memory busy with whole sectors whatever the alignment of a row. (16 bytes a lane would need rows
// of whole vectors and leave no registers.) The columns of P or Q are taken one after the other,
// with the elements kept in registers, so that their number matters little.
#ifndef COMPRESS_KERNELS_POWERSGD_MATRIX_AGENT_CUH_
#define COMPRESS_KERNELS_POWERSGD_MATRIX_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/powersgd/device_tasks.h"

namespace ringpress::compress_kernels::powersgd {

template <typename Simt, typename T>
class MatrixAgent {
 public:
  RINGPRESS_DEVICE static void run(const Simt& simt, const LeftTask& task) {
    const std::size_t pieces = pieces_of(task.matrix.shape.rows, LeftTask::kRows);
    core::for_each_piece(simt, pieces, [&](std::size_t piece) {
      for (std::size_t first = 0; first < task.rank; first += LeftTask::kRanks) {
        multiply_rows(simt, task, piece * LeftTask::kRows, first);
      }
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const RightTask& task) {
    const MatrixShape& shape = task.matrix.shape;
    const std::size_t chunks = pieces_of(shape.columns, RightTask::kColumns);
    const std::size_t pieces = pieces_of(shape.rows, kRowsOfSum) * chunks;
    core::for_each_piece(simt, pieces, [&](std::size_t piece) {
      const std::size_t block = piece / chunks;
      const std::size_t j = piece % chunks * RightTask::kColumns + simt.lane();
      float x[kRowsOfSum];
      load_column(simt, task.matrix, block * kRowsOfSum, j, x);
      for (std::size_t first = 0; first < task.rank; first += RightTask::kRanks) {
        multiply_column(simt, task, block, j, first, x);
      }
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const RebuildTask& task) {
    const MatrixShape& shape = task.matrix.shape;
    const std::size_t chunks = pieces_of(shape.columns, RebuildTask::kColumns);
    const std::size_t pieces = pieces_of(shape.rows, RebuildTask::kRows) * chunks;
    const bool is_finite = core::is_finite(simt.template load<float>(task.flag));
    core::for_each_piece(simt, pieces, [&](std::size_t piece) {
      const std::size_t i = piece / chunks * RebuildTask::kRows;
      float* const p = static_cast<float*>(simt.warp_memory());
      load_rows<RebuildTask::kRows>(simt, shape.rows, task.p, i, task.rank, p);
      const std::size_t begin = piece % chunks * RebuildTask::kColumns + simt.lane();
      RINGPRESS_ROLL
      for (unsigned chunk = 0; chunk < RebuildTask::kColumns; chunk += core::kLanes) {
        const std::size_t j = begin + chunk;
        if (j >= shape.columns) break;
        if (is_finite) {
          rebuild_column(simt, task, i, j, p);
        } else {
          spoil_column(simt, task, i, j);
        }
      }
      simt.sync_warp();  // Before the memory is written again.
    });
  }

 private:
  // A lane of a LeftTask has kLanesOfSum neighbours in its part of the warp, and two rows.
  static constexpr unsigned kRowsOfLane = 2;
  static constexpr unsigned kSteps = 32;
  static_assert(LeftTask::kRows == kRowsOfLane * core::kLanes / kLanesOfSum);

  RINGPRESS_DEVICE static std::size_t pieces_of(std::size_t count, std::size_t size) {
    return (count + size - 1) / size;
  }

  /// Element (i, j) plus its residual; 0 outside.
  RINGPRESS_DEVICE static float load(const Simt& simt, const MatrixOnDevice& matrix, std::size_t i,
                                     std::size_t j) {
    const std::size_t index = i * matrix.shape.columns + j;
    if (j >= matrix.shape.columns || index >= matrix.count) return 0;
    return core::load_sum<T>(simt, matrix.values, matrix.residual, index);
  }

  /// P of some rows, for some columns of Q from `first` on.
  RINGPRESS_DEVICE static void multiply_rows(const Simt& simt, const LeftTask& task,
                                             std::size_t row, std::size_t first) {
    const std::size_t rest = task.rank - first;
    const auto ranks = static_cast<unsigned>(rest < LeftTask::kRanks ? rest : LeftTask::kRanks);
    const std::size_t i = row + simt.lane() / kLanesOfSum * kRowsOfLane;
    // Of this lane alone: [column of Q][row].
    float* const sums = static_cast<float*>(simt.warp_memory()) + simt.lane() * kRowsOfLane;
    constexpr unsigned kStride = core::kLanes * kRowsOfLane;
    for (unsigned k = 0; k < ranks; ++k) sums[k * kStride] = sums[k * kStride + 1] = 0;
    RINGPRESS_ROLL
    for (std::size_t j = 0; j < task.matrix.shape.columns; j += kSteps * kLanesOfSum) {
      add_tile(simt, task, i, j + simt.lane() % kLanesOfSum, first, ranks, sums);
    }
    for (unsigned k = 0; k < ranks; ++k) {
      store_sums(simt, task, i, first + k, sums + k * kStride);
    }
  }

  /// Adds the lane's part of a tile to its sums: every kLanesOfSum-th column from j on.
  RINGPRESS_DEVICE static void add_tile(const Simt& simt, const LeftTask& task, std::size_t i,
                                        std::size_t j, std::size_t first, unsigned ranks,
                                        float* sums) {
    const std::size_t columns = task.matrix.shape.columns;
    float x[kRowsOfLane][kSteps];
    RINGPRESS_UNROLL
    for (unsigned s = 0; s < kSteps; ++s) {
      RINGPRESS_UNROLL
      for (unsigned r = 0; r < kRowsOfLane; ++r) {
        x[r][s] = load(simt, task.matrix, i + r, j + s * kLanesOfSum);
      }
    }
    RINGPRESS_ROLL
    for (unsigned k = 0; k < ranks; ++k) {
      const float* const q = task.q + (first + k) * stride_of(columns) + j;
      float* const of_rank = sums + k * core::kLanes * kRowsOfLane;
      float sum[kRowsOfLane] = {of_rank[0], of_rank[1]};
      RINGPRESS_UNROLL
      for (unsigned s = 0; s < kSteps; ++s) {
        const std::size_t place = s * kLanesOfSum;
        const float factor = j + place < columns ? simt.template load<float>(q + place) : 0.0f;
        RINGPRESS_UNROLL
        for (unsigned r = 0; r < kRowsOfLane; ++r) sum[r] += x[r][s] * factor;
      }
      of_rank[0] = sum[0];
      of_rank[1] = sum[1];
    }
  }

  /// Adds the lanes of a row as core::sum_lanes() does.
  RINGPRESS_DEVICE static void store_sums(const Simt& simt, const LeftTask& task, std::size_t i,
                                          std::size_t k, const float* sums) {
    float sum[kRowsOfLane] = {sums[0], sums[1]};
    RINGPRESS_UNROLL
    for (unsigned distance = kLanesOfSum / 2; distance > 0; distance /= 2) {
      core::add_lanes(simt, distance, sum);
    }
    if (simt.lane() % kLanesOfSum != 0) return;
    const std::size_t rows = task.matrix.shape.rows;
    RINGPRESS_UNROLL
    for (unsigned r = 0; r < kRowsOfLane; ++r) {
      if (i + r < rows) simt.store(task.p + k * rows + i + r, sum[r]);
    }
  }

  /// The elements of one column in kRows rows from i on.
  template <std::size_t kRows>
  RINGPRESS_DEVICE static void load_column(const Simt& simt, const MatrixOnDevice& matrix,
                                           std::size_t i, std::size_t j, float (&x)[kRows]) {
    RINGPRESS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) x[r] = load(simt, matrix, i + r, j);
  }

  /// rows[k][r] = row i + r of column k of p, for `ranks` columns and kRows rows; zeros beyond the
  /// last row. All lanes take part.
  template <std::size_t kRows>
  RINGPRESS_DEVICE static void load_rows(const Simt& simt, std::size_t count, const float* p,
                                         std::size_t i, std::size_t ranks, float* rows) {
    for (std::size_t number = simt.lane(); number < ranks * kRows; number += core::kLanes) {
      const std::size_t row = i + number % kRows;
      const float* const from = p + number / kRows * count + row;
      rows[number] = row < count ? simt.template load<float>(from) : 0.0f;
    }
    simt.sync_warp();
  }

  /// The lane's column in a block of rows, times some columns of P from `first` on.
  RINGPRESS_DEVICE static void multiply_column(const Simt& simt, const RightTask& task,
                                               std::size_t block, std::size_t j, std::size_t first,
                                               const float (&x)[kRowsOfSum]) {
    const MatrixShape& shape = task.matrix.shape;
    const std::size_t rest = task.rank - first;
    const std::size_t ranks = rest < RightTask::kRanks ? rest : RightTask::kRanks;
    float* const p = static_cast<float*>(simt.warp_memory());
    load_rows<kRowsOfSum>(simt, shape.rows, task.p + first * shape.rows, block * kRowsOfSum, ranks,
                          p);
    RINGPRESS_ROLL
    for (std::size_t k = 0; k < ranks; ++k) {
      float sum = 0;
      RINGPRESS_UNROLL
      for (unsigned r = 0; r < kRowsOfSum; ++r) sum += x[r] * p[k * kRowsOfSum + r];
      if (j < shape.columns) {
        simt.store(task.sums + (block * task.rank + first + k) * shape.columns + j, sum);
      }
    }
    simt.sync_warp();  // Before the memory is written again.
  }

  /// kRows rows of a column; `p`: those rows of P.
  RINGPRESS_DEVICE static void rebuild_column(const Simt& simt, const RebuildTask& task,
                                              std::size_t i, std::size_t j, const float* p) {
    constexpr unsigned kRows = RebuildTask::kRows;
    const MatrixOnDevice& matrix = task.matrix;
    const std::size_t columns = matrix.shape.columns;
    float x[kRows] = {}, all[kRows] = {}, own[kRows] = {};
    if (matrix.residual != nullptr) load_column(simt, matrix, i, j, x);
    RINGPRESS_ROLL
    for (std::size_t k = 0; k < task.rank; ++k) {
      const float q = simt.template load<float>(task.q + k * stride_of(columns) + j);
      const float own_q = simt.template load<float>(task.own_q + k * columns + j);
      RINGPRESS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        const float factor = p[k * kRows + r];
        all[r] = k == 0 ? factor * q : all[r] + factor * q;
        own[r] = k == 0 ? factor * own_q : own[r] + factor * own_q;
      }
    }
    RINGPRESS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t index = (i + r) * columns + j;
      if (index >= matrix.count) continue;
      core::store_narrow<T>(simt, task.result, index, all[r]);
      if (matrix.residual == nullptr) continue;
      const float lost = x[r] - own[r];
      if (core::is_finite(lost)) simt.store(matrix.residual + index, lost);
    }
  }

  RINGPRESS_DEVICE static void spoil_column(const Simt& simt, const RebuildTask& task,
                                            std::size_t i, std::size_t j) {
    for (unsigned r = 0; r < RebuildTask::kRows; ++r) {
      const std::size_t index = (i + r) * task.matrix.shape.columns + j;
      if (index >= task.matrix.count) continue;
      core::store_narrow<T>(simt, task.result, index, core::float_of(core::kCanonicalNanBits));
    }
  }
};

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_MATRIX_AGENT_CUH_
