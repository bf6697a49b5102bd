#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/cuda_runtime_api.h"

/// How far one has seen each stream.
using Clock = std::map<cudaStream_t, std::size_t>;

struct CUstream_st {
  cudaGraph_t graph = nullptr;  // That it is captured for.
  Clock clock;
};
struct CUevent_st {
  unsigned long long capture = 0;  // In which it was recorded.
  Clock clock;
  bool is_timing = false;
  std::optional<std::chrono::steady_clock::time_point> time;
};
struct FakeUserObject {
  void* pointer = nullptr;
  cudaHostFn_t destroy = nullptr;
};
struct FakeGraph {
  unsigned long long number = 0;
  bool is_spoilt = false;
  std::set<cudaStream_t> streams;
  std::vector<std::function<void()>> nodes;
  std::vector<FakeUserObject> objects;
};

namespace {

std::mutex mutex;
unsigned long long captures = 0;
std::map<unsigned long long, cudaGraph_t> active;
int allocations = 0;
thread_local int device = 0;
thread_local bool refuses_memory = false;
thread_local bool refuses_device_memory = false;
thread_local bool refuses_events = false;
thread_local bool refuses_new_events = false;
thread_local bool hides_captures = false;
thread_local int capture_queries = 0;
thread_local cudaError_t last_error = cudaSuccess;  // Of what may be tried in vain.
thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
thread_local cudaGraph_t own_capture = nullptr;

/// What only a relaxed thread may do while it captures.
cudaError_t check_unsafe() {
  if (own_capture == nullptr || mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  own_capture->is_spoilt = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t spoil(cudaGraph_t graph, cudaError_t error) {
  graph->is_spoilt = true;
  return error;
}

void merge(Clock& into, const Clock& from) {
  for (const auto& [stream, seen] : from) into[stream] = std::max(into[stream], seen);
}

}  // namespace

cudaError_t cudaPeekAtLastError() {
  return last_error;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorOfTheFake";
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the fake runtime";
}
cudaError_t cudaGetDevice(int* number) {
  *number = device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  device = number;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMinor ? 0 : 9;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = check_unsafe();
  if (error != cudaSuccess) return error;
  if (refuses_memory || refuses_device_memory) return last_error = cudaErrorMemoryAllocation;
  constexpr std::size_t kAlignment = 256;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xA5, bytes);
  ++allocations;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = check_unsafe();
  if (error != cudaSuccess) return error;
  std::free(memory);
  --allocations;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const bool is_refused = std::exchange(refuses_device_memory, false);
  const cudaError_t error = cudaMalloc(memory, bytes);
  refuses_device_memory = is_refused;
  return error;
}
cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}
static std::atomic<const void*> ordinary_memory{nullptr};
static std::atomic<const void*> memory_of_another{nullptr};
void fakeOrdinaryMemory(const void* memory) {
  ordinary_memory = memory;
}
void fakeMemoryOfAnother(const void* memory) {
  memory_of_another = memory;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const bool is_ordinary = memory != nullptr && memory == ordinary_memory.load();
  attributes->type = is_ordinary ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  attributes->device =
      memory != nullptr && memory == memory_of_another.load() ? device + 1 : device;
  return cudaSuccess;
}
void fakeRefuseMemory(bool is_refused) {
  refuses_memory = is_refused;
}
void fakeRefuseDeviceMemory(bool is_refused) {
  refuses_device_memory = is_refused;
}
void fakeRefuseEvents(bool is_refused) {
  refuses_events = is_refused;
}
void fakeRefuseNewEvents(bool is_refused) {
  refuses_new_events = is_refused;
}
void fakeHideCaptures(bool is_hidden) {
  hides_captures = is_hidden;
}
int fakeCaptureQueries() {
  return capture_queries;
}
int fakeAllocations() {
  const std::lock_guard lock(mutex);
  return allocations;
}

