// The kernels of randk's all-reduce (randk_projection.cc, device_tasks.h). Slices are gathered and
// scattered value by value: they lie at random. What looks at all values goes 16 bytes at a time.
#ifndef COMPRESS_KERNELS_RANDK_RANDK_AGENT_CUH_
#define COMPRESS_KERNELS_RANDK_RANDK_AGENT_CUH_

#include <cstddef>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/randk/device_tasks.h"

namespace ringpress::compress_kernels::randk {

template <typename Simt, typename T>
class RandomAgent {
 public:
  RINGPRESS_DEVICE static void run(const Simt& simt, const GatherTask& task) {
    const std::size_t slice = slice_of(simt, task.choice);
    const Slices& slices = task.choice.slices;
    core::for_each_lane(simt, slices.longest() + 1, [&](std::size_t place) {
      float x = 0;
      if (place < slices.length(slice)) {
        x = core::load_sum<T>(simt, task.tensor.values, task.tensor.residual,
                              coordinate(task.choice, slice, place));
      }
      simt.store(task.own + place, x);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const ScanTask& task) {
    for_each_group(simt, task.tensor.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup];
      load(simt, task.tensor, first, valid, x);
      if (finite_mask(x) == kAllFinite) return;
      // Whoever writes, writes the same.
      simt.store(task.flag, core::float_of(core::kCanonicalNanBits));
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const KeepTask& task) {
    const bool is_finite = core::is_finite(simt.template load<float>(task.flag));
    const bool keeps = is_finite && task.tensor.residual != nullptr;
    const float fill = is_finite ? 0.0f : core::float_of(core::kCanonicalNanBits);
    for_each_group(simt, task.tensor.count, [&](std::size_t first, unsigned valid) {
      float x[core::kGroup];
      if (keeps) {
        load(simt, task.tensor, first, valid, x);
        core::store_group<float>(simt, task.tensor.residual, first, valid, x, finite_mask(x));
      }
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) x[k] = fill;
      core::store_group<T>(simt, task.result, first, valid, x);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const ScatterTask& task) {
    const Slices& slices = task.choice.slices;
    if (!core::is_finite(simt.template load<float>(task.sums + slices.longest()))) return;
    const std::size_t slice = slice_of(simt, task.choice);
    core::for_each_lane(simt, slices.length(slice), [&](std::size_t place) {
      const std::size_t to = coordinate(task.choice, slice, place);
      const float sum = simt.template load<float>(task.sums + place);
      core::store_narrow<T>(simt, task.result, to, result_of(sum, task.divisor, task.factor));
      if (task.residual == nullptr) return;
      const bool is_exact = task.dropped == nullptr;
      simt.store(task.residual + to,
                 is_exact ? 0.0f : simt.template load<float>(task.dropped + place));
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const AdvanceTask& task) {
    core::for_each_piece(simt, 1, [&](std::size_t) {
      if (simt.lane() != 0) return;
      SlicePlace place = place_of(simt, task.choice);
      if (core::is_finite(simt.template load<float>(task.flag))) {
        place = task.choice.slices.place_after(place);
      }
      simt.store(task.choice.state.values, place.first);
      simt.store(task.choice.state.values + 1, place.turn);
      simt.store(task.choice.state.call, task.call);
    });
  }

 private:
  static constexpr unsigned kAllFinite = 0xFFu;

  RINGPRESS_DEVICE static SlicePlace place_of(const Simt& simt, const SliceChoice& choice) {
    if (!core::is_warm(simt, choice.state)) return {choice.by_turn, 0};
    const float* const kept = choice.state.values;
    return {simt.template load<float>(kept), simt.template load<float>(kept + 1)};
  }
  RINGPRESS_DEVICE static std::size_t slice_of(const Simt& simt, const SliceChoice& choice) {
    return choice.slices.of_place(place_of(simt, choice));
  }
  RINGPRESS_DEVICE static std::size_t coordinate(const SliceChoice& choice, std::size_t slice,
                                                 std::size_t place) {
    return choice.permutation(choice.slices.first(slice) + place);
  }

  /// Calls body(first, valid) for groups of neighbouring values.
  template <typename Body>
  RINGPRESS_DEVICE static void for_each_group(const Simt& simt, std::size_t count, Body&& body) {
    core::for_each_lane(simt, (count + core::kGroup - 1) / core::kGroup, [&](std::size_t group) {
      const std::size_t first = group * core::kGroup;
      const std::size_t rest = count - first;
      body(first, rest < core::kGroup ? static_cast<unsigned>(rest) : core::kGroup);
    });
  }

  /// x = values plus their residual; 0 beyond the end.
  RINGPRESS_DEVICE static void load(const Simt& simt, const TensorOnDevice& tensor,
                                    std::size_t first, unsigned valid, float (&x)[core::kGroup]) {
    core::load_group<T>(simt, tensor.values, first, valid, x);
    if (tensor.residual == nullptr) return;
    float r[core::kGroup];
    core::load_group<float>(simt, tensor.residual, first, valid, r);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) x[k] += r[k];
  }

  RINGPRESS_DEVICE static unsigned finite_mask(const float (&x)[core::kGroup]) {
    unsigned mask = 0;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) mask |= core::is_finite(x[k]) ? 1u << k : 0u;
    return mask;
  }
};

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_RANDK_AGENT_CUH_
