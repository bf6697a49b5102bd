#include "perf/codec_cuda/gpu_timer.h"

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace ringpress::perf {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

void require(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw std::runtime_error(fmt::format("{}: CUDA error {}", what, static_cast<int>(result)));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw std::runtime_error(fmt::format("no GPU: {} has no {}", kDriver, name));
  }
}

}  // namespace

/// The driver's functions, by the names that it exports, and what was made with them.
struct GpuTimer::Driver {
  CUresult (*init)(unsigned);
  CUresult (*device_get)(CUdevice*, int);
  CUresult (*retain_context)(CUcontext*, CUdevice);
  CUresult (*set_context)(CUcontext);
  CUresult (*create)(CUevent*, unsigned);
  CUresult (*destroy)(CUevent);
  CUresult (*record)(CUevent, CUstream);
  CUresult (*synchronize)(CUevent);
  CUresult (*elapsed)(float* milliseconds, CUevent, CUevent);
  CUevent begin = nullptr;
  CUevent end = nullptr;
};

GpuTimer::GpuTimer(int ordinal) : driver_(std::make_unique<Driver>()) {
  void* const library = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(fmt::format("no GPU: {}", dlerror()));
  find(library, "cuInit", driver_->init);
  find(library, "cuDeviceGet", driver_->device_get);
  find(library, "cuDevicePrimaryCtxRetain", driver_->retain_context);
  find(library, "cuCtxSetCurrent", driver_->set_context);
  find(library, "cuEventCreate", driver_->create);
  find(library, "cuEventDestroy_v2", driver_->destroy);
  find(library, "cuEventRecord", driver_->record);
  find(library, "cuEventSynchronize", driver_->synchronize);
  find(library, "cuEventElapsedTime", driver_->elapsed);
  CUdevice device = 0;
  CUcontext context = nullptr;
  require(driver_->init(0), "no GPU: cuInit");
  require(driver_->device_get(&device, ordinal), "no GPU: cuDeviceGet");
  require(driver_->retain_context(&context, device), "cuDevicePrimaryCtxRetain");
  require(driver_->set_context(context), "cuCtxSetCurrent");
  require(driver_->create(&driver_->begin, CU_EVENT_DEFAULT), "cuEventCreate");
  require(driver_->create(&driver_->end, CU_EVENT_DEFAULT), "cuEventCreate");
}

GpuTimer::~GpuTimer() {
  for (CUevent event : {driver_->begin, driver_->end}) {
    if (event != nullptr) static_cast<void>(driver_->destroy(event));
  }
}

double GpuTimer::seconds(Stream stream, const std::function<Status()>& work) {
  const auto queue = static_cast<CUstream>(stream);
  require(driver_->record(driver_->begin, queue), "cuEventRecord");
  if (const Status status = work(); !status.is_ok()) throw std::runtime_error(status.message());
  require(driver_->record(driver_->end, queue), "cuEventRecord");
  require(driver_->synchronize(driver_->end), "waiting for the GPU");
  float milliseconds = 0;
  require(driver_->elapsed(&milliseconds, driver_->begin, driver_->end), "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

}  // namespace ringpress::perf
