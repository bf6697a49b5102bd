// Data in GPU memory, through CUDA's driver.
//
// The driver's library is looked up when the program runs: so the program needs nothing of CUDA but
// the driver, of whatever version, and can say what is missing. The work shares the device's
// primary context with NCCL, which uses the CUDA runtime of its own.
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <utility>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/device_memory.h"

namespace ringpress::perf {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

/// The driver's functions, by the names that it exports: the header's names are macros for them.
struct Driver {
  decltype(&cuInit) init;
  decltype(&cuGetErrorName) error_name;
  decltype(&cuDeviceGetCount) device_count;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetName) device_name;
  decltype(&cuDeviceGetPCIBusId) device_position;
  decltype(&cuDevicePrimaryCtxRetain) retain_context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuMemAlloc) allocate;
  decltype(&cuMemFree) free;
  CUresult (*set)(CUdeviceptr, unsigned char, std::size_t);
  CUresult (*write)(CUdeviceptr, const void*, std::size_t);
  CUresult (*read)(void*, CUdeviceptr, std::size_t);
  CUresult (*copy)(CUdeviceptr, CUdeviceptr, std::size_t);
  decltype(&cuStreamCreate) create_stream;
  decltype(&cuStreamDestroy) destroy_stream;
  CUresult (*synchronize)(CUstream);
};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw terminal::Error(fmt::format("no GPU: {} has no {}", kDriver, name));
}

Driver open_driver() {
  void* const library = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw terminal::Error(fmt::format("no GPU: {}", dlerror()));
  Driver driver;
  find(library, "cuInit", driver.init);
  find(library, "cuGetErrorName", driver.error_name);
  find(library, "cuDeviceGetCount", driver.device_count);
  find(library, "cuDeviceGet", driver.device_get);
  find(library, "cuDeviceGetName", driver.device_name);
  find(library, "cuDeviceGetPCIBusId", driver.device_position);
  find(library, "cuDevicePrimaryCtxRetain", driver.retain_context);
  find(library, "cuCtxSetCurrent", driver.set_context);
  find(library, "cuMemAlloc_v2", driver.allocate);
  find(library, "cuMemFree_v2", driver.free);
  find(library, "cuMemsetD8_v2", driver.set);
  find(library, "cuMemcpyHtoD_v2", driver.write);
  find(library, "cuMemcpyDtoH_v2", driver.read);
  find(library, "cuMemcpyDtoD_v2", driver.copy);
  find(library, "cuStreamCreate", driver.create_stream);
  find(library, "cuStreamDestroy_v2", driver.destroy_stream);
  find(library, "cuStreamSynchronize", driver.synchronize);
  return driver;
}

const Driver& driver() {
  static const Driver* const opened = new Driver(open_driver());
  return *opened;
}

void require_cuda(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  const bool known = driver().error_name(result, &name) == CUDA_SUCCESS && name != nullptr;
  throw terminal::Error(
      fmt::format("{}: {}", what, known ? std::string(name) : std::to_string(int{result})));
}

int count_devices() {
  require_cuda(driver().init(0), "no GPU: cuInit");
  int count = 0;
  require_cuda(driver().device_count(&count), "no GPU: cuDeviceGetCount");
  if (count < 1) throw terminal::Error("no GPU: the driver shows none");
  return count;
}

CUdeviceptr address(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

// Copies do not run on the streams that calls run on, and some return early.
void finish(CUresult result, const char* what) {
  require_cuda(result, what);
  require_cuda(driver().synchronize(nullptr), what);
}

CUdevice selected_device = -1;

}  // namespace

void require_device() {
  // In a process of its own, since the driver may start threads.
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) throw terminal::Error("looking for a GPU: no pipe");
  const pid_t child = fork();
  if (child < 0) throw terminal::Error("looking for a GPU: no process");
  if (child == 0) {
    std::string problem;
    try {
      count_devices();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    const bool told = write(ends[1], problem.data(), problem.size()) >= 0;
    _exit(told && problem.empty() ? 0 : 1);
  }
  close(ends[1]);
  std::string problem;
  std::array<char, 256> text;
  for (ssize_t bytes = 0; (bytes = read(ends[0], text.data(), text.size())) > 0;) {
    problem.append(text.data(), static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status == 0) return;
  throw terminal::Error(problem.empty() ? "no GPU: the driver ended the process that asked"
                                        : problem);
}

void select_device(int local_rank) {
  const int count = count_devices();
  require_cuda(driver().device_get(&selected_device, local_rank % count), "cuDeviceGet");
  CUcontext context = nullptr;
  require_cuda(driver().retain_context(&context, selected_device), "cuDevicePrimaryCtxRetain");
  require_cuda(driver().set_context(context), "cuCtxSetCurrent");
}

bool device_is_asynchronous() {
  return true;
}

DeviceDescription describe_device() {
  std::array<char, 128> name{};
  std::array<char, 32> position{};
  require_cuda(driver().device_name(name.data(), int{name.size()}, selected_device),
               "cuDeviceGetName");
  require_cuda(driver().device_position(position.data(), int{position.size()}, selected_device),
               "cuDeviceGetPCIBusId");
  return {selected_device, position.data(), name.data()};
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  const std::size_t allocated = bytes == 0 ? 1 : bytes;
  CUdeviceptr pointer = 0;
  require_cuda(driver().allocate(&pointer, allocated), fmt::format("{} bytes of the GPU", bytes));
  data_ = reinterpret_cast<void*>(pointer);
  finish(driver().set(pointer, 0, allocated), "cuMemsetD8");
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) driver().free(address(data_));
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

void DeviceBuffer::write(std::size_t offset_bytes, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  finish(driver().write(address(data_) + offset_bytes, source, bytes), "cuMemcpyHtoD");
}

void DeviceBuffer::read(std::size_t offset_bytes, void* target, std::size_t bytes) const {
  if (bytes == 0) return;
  finish(driver().read(target, address(data_) + offset_bytes, bytes), "cuMemcpyDtoH");
}

void DeviceBuffer::copy_from(const DeviceBuffer& source, std::size_t bytes) {
  if (bytes == 0) return;
  finish(driver().copy(address(data_), address(source.data_), bytes), "cuMemcpyDtoD");
}

// Non-blocking, as nccl-tests' streams are: nothing in it waits for the default stream.
DeviceStream::DeviceStream() {
  require_cuda(driver().create_stream(&handle_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

DeviceStream::~DeviceStream() {
  driver().destroy_stream(handle_);
}

void DeviceStream::synchronize() const {
  require_cuda(driver().synchronize(handle_), "cuStreamSynchronize");
}

}  // namespace ringpress::perf
