// How codecs of a device launch CUDA's kernels, and what that takes of the runtime.
#ifndef COMPRESS_KERNELS_CUDA_BACKEND_CUH_
#define COMPRESS_KERNELS_CUDA_BACKEND_CUH_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/cuda/launch.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::cuda {

/// The runtime keeps an error as this thread's last one, and who asks next, after a launch, would
/// take it for his.
inline void forget(cudaError_t error) {
  if (error != cudaSuccess && cudaPeekAtLastError() == error) static_cast<void>(cudaGetLastError());
}

/// Not all of them end a call: what may be tried in vain leaves nothing behind.
inline Status status_of(int error, const char* what) {
  if (error == cudaSuccess) return Status::ok();
  const auto code = static_cast<cudaError_t>(error);
  forget(code);
  return Status(Code::kDevice, std::string("CUDA: ") + what + ": " + cudaGetErrorName(code) + ": " +
                                   cudaGetErrorString(code));
}

/// Makes a device the current one of this thread, and puts the former back.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    error_ = cudaGetDevice(&former_);
    if (error_ == cudaSuccess && former_ != ordinal) {
      error_ = cudaSetDevice(ordinal);
      changed_ = error_ == cudaSuccess;
    }
  }
  ~CurrentDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(former_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  Status status() const { return status_of(error_, "choosing the device"); }

 private:
  cudaError_t error_ = cudaSuccess;
  int former_ = 0;
  bool changed_ = false;
};

/// `Backend` of task_codec.h and core/projection_tasks.h.
struct CudaBackend {
  int ordinal = 0;
  unsigned most_blocks = 1;
  unsigned multiprocessors = 1;

  template <typename Task>
  Status launch(Stream stream, DType dtype, const Task& task, core::Extent extent) const {
    const CurrentDevice current(ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    return status_of(
        cuda::launch(task, Target{stream, dtype, extent, most_blocks, multiprocessors}),
        "launching a kernel");
  }
  template <typename Task>
  Status launch(Stream stream, DType dtype, const Task& task, std::size_t count) const {
    const CurrentDevice current(ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    return status_of(launch_projection(task, ProjectionTarget{stream, dtype, count, most_blocks}),
                     "launching a kernel");
  }

  Status zero(Stream stream, void* memory, std::size_t bytes) const {
    const CurrentDevice current(ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    return status_of(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream)),
                     "zeroing memory");
  }
};

}  // namespace ringpress::compress_kernels::cuda

#endif  // COMPRESS_KERNELS_CUDA_BACKEND_CUH_
