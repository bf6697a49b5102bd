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
  RINGPRESS_DEVICE static void run(const Simt& simt, const ChangeTask& task) {
    sum_pieces<float>(simt, task, [&](ChangePart* part, const float(&sums)[2]) {
      simt.store(&part->difference_squares, static_cast<double>(sums[0]));
      simt.store(&part->reference_squares, static_cast<double>(sums[1]));
    });
  }

  /// In doubles: no square of a float is too large or too small for one.
  RINGPRESS_DEVICE static void run(const Simt& simt, const LengthTask& task) {
    sum_pieces<double>(simt, task, [&](LengthPart* part, const double(&sums)[2]) {
      simt.store(&part->value_squares, sums[0]);
      simt.store(&part->total_squares, sums[1]);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const AverageTask& task) {
    combine<T, T>(simt, task, task.theirs, task.values,
                  [](float own, float theirs) { return mean_of(own, theirs); });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const DifferenceTask& task) {
    combine<float, float>(simt, task, task.base, task.difference,
                          [](float x, float base) { return x - base; });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const AddValuesTask& task) {
    combine<float, float>(simt, task, task.sum, task.sum,
                          [](float x, float sum) { return sum + x; });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const TotalTask& task) {
    combine<float, T>(simt, task, task.sum, task.to, [](float x, float sum) { return sum + x; });
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

  /// Writes op() of the values and of `others`, a pair at a time, to `to`, which may be either.
  template <typename Other, typename To, typename Task, typename Op>
  RINGPRESS_DEVICE static void combine(const Simt& simt, const Task& task, const void* others,
                                       void* to, Op&& op) {
    for_each_group(simt, task.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup], y[core::kGroup];
      core::load_group<T>(simt, task.values, first, valid, x);
      core::load_group<Other>(simt, others, first, valid, y);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) x[k] = op(x[k], y[k]);
      core::store_group<To>(simt, to, first, valid, x);
    });
  }

  /// Calls store(part, sums) with what add_group() makes of the values of each part: every
  /// kChangeParts-th row of groups, so that sums do not depend on the number of warps.
  template <typename Sum, typename Task, typename Store>
  RINGPRESS_DEVICE static void sum_pieces(const Simt& simt, const Task& task, Store&& store) {
    const std::size_t groups = (task.count + core::kGroup - 1) / core::kGroup;
    core::for_each_piece(simt, kChangeParts, [&](std::size_t piece) {
      Sum sums[2] = {0, 0};
      const std::size_t step = kChangeParts * core::kLanes;
      for (std::size_t group = piece * core::kLanes + simt.lane(); group < groups; group += step) {
        add_group(simt, task, group * core::kGroup, sums);
      }
      if (piece * core::kLanes < groups) {  // Else no lane has seen anything.
        RINGPRESS_UNROLL
        for (unsigned mask = 1; mask < core::kLanes; mask *= 2) core::add_lanes(simt, mask, sums);
      }
      if (simt.lane() == 0) store(&task.parts[piece], sums);
    });
  }

  RINGPRESS_DEVICE static void add_group(const Simt& simt, const ChangeTask& task,
                                         std::size_t first, float (&sums)[2]) {
    float x[core::kGroup], y[core::kGroup];
    const unsigned valid = valid_of(task.count, first);
    core::load_group<T>(simt, task.values, first, valid, x);
    core::load_group<T>(simt, task.reference, first, valid, y);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const float distance = x[k] - y[k];
      sums[0] += distance * distance;
      sums[1] += y[k] * y[k];
    }
  }

  RINGPRESS_DEVICE static void add_group(const Simt& simt, const LengthTask& task,
                                         std::size_t first, double (&sums)[2]) {
    float x[core::kGroup], sum[core::kGroup];
    const unsigned valid = valid_of(task.count, first);
    core::load_group<T>(simt, task.values, first, valid, x);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) sums[0] += square_of(x[k]);
    if (task.sum == nullptr) return;
    core::load_group<float>(simt, task.sum, first, valid, sum);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) sums[1] += square_of(sum[k] + x[k]);
  }

  RINGPRESS_DEVICE static double square_of(float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};

}  // namespace ringpress::compress_kernels::models

#endif  // COMPRESS_KERNELS_MODELS_MODEL_AGENT_CUH_
