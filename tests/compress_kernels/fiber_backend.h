// What launches kernels on fibers of the host (tests/support/simt.h).
#ifndef TESTS_COMPRESS_KERNELS_FIBER_BACKEND_H_
#define TESTS_COMPRESS_KERNELS_FIBER_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress_kernels/core/device_tasks.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::testing {

/// `Backend` of task_codec.h and core/projection_tasks.h. Launches fewer warps than there are
/// tiles, so that some take several.
struct FiberBackend {
  std::uint32_t seed = 1;
  unsigned warps = 1;

  /// One specialisation for each task, where its family is.
  template <typename Task>
  Status launch(Stream, DType dtype, const Task& task, core::Extent extent) const;
  template <typename Task>
  Status launch(Stream, DType dtype, const Task& task, std::size_t count) const;
  Status zero(Stream, void* memory, std::size_t bytes) const {
    std::memset(memory, 0, bytes);
    return Status::ok();
  }
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_FIBER_BACKEND_H_
