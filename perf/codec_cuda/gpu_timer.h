// Times work in a stream of a GPU by CUDA's events.
#ifndef PERF_CODEC_CUDA_GPU_TIMER_H_
#define PERF_CODEC_CUDA_GPU_TIMER_H_

#include <functional>
#include <memory>

#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::perf {

/// Needs nothing of CUDA but the driver, which is looked for when this is made. All functions throw
/// std::runtime_error if the driver, or what is timed, refuses.
class GpuTimer {
 public:
  /// Shares the context of the CUDA runtime on this device, which becomes this thread's.
  explicit GpuTimer(int ordinal);
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  /// Seconds on the device, from what was asked for in `stream` before to the end of `work`. Waits
  /// for it.
  double seconds(Stream stream, const std::function<Status()>& work);

 private:
  struct Driver;
  std::unique_ptr<Driver> driver_;
};

}  // namespace ringpress::perf

#endif  // PERF_CODEC_CUDA_GPU_TIMER_H_
