// Device on CUDA's runtime, which is linked in: a program needs nothing but the driver.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "compress_kernels/cuda/backend.cuh"
#include "compress_kernels/cuda/module.h"
#include "compress_kernels/cuda/tuning.h"
#include "compress_kernels/device_family.h"
#include "compress_kernels/models/task_models.h"
#include "compress_kernels/scales/task_scales.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::cuda {
namespace {

/// Lets this thread do what a stream that it captures would forbid: make and free memory, ask about
/// events of other streams.
class AllowedDuringCapture {
 public:
  AllowedDuringCapture() {
    exchanged_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
  }
  ~AllowedDuringCapture() {
    if (exchanged_) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  AllowedDuringCapture(const AllowedDuringCapture&) = delete;
  AllowedDuringCapture& operator=(const AllowedDuringCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool exchanged_ = false;
};

/// What a stream is being captured for.
struct Capture {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  cudaGraph_t graph = nullptr;
};

Result<Capture> capture_of(Stream stream) {
  Capture found;
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream),
                                                     &found.status, &found.number, &found.graph);
#else
  const cudaError_t error = cudaStreamGetCaptureInfo_v2(static_cast<cudaStream_t>(stream),
                                                        &found.status, &found.number, &found.graph);
#endif
  RINGPRESS_RETURN_IF_ERROR(status_of(error, "asking whether a stream is captured"));
  return found;
}

Result<Event> make_event(int ordinal, unsigned flags) {
  const CurrentDevice current(ordinal);
  RINGPRESS_RETURN_IF_ERROR(current.status());
  cudaEvent_t event = nullptr;
  RINGPRESS_RETURN_IF_ERROR(
      status_of(cudaEventCreateWithFlags(&event, flags), "creating an event"));
  return Event(event);
}

/// Its memory.
class CudaMemory : public Device {
 public:
  explicit CudaMemory(const CudaBackend& backend) : backend_(backend) {}

  Result<void*> allocate(std::size_t bytes) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    RINGPRESS_RETURN_IF_ERROR(current.status());
    void* memory = nullptr;
    RINGPRESS_RETURN_IF_ERROR(status_of(cudaMalloc(&memory, bytes), "allocating memory"));
    return memory;
  }
  void free(void* memory) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    forget(cudaFree(memory));
  }

  Result<void*> allocate_host(std::size_t bytes) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    RINGPRESS_RETURN_IF_ERROR(current.status());
    void* memory = nullptr;
    RINGPRESS_RETURN_IF_ERROR(
        status_of(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "allocating host memory"));
    return memory;
  }
  void free_host(void* memory) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    forget(cudaFreeHost(memory));
  }

 protected:
  const CudaBackend backend_;
};

class CudaDevice final : public CudaMemory {
 public:
  CudaDevice(const CudaBackend& backend, const PlanMakers& make_plan)
      : CudaMemory(backend), make_plan_(make_plan) {}

  const char* name() const override { return "cuda"; }

