// What the agents of all projecting codecs have in common. `Simt` is that of core/tile_agent.cuh,
// and
//
//   kBlockThreads                            of a block, in kernels by blocks
//   void sync_block()                        as a fence for memory of the block
//   void* block_memory()                     kBlockMemory bytes of shared memory
//   T exclusive_sum(T value, T& total)       the sum of the values of the threads before this one;
//                                            `total`: of all. All threads of the block meet
//
// Floats of the device's own memory are read and written one by one, by neighbouring lanes.
#ifndef COMPRESS_KERNELS_CORE_PROJECTION_AGENT_CUH_
#define COMPRESS_KERNELS_CORE_PROJECTION_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/projection_tasks.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"

namespace ringpress::compress_kernels::core {

/// Bytes of shared memory in kernels by blocks.
inline constexpr std::size_t kBlockMemory = 4096;

/// Calls body(piece) for the pieces of this warp.
template <typename Simt, typename Body>
RINGPRESS_DEVICE void for_each_piece(const Simt& simt, std::size_t pieces, Body&& body) {
  const std::size_t step = static_cast<std::size_t>(simt.blocks()) * simt.warps();
  std::size_t piece = static_cast<std::size_t>(simt.block()) * simt.warps() + simt.warp();
  for (; piece < pieces; piece += step) body(piece);
}

/// Calls body(number) for all numbers below `count`, neighbours in neighbouring lanes: pieces
/// of 32.
template <typename Simt, typename Body>
RINGPRESS_DEVICE void for_each_lane(const Simt& simt, std::size_t count, Body&& body) {
  for_each_piece(simt, (count + kLanes - 1) / kLanes, [&](std::size_t piece) {
    const std::size_t number = piece * kLanes + simt.lane();
    if (number < count) body(number);
  });
}

/// Element `index` of an array of T, plus its residual, if there is one.
template <typename T, typename Simt>
RINGPRESS_DEVICE float load_sum(const Simt& simt, const void* values, const float* residual,
                                std::size_t index) {
  const std::byte* from = static_cast<const std::byte*>(values) + index * sizeof(T);
  const float value = widen_raw<T>(simt.template load<Raw<T>>(from));
  return residual == nullptr ? value : value + simt.template load<float>(residual + index);
}

template <typename T, typename Simt>
RINGPRESS_DEVICE void store_narrow(const Simt& simt, void* values, std::size_t index, float value) {
  simt.store(static_cast<std::byte*>(values) + index * sizeof(T),
             static_cast<Raw<T>>(narrow_raw<T>(value)));
}

template <typename Simt>
RINGPRESS_DEVICE bool is_warm(const Simt& simt, const DeviceState& state) {
  if (state.values == nullptr) return false;
  return is_warm(StateTags{simt.template load<std::uint64_t>(state.tags),
                           simt.template load<std::uint64_t>(state.tags + 1)});
}

/// T: the elements of the tensor, which do not matter here.
template <typename Simt, typename T>
class StateAgent {
 public:
  RINGPRESS_DEVICE static void run(const Simt& simt, const OfferTask& task) {
    for_each_piece(simt, 1, [&](std::size_t) {
      if (simt.lane() != 0) return;
      const bool is_kept = task.state.values != nullptr;
      const StateTags tags =
          tags_of(is_kept ? simt.template load<std::uint64_t>(task.state.call) : 0);
      simt.store(task.tags, tags.call);
      simt.store(task.tags + 1, tags.complement);
    });
  }
  RINGPRESS_DEVICE static void run(const Simt& simt, const MarkTask& task) {
    for_each_piece(simt, 1, [&](std::size_t) {
      if (simt.lane() == 0) simt.store(task.state.call, task.call);
    });
  }
};

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_PROJECTION_AGENT_CUH_
