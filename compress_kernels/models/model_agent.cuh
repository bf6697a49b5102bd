// The kernels of device_tasks.h: groups of 8 neighbouring values to a lane, 16 bytes at a
// time.
#ifndef COMPRESS_KERNELS_MODELS_MODEL_AGENT_CUH_
#define COMPRESS_KERNELS_MODELS_MODEL_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/models/arithmetic.h"
#include "compress_kernels/models/device_tasks.h"

namespace ringpress::compress_kernels::models {

template <typename Simt, typename T>
class ModelAgent {
 public:
  /// A piece takes every kChangeParts-th row of groups: the sums do not depend on the number of
  /// warps.
  RINGPRESS_DEVICE static void run(const Simt& simt, const ChangeTask& task) {
    const std::size_t groups = (task.count + core::kGroup - 1) / core::kGroup;
    core::for_each_piece(simt, kChangeParts, [&](std::size_t piece) {
      float difference = 0, reference = 0;
      const std::size_t step = kChangeParts * core::kLanes;
      for (std::size_t group = piece * core::kLanes + simt.lane(); group < groups; group += step) {
        add_group(simt, task, group * core::kGroup, &difference, &reference);
      }
      if (piece * core::kLanes < groups) {  // Else no lane has seen anything.
        difference = sum_of_lanes(simt, difference);
        reference = sum_of_lanes(simt, reference);
      }
      if (simt.lane() != 0) return;
      simt.store(&task.parts[piece].difference_squares, static_cast<double>(difference));
      simt.store(&task.parts[piece].reference_squares, static_cast<double>(reference));
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const AverageTask& task) {
    for_each_group(simt, task.count, [&](std::size_t first, unsigned valid) {
      float own[core::kGroup], theirs[core::kGroup];
      core::load_group<T>(simt, task.values, first, valid, own);
      core::load_group<T>(simt, task.theirs, first, valid, theirs);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) own[k] = mean_of(own[k], theirs[k]);
      core::store_group<T>(simt, task.values, first, valid, own);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const DifferenceTask& task) {
    for_each_group(simt, task.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup], base[core::kGroup];
      core::load_group<T>(simt, task.values, first, valid, x);
      core::load_group<float>(simt, task.base, first, valid, base);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) x[k] -= base[k];
      core::store_group<float>(simt, task.difference, first, valid, x);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const HalfDifferenceTask& task) {
    for_each_group(simt, task.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup], own[core::kGroup], theirs[core::kGroup];
      core::load_group<T>(simt, task.values, first, valid, x);
      core::load_group<float>(simt, task.own, first, valid, own);
      core::load_group<float>(simt, task.theirs, first, valid, theirs);
      unsigned finite = 0;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        x[k] = moved(x[k], own[k], theirs[k]);
        finite |= core::is_finite(own[k]) && core::is_finite(theirs[k]) ? 1u << k : 0u;
      }
      if (finite != kAllFinite) simt.atomic_max(task.lost, task.mark);
      core::store_group<T>(simt, task.values, first, valid, x, finite);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const WidenTask& task) {
    core::for_each_lane(simt, task.count, [&](std::size_t i) {
      const auto* const from = static_cast<const std::byte*>(task.values) + i * sizeof(T);
      const float value = core::widen_raw<T>(simt.template load<core::Raw<T>>(from));
      simt.store(task.wide + i, static_cast<double>(value));
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const MeanTask& task) {
    core::for_each_lane(simt, task.count, [&](std::size_t i) {
      const double sum = simt.template load<double>(task.sums + i);
      core::store_narrow<T>(simt, task.values, i, mean_of_sum(sum, task.divisor));
    });
  }

  /// As of ChangeTask, in doubles: no square of a float is too large or too small for one.
  RINGPRESS_DEVICE static void run(const Simt& simt, const LengthTask& task) {
    const std::size_t groups = (task.count + core::kGroup - 1) / core::kGroup;
    core::for_each_piece(simt, kChangeParts, [&](std::size_t piece) {
      double values = 0, total = 0;
      const std::size_t step = kChangeParts * core::kLanes;
      for (std::size_t group = piece * core::kLanes + simt.lane(); group < groups; group += step) {
        add_group(simt, task, group * core::kGroup, &values, &total);
      }
      if (piece * core::kLanes < groups) {
        values = sum_of_lanes(simt, values);
        total = sum_of_lanes(simt, total);
      }
      if (simt.lane() != 0) return;
      simt.store(&task.parts[piece].value_squares, values);
      simt.store(&task.parts[piece].total_squares, total);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const AddValuesTask& task) {
    for_each_group(simt, task.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup], sum[core::kGroup];
      core::load_group<T>(simt, task.values, first, valid, x);
      core::load_group<float>(simt, task.sum, first, valid, sum);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) sum[k] += x[k];
      core::store_group<float>(simt, task.sum, first, valid, sum);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const TotalTask& task) {
    for_each_group(simt, task.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup], sum[core::kGroup];
      core::load_group<T>(simt, task.values, first, valid, x);
      core::load_group<float>(simt, task.sum, first, valid, sum);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) x[k] = sum[k] + x[k];
      core::store_group<T>(simt, task.to, first, valid, x);
    });
  }

 private:
  static constexpr unsigned kAllFinite = 0xFFu;

  RINGPRESS_DEVICE static unsigned valid_of(std::size_t count, std::size_t first) {
    const std::size_t rest = count - first;
    return rest < core::kGroup ? static_cast<unsigned>(rest) : core::kGroup;
  }

  /// Calls body(first, valid) for groups of neighbouring values.
  template <typename Body>
  RINGPRESS_DEVICE static void for_each_group(const Simt& simt, std::size_t count, Body&& body) {
    core::for_each_lane(simt, (count + core::kGroup - 1) / core::kGroup, [&](std::size_t group) {
      body(group * core::kGroup, valid_of(count, group * core::kGroup));
    });
  }

  RINGPRESS_DEVICE static void add_group(const Simt& simt, const ChangeTask& task,
                                         std::size_t first, float* difference, float* reference) {
    float x[core::kGroup], y[core::kGroup];
    const unsigned valid = valid_of(task.count, first);
    core::load_group<T>(simt, task.values, first, valid, x);
    core::load_group<T>(simt, task.reference, first, valid, y);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const float distance = x[k] - y[k];
      *difference += distance * distance;
      *reference += y[k] * y[k];
    }
  }

  RINGPRESS_DEVICE static void add_group(const Simt& simt, const LengthTask& task,
                                         std::size_t first, double* values, double* total) {
    float x[core::kGroup], sum[core::kGroup];
    const unsigned valid = valid_of(task.count, first);
    core::load_group<T>(simt, task.values, first, valid, x);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) *values += square_of(x[k]);
    if (task.sum == nullptr) return;
    core::load_group<float>(simt, task.sum, first, valid, sum);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) *total += square_of(sum[k] + x[k]);
  }

  RINGPRESS_DEVICE static double square_of(float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  }

  template <typename Sum>
  RINGPRESS_DEVICE static Sum sum_of_lanes(const Simt& simt, Sum value) {
    Sum sum[1] = {value};
    RINGPRESS_UNROLL
    for (unsigned mask = 1; mask < core::kLanes; mask *= 2) core::add_lanes(simt, mask, sum);
    return sum[0];
  }
};

}  // namespace ringpress::compress_kernels::models

#endif  // COMPRESS_KERNELS_MODELS_MODEL_AGENT_CUH_