  Result<Stream> create_stream() override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    cudaStream_t stream = nullptr;
    RINGPRESS_RETURN_IF_ERROR(
        status_of(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
    return Stream(stream);
  }
  void destroy_stream(Stream stream) override {
    const CurrentDevice current(backend_.ordinal);
    static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
  }

  Result<Event> create_event() override {
    return make_event(backend_.ordinal, cudaEventDisableTiming);
  }
  Result<Event> create_timing_event() override {
    return make_event(backend_.ordinal, cudaEventDefault);
  }
  void destroy_event(Event event) override {
    const CurrentDevice current(backend_.ordinal);
    static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
  }
  Result<double> seconds_between(Event begin, Event end) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    RINGPRESS_RETURN_IF_ERROR(current.status());
    float milliseconds = 0;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin),
                                                   static_cast<cudaEvent_t>(end));
    forget(error);
    if (error == cudaErrorNotReady) return -1.0;
    RINGPRESS_RETURN_IF_ERROR(status_of(error, "asking for the time between events"));
    return milliseconds * 1e-3;
  }

  Status record(Event event, Stream stream) override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    return status_of(
        cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)),
        "recording an event");
  }
  Status wait(Stream stream, Event event) override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    return status_of(
        cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0),
        "waiting for an event");
  }
  Result<std::uint64_t> capture(Stream stream) override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    RINGPRESS_ASSIGN_OR_RETURN(const Capture found, capture_of(stream));
    // A capture that has failed already counts as one: what is asked for fails anyway. 0 means
    // none.
    return found.status == cudaStreamCaptureStatusNone ? 0 : std::uint64_t{found.number} + 1;
  }
  Status keep_with_graph(Stream stream, std::shared_ptr<void> object) override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    RINGPRESS_ASSIGN_OR_RETURN(const Capture found, capture_of(stream));
    auto kept = std::make_unique<std::shared_ptr<void>>(std::move(object));
    const auto let_go = [](void* pointer) { delete static_cast<std::shared_ptr<void>*>(pointer); };
    cudaUserObject_t user = nullptr;
    RINGPRESS_RETURN_IF_ERROR(status_of(
        cudaUserObjectCreate(&user, kept.get(), let_go, 1, cudaUserObjectNoDestructorSync),
        "making an object for a graph"));
    static_cast<void>(kept.release());  // From here on the runtime's.
    const cudaError_t error =
        cudaGraphRetainUserObject(found.graph, user, 1, cudaGraphUserObjectMove);
    if (error != cudaSuccess) static_cast<void>(cudaUserObjectRelease(user, 1));
    return status_of(error, "keeping an object with a graph");
  }

  Status zero(Stream stream, void* memory, std::size_t bytes) override {
    return backend_.zero(stream, memory, bytes);
  }
  Status copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    RINGPRESS_RETURN_IF_ERROR(current.status());
    return status_of(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)),
        "copying memory");
  }

  Status synchronize(Stream stream) override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    const AllowedDuringCapture allowed;
    return status_of(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)),
                     "waiting for a stream");
  }

  Status find_failure(Stream stream) override {
    const CurrentDevice current(backend_.ordinal);
    const AllowedDuringCapture allowed;
    RINGPRESS_RETURN_IF_ERROR(current.status());
    const cudaError_t error = cudaStreamQuery(static_cast<cudaStream_t>(stream));
    forget(error);
    // While another thread captures, the default stream does not say.
    const bool has_failed = error != cudaErrorNotReady && error != cudaErrorStreamCaptureImplicit;
    return has_failed ? status_of(error, "what was asked for in a stream") : Status::ok();
  }

  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(PlannedCodec planned, make_plan_.codec(specification, dtype, op));
    return make_device_codec(std::move(planned), backend_);
  }
  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string& specification,
                                                            DType dtype, ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(PlannedCodec planned,
                               make_plan_.projection(specification, dtype, op));
    return make_device_projection(std::move(planned), backend_);
  }
  Result<std::unique_ptr<DeviceModels>> make_models() override {
    return std::unique_ptr<DeviceModels>(
        std::make_unique<models::TaskModels<CudaBackend>>(backend_));
  }
  Result<std::unique_ptr<DeviceScales>> make_scales() override {
    return std::unique_ptr<DeviceScales>(
        std::make_unique<scales::TaskScales<CudaBackend>>(backend_));
  }
  Status check_reachable(const void* memory) override {
    const CurrentDevice current(backend_.ordinal);
    RINGPRESS_RETURN_IF_ERROR(current.status());
    cudaPointerAttributes attributes{};
    RINGPRESS_RETURN_IF_ERROR(
        status_of(cudaPointerGetAttributes(&attributes, memory), "asking where memory is"));
    if (attributes.type == cudaMemoryTypeUnregistered) {
      return {Code::kInvalidArgument,
              "a pointer to ordinary host memory, which kernels cannot reach"};
    }
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != backend_.ordinal) {
      return {Code::kInvalidArgument, "memory of device " + std::to_string(attributes.device) +
                                          ", not of the communicator's, " +
                                          std::to_string(backend_.ordinal)};
    }
    return Status::ok();
  }

 private:
  const PlanMakers make_plan_;
};

Result<int> attribute(cudaDeviceAttr name, int ordinal) {
  int value = 0;
  RINGPRESS_RETURN_IF_ERROR(
      status_of(cudaDeviceGetAttribute(&value, name, ordinal), "asking for a device's attributes"));
  return value;
}

Result<std::unique_ptr<Device>> open_device(int ordinal, const PlanMakers& make_plan) {
  RINGPRESS_ASSIGN_OR_RETURN(const int major,
                             attribute(cudaDevAttrComputeCapabilityMajor, ordinal));
  RINGPRESS_ASSIGN_OR_RETURN(const int minor,
                             attribute(cudaDevAttrComputeCapabilityMinor, ordinal));
  RINGPRESS_ASSIGN_OR_RETURN(const int multiprocessors,
                             attribute(cudaDevAttrMultiProcessorCount, ordinal));
  const Tuning tuning = tuning_for(10 * major + minor);
  const auto all = static_cast<unsigned>(multiprocessors);
  const CudaBackend backend{ordinal, all * tuning.blocks_per_multiprocessor, all};
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(backend, make_plan));
}

}  // namespace
}  // namespace ringpress::compress_kernels::cuda

/// ModuleLayout and ModuleEntry of module.h.
extern "C" __attribute__((visibility("default"))) std::uint64_t ringpress_cuda_layout() {
  return ringpress::compress_kernels::cuda::kLayout;
}
extern "C" __attribute__((visibility("default"))) void ringpress_cuda_open(
    int ordinal, const ringpress::compress_kernels::cuda::PlanMakers& make_plan,
    ringpress::Result<std::unique_ptr<ringpress::Device>>* opened) {
  static_cast<void>(*opened = ringpress::compress_kernels::cuda::open_device(ordinal, make_plan));
}
