// A CUDA runtime on host memory, for tests: the part of the API that cuda_device.cu uses, and what
// a program needs to capture and replay. Streams do at once what they are asked for, unless they
// are captured. What the real runtime forbids during a capture is an error here too, and spoils it.
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUDA_RUNTIME_API_H_
#define TESTS_SUPPORT_FAKE_CUDA_CUDA_RUNTIME_API_H_

#include <cstddef>
#include <functional>

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocPortable = 1;
inline constexpr unsigned cudaUserObjectNoDestructorSync = 1;
inline constexpr unsigned cudaGraphUserObjectMove = 1;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct FakeGraph*;
using cudaUserObject_t = struct FakeUserObject*;
using cudaHostFn_t = void (*)(void*);

/// Of memory that there was none of, of events, and of captures that are not told. Other errors a
/// thread is told of are not kept here.
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
/// All memory is the device's, but for what a test says is not, or is another's (null: nothing).
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory);
void fakeOrdinaryMemory(const void* memory);
void fakeMemoryOfAnother(const void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
/// Not ready if one of them was never recorded, or without timing.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

/// Captures of one thread in mode ThreadLocal.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t* graph);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags);
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count);
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags);
/// Lets user objects go in a thread of the runtime's.
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

/// Not CUDA's. Runs what was captured, in its order.
void fakeReplay(cudaGraph_t graph);
/// Something that runs in a stream.
cudaError_t fakeEnqueue(cudaStream_t stream, std::function<void()> work);
/// A kernel: whoever asks what became of its launch hears of this thread's last error.
cudaError_t fakeLaunch(cudaStream_t stream, std::function<void()> work);
/// cudaMalloc()s and cudaHostAlloc()s that were not freed.
int fakeAllocations();
/// From now on, what this thread asks for memory, or to record events, fails, or does no more.
void fakeRefuseMemory(bool is_refused);
void fakeRefuseDeviceMemory(bool is_refused);
void fakeRefuseEvents(bool is_refused);
void fakeRefuseNewEvents(bool is_refused);
/// As of the default stream while another thread captures.
void fakeHideCaptures(bool is_hidden);
/// How often this thread has asked whether a stream is captured.
int fakeCaptureQueries();
/// Of all threads: what cudaStreamQuery() answers.
void fakeStateOfStreams(cudaError_t state);

#endif  // TESTS_SUPPORT_FAKE_CUDA_CUDA_RUNTIME_API_H_
