/* A driver for GPUs that are ordinary memory, built as libcuda.so.1 for the tests of what surrounds
 * a GPU: what all_reduce_perf_cuda and the machine's description ask for, and nothing else.
 *
 * FAKE_CUDA_DEVICES  how many there are; 1 if not set */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC visibility push(default)

static int devices(void) {
  const char* count = getenv("FAKE_CUDA_DEVICES");
  return count == NULL ? 1 : atoi(count);
}

static void* memory(CUdeviceptr address) {
  return (void*)(size_t)address;
}

CUresult cuInit(unsigned int flags) {
  (void)flags;
  return devices() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (error == CUDA_ERROR_NO_DEVICE) {
    *name = "CUDA_ERROR_NO_DEVICE";
  } else if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = devices();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return index < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  snprintf(name, (size_t)size, "fake GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* position, int size, CUdevice device) {
  snprintf(position, (size_t)size, "0000:%02x:00.0", (unsigned)device & 0xffU);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = (CUcontext)(size_t)(device + 1);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Not zeroed, as a GPU's is not. */
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  void* const data = malloc(bytes);
  *address = (CUdeviceptr)(size_t)data;
  if (data == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(data, 0xA5, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  free(memory(address));
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t bytes) {
  memset(memory(address), value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr target, const void* source, size_t bytes) {
  memcpy(memory(target), source, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void* target, CUdeviceptr source, size_t bytes) {
  memcpy(target, memory(source), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoD(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  memcpy(memory(target), memory(source), bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  *stream = (CUstream)malloc(1);
  return flags <= CU_STREAM_NON_BLOCKING ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamDestroy(CUstream stream) {
  free(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

/* Work is done when it is asked for, so events have happened when they are recorded. */
CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  (void)flags;
  *event = calloc(1, sizeof(struct timespec));
  return *event != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  (void)stream;
  clock_gettime(CLOCK_MONOTONIC, (struct timespec*)event);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  (void)event;
  return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  const struct timespec* from = (const struct timespec*)begin;
  const struct timespec* to = (const struct timespec*)end;
  *milliseconds = (float)((double)(to->tv_sec - from->tv_sec) * 1e3 +
                          (double)(to->tv_nsec - from->tv_nsec) * 1e-6);
  return CUDA_SUCCESS;
}

/* It has no graphs. */
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  (void)stream, (void)mode;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  (void)stream, (void)graph;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* instance, CUgraph graph,
                                     unsigned long long flags) {
  (void)instance, (void)graph, (void)flags;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphLaunch(CUgraphExec instance, CUstream stream) {
  (void)instance, (void)stream;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphExecDestroy(CUgraphExec instance) {
  (void)instance;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphDestroy(CUgraph graph) {
  (void)graph;
  return CUDA_ERROR_NOT_SUPPORTED;
}
