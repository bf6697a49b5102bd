// The kernels of topk:select=chunk, of which an operation takes several.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_KERNELS_H_
#define COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_KERNELS_H_

#include <cstddef>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/device_parameters.h"
#include "compress_kernels/chunk_topk/device_stages.h"
#include "compress_kernels/task_codec.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::chunk_topk {

struct DeviceKernels : PlainKernels<ChunkTopkParameters> {
  template <typename Use>
  static Status of_form(const Parameters& plan, Contributions, Use&& use) {
    return use(device_parameters(plan));
  }
  template <typename Use>
  static Status of_hop(const Parameters& plan, Contributions, Contributions, Use&& use) {
    return use(device_parameters(plan));
  }

  static std::size_t scratch_bytes(std::size_t shards, std::size_t count) {
    return chunk_topk::scratch_bytes(shards, count);
  }

  template <typename Backend, typename Task>
  static Status launch(const Backend& backend, const TaskPlace& place, Task& task,
                       core::Extent extent) {
    return launch_stages(backend, place.stream, place.dtype, task, extent, place.scratch);
  }
};

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_KERNELS_H_