cudaError_t fakeEnqueue(cudaStream_t stream, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex);
    if (stream != nullptr && stream->graph != nullptr) {
      ++stream->clock[stream];
      stream->graph->nodes.push_back(std::move(work));
      return cudaSuccess;
    }
  }
  work();
  return cudaSuccess;
}
cudaError_t fakeLaunch(cudaStream_t stream, std::function<void()> work) {
  const cudaError_t error = fakeEnqueue(stream, std::move(work));
  return error == cudaSuccess ? cudaGetLastError() : error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return fakeEnqueue(stream, [=] { std::memset(memory, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return fakeEnqueue(stream, [=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr || stream->graph == nullptr) return check_unsafe();
  return spoil(stream->graph, cudaErrorStreamCaptureUnsupported);
}
static std::atomic<cudaError_t> state_of_streams{cudaSuccess};
void fakeStateOfStreams(cudaError_t state) {
  state_of_streams = state;
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  const cudaError_t error = check_unsafe();
  return error == cudaSuccess ? state_of_streams.load() : error;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (refuses_new_events) return last_error = cudaErrorMemoryAllocation;
  *event = new CUevent_st;
  (*event)->is_timing = flags != cudaEventDisableTiming;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (refuses_events) return cudaErrorInvalidValue;
  const std::lock_guard lock(mutex);
  const bool is_captured = stream != nullptr && stream->graph != nullptr;
  event->capture = is_captured ? stream->graph->number : 0;
  event->clock = is_captured ? stream->clock : Clock();
  if (event->is_timing && !is_captured) event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const cudaError_t unsafe = check_unsafe();
  if (unsafe != cudaSuccess) return unsafe;
  if (!begin->time || !end->time) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(mutex);
  if (event->capture == 0) {
    if (stream == nullptr || stream->graph == nullptr) return cudaSuccess;
    return spoil(stream->graph, cudaErrorStreamCaptureIsolation);
  }
  const auto capture = active.find(event->capture);
  if (capture == active.end()) return cudaErrorCapturedEvent;
  if (stream == nullptr) return spoil(capture->second, cudaErrorStreamCaptureIsolation);
  if (stream->graph == nullptr) {
    stream->graph = capture->second;
    stream->graph->streams.insert(stream);
  }
  if (stream->graph != capture->second) return cudaErrorStreamCaptureIsolation;
  merge(stream->clock, event->clock);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(mutex);
  own_capture = new FakeGraph;
  own_capture->number = ++captures;
  active[own_capture->number] = own_capture;
  stream->graph = own_capture;
  own_capture->streams.insert(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  cudaGraph_t ended = std::exchange(own_capture, nullptr);
  active.erase(ended->number);
  cudaError_t error = ended->is_spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  for (cudaStream_t joined : ended->streams) {
    joined->graph = nullptr;
    if (stream->clock[joined] < joined->clock[joined]) error = cudaErrorStreamCaptureUnjoined;
  }
  *graph = ended;
  return error;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t* graph) {
  ++capture_queries;
  if (hides_captures) return last_error = cudaErrorStreamCaptureImplicit;
  const std::lock_guard lock(mutex);
  const bool is_captured = stream != nullptr && stream->graph != nullptr;
  *status = is_captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (is_captured) *number = stream->graph->number;
  if (is_captured) *graph = stream->graph;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* exchanged) {
  std::swap(mode, *exchanged);
  return cudaSuccess;
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned, unsigned) {
  *object = new FakeUserObject{pointer, destroy};
  return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned) {
  object->destroy(object->pointer);
  delete object;
  return cudaSuccess;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned,
                                      unsigned) {
  const std::lock_guard lock(mutex);
  if (graph == nullptr) return cudaErrorInvalidValue;
  graph->objects.push_back(*object);
  delete object;
  return cudaSuccess;
}
void fakeReplay(cudaGraph_t graph) {
  for (const auto& node : graph->nodes) node();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::thread([graph] {
    for (const FakeUserObject& object : graph->objects) object.destroy(object.pointer);
  }).join();
  delete graph;
  return cudaSuccess;
}
