// The kernels of powersgd that work on P and Q alone, and on values that are sent as they are
// (device_tasks.h).
#ifndef COMPRESS_KERNELS_POWERSGD_COLUMN_AGENT_CUH_
#define COMPRESS_KERNELS_POWERSGD_COLUMN_AGENT_CUH_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/powersgd/arithmetic.h"
#include "compress_kernels/powersgd/block_sum.cuh"
#include "compress_kernels/powersgd/device_tasks.h"

namespace ringpress::compress_kernels::powersgd {

template <typename Simt, typename T>
class ColumnAgent {
 public:
  RINGPRESS_DEVICE static void run(const Simt& simt, const StartTask& task) {
    const Columns& columns = task.columns;
    const bool is_warm = core::is_warm(simt, columns.state);
    const std::size_t groups = groups_of(columns);
    core::for_each_lane(simt, groups * columns.rank, [&](std::size_t number) {
      const std::size_t k = number / groups;
      float* const q = task.q + k * stride_of(columns.count);
      const float* const state = columns.state.values + k * columns.count;
      draw_group(columns, k, number % groups, [&](std::size_t i, float drawn) {
        simt.store(q + i, is_warm ? simt.template load<float>(state + i) : drawn);
      });
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const OrthonormaliseTask& task) {
    BlockSum<Simt> block(simt);
    if (!block.all_finite(task.p, task.rank * task.rows)) {
      if (block.thread() == 0) simt.store(task.p, core::float_of(core::kCanonicalNanBits));
      return;
    }
    for (std::size_t k = 0; k < task.rank; ++k) orthonormalise_column(simt, block, task, k);
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const AddTask& task) {
    const bool is_finite = core::is_finite(simt.template load<float>(task.p));
    core::for_each_lane(simt, task.count, [&](std::size_t i) {
      float sum = 0;
      for (std::size_t b = 0; b < task.blocks; ++b) {
        sum += simt.template load<float>(task.sums + b * task.count + i);
      }
      simt.store(task.own + i, is_finite ? sum : 0.0f);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const SettleTask& task) {
    BlockSum<Simt> block(simt);
    const bool is_finite = block.all_finite(task.sums, task.rank * task.columns) &&
                           core::is_finite(simt.template load<float>(task.p));
    if (block.thread() == 0) {
      simt.store(task.flag, is_finite ? 0.0f : core::float_of(core::kCanonicalNanBits));
    }
    for (std::size_t k = 0; k < task.rank; ++k) {
      block.for_each(task.columns, [&](std::size_t i) {
        const float sum = simt.template load<float>(task.sums + k * task.columns + i);
        simt.store(task.q + k * stride_of(task.columns) + i, core::divide(sum, task.divisor));
      });
    }
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const StateTask& task) {
    const Columns& columns = task.columns;
    if (core::is_finite(simt.template load<float>(task.flag))) {
      if (!keep_column(simt, task)) draw_column(simt, columns);
    } else if (!core::is_warm(simt, columns.state)) {
      draw_column(simt, columns);
    }
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const LoadTask& task) {
    core::for_each_lane(simt, task.count, [&](std::size_t i) {
      simt.store(task.own + i, core::load_sum<T>(simt, task.values, task.residual, i));
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const StoreTask& task) {
    core::for_each_lane(simt, task.count, [&](std::size_t i) {
      const float sum = simt.template load<float>(task.sums + i);
      core::store_narrow<T>(simt, task.result, i, core::divide(sum, task.divisor));
      if (task.residual == nullptr) return;
      if (core::is_finite(simt.template load<float>(task.own + i))) {
        simt.store(task.residual + i, 0.0f);
      }
    });
  }

 private:
  RINGPRESS_DEVICE static std::size_t groups_of(const Columns& columns) {
    return (columns.count + core::kElementsPerGroup - 1) / core::kElementsPerGroup;
  }

  /// Calls use(index, random value) for a group of column k.
  template <typename Use>
  RINGPRESS_DEVICE static void draw_group(const Columns& columns, std::size_t k, std::size_t group,
                                          Use&& use) {
    const philox4x32_ctr_t words = words_of_group(columns.random, k, columns.count, group);
    const std::size_t first = group * core::kElementsPerGroup;
    RINGPRESS_UNROLL
    for (std::uint32_t i = 0; i < core::kElementsPerGroup; ++i) {
      if (first + i < columns.count) use(first + i, drawn_value(words, i, columns.factor));
    }
  }

  /// The block's column of the sums, of norm 1. False, and nothing is changed, if it is zero.
  RINGPRESS_DEVICE static bool keep_column(const Simt& simt, const StateTask& task) {
    const std::size_t count = task.columns.count;
    const float* const sums = task.sums + simt.block() * count;
    float* const state = task.columns.state.values + simt.block() * count;
    BlockSum<Simt> block(simt);
    const double square = block.dot(sums, sums, count);
    if (!(square > 0)) return false;
    const double factor = 1 / std::sqrt(square);
    block.for_each(count, [&](std::size_t i) {
      simt.store(state + i, scaled(simt.template load<float>(sums + i), factor));
    });
    return true;
  }

  RINGPRESS_DEVICE static void draw_column(const Simt& simt, const Columns& columns) {
    float* const state = columns.state.values + simt.block() * columns.count;
    BlockSum<Simt>(simt).for_each(groups_of(columns), [&](std::size_t group) {
      draw_group(columns, simt.block(), group,
                 [&](std::size_t i, float drawn) { simt.store(state + i, drawn); });
    });
  }

  /// A thread reads and writes the same values of each column, so only the sums are waited for.
  RINGPRESS_DEVICE static void orthonormalise_column(const Simt& simt, BlockSum<Simt>& block,
                                                     const OrthonormaliseTask& task,
                                                     std::size_t k) {
    float* const column = task.p + k * task.rows;
    const double whole = block.dot(column, column, task.rows);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t m = 0; m < k; ++m) {
        const float* const unit = task.p + m * task.rows;
        const double part = block.dot(column, unit, task.rows);
        block.for_each(task.rows, [&](std::size_t i) {
          simt.store(column + i, without_part(simt.template load<float>(column + i), part,
                                              simt.template load<float>(unit + i)));
        });
      }
    }
    const double left = block.dot(column, column, task.rows);
    const bool is_kept = is_worth_keeping(left, whole);
    const double factor = 1 / std::sqrt(left);
    block.for_each(task.rows, [&](std::size_t i) {
      const float value = simt.template load<float>(column + i);
      simt.store(column + i, is_kept ? scaled(value, factor) : 0.0f);
    });
  }
};

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_COLUMN_AGENT_CUH_
