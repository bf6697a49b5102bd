// What the kernels of all projecting codecs have in common: the state of a tensor on the device,
// and how ranks agree whether they all have the same (DeviceProjectArgs). `Backend` launches them:
//
//   Status Backend::launch(Stream, DType, const Task&, std::size_t count) const
//
// for each task of */device_tasks.h; `count`: pieces of a WarpTask, blocks of a BlockTask.
#ifndef COMPRESS_KERNELS_CORE_PROJECTION_TASKS_H_
#define COMPRESS_KERNELS_CORE_PROJECTION_TASKS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::core {

/// The two numbers whose least values the ranks take.
struct StateTags {
  std::uint64_t call = 0;
  std::uint64_t complement = 0;  // The least of complements is that of the largest.
};

RINGPRESS_HOST_DEVICE inline StateTags tags_of(std::uint64_t state_call) {
  return {state_call, ~state_call};
}

/// True if every rank has a state, and all of them from the same call. `tags`: what the ranks have
/// agreed on.
RINGPRESS_HOST_DEVICE inline bool is_warm(const StateTags& tags) {
  return tags.call != 0 && tags.complement == ~tags.call;
}

/// What a kernel knows of a state.
struct DeviceState {
  float* values = nullptr;  // Null: none is kept.
  std::uint64_t* call = nullptr;
  const std::uint64_t* tags = nullptr;
};

inline DeviceState state_of(const DeviceProjectArgs& args) {
  return {args.call.state, args.state_call, args.tags};
}

/// What kernels want of the arrays of a call.
inline Status check_alignment(const DeviceProjectArgs& args, DType dtype) {
  RINGPRESS_RETURN_IF_ERROR(check_alignment(args.call.values, dtype_size(dtype)));
  RINGPRESS_RETURN_IF_ERROR(check_alignment(args.call.result, dtype_size(dtype)));
  return check_alignment(args.call.residual, sizeof(float));
}

inline std::size_t pieces_of(std::size_t count, std::size_t of_each) {
  return (count + of_each - 1) / of_each;
}

/// A kernel whose work is cut into pieces of a warp each.
struct WarpTask {
  static constexpr bool kByBlocks = false;
  static constexpr std::size_t kWarpMemory = 0;  // Bytes of shared memory of each warp.
};

/// A kernel whose blocks of threads, as many as are asked for, work together.
struct BlockTask {
  static constexpr bool kByBlocks = true;
  static constexpr std::size_t kWarpMemory = 0;
};

/// Fills `tags`. One piece.
struct OfferTask : WarpTask {
  DeviceState state;
  std::uint64_t* tags = nullptr;
};

/// Says what the state comes from, behind all who write it. One piece.
struct MarkTask : WarpTask {
  DeviceState state;
  std::uint64_t call = 0;  // Number of this one, plus 1.
};

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_PROJECTION_TASKS_H_
