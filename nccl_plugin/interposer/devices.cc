#include "nccl_plugin/interposer/devices.h"

#include <dlfcn.h>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// Host memory, in a process whose pointers are all ours to read.
Status check_host() {
  void* cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (cuda == nullptr) return Status::ok();
  dlclose(cuda);
  return {Code::kUnsupported, "RINGPRESS_BACKEND=host, but this process uses CUDA"};
}

}  // namespace

Result<std::unique_ptr<Device>> make_device(BackendChoice backend, int number) {
  // Without being told so, no pointer is taken for one to host memory.
  if (backend != Backend::kHost) return compress_kernels::make_cuda_device(number);
  RINGPRESS_RETURN_IF_ERROR(check_host());
  return make_host_device();
}

Status check_backend(BackendChoice backend) {
  return make_device(backend, 0).status();
}

}  // namespace ringpress::nccl_plugin::interposer
