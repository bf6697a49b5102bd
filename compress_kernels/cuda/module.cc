// Finds libringpress-cuda.so: beside the library or program that this code is a part of, else where
// the loader looks.
#include "compress_kernels/cuda/module.h"

#include <dlfcn.h>

#include <utility>

#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

/// `make_plan`: make_device_plan() or make_projection_plan().
template <Result<DevicePlan> make_plan(const std::string&, DType)>
Result<PlannedCodec> plan_codec(const std::string& specification, DType dtype, ReduceOp op) {
  RINGPRESS_ASSIGN_OR_RETURN(const DevicePlan plan, make_plan(specification, dtype));
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Codec> codec, make_codec(specification, dtype, op));
  return PlannedCodec{std::move(codec), plan};
}

/// The folder of this code with a slash at its end; empty if it is not known.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string path(info.dli_fname);
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// The library at a path, or null with the loader's message added to `why`.
void* open_library(const std::string& path, std::string& why) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const message = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(message == nullptr ? path : message);
  }
  return library;
}

/// The module's entry, or null and why. It is never closed: CUDA's runtime does not take that well.
cuda::ModuleEntry find_entry(std::string& why) {
  void* library = nullptr;
  const std::string folder = own_folder();
  if (!folder.empty()) library = open_library(folder + kKernelLibrary, why);
  if (library == nullptr) library = open_library(kKernelLibrary, why);
  if (library == nullptr) return nullptr;
  const std::string problem = kernel_library_problem(library);
  if (!problem.empty()) {
    why = kKernelLibrary + problem;
    return nullptr;
  }
  return reinterpret_cast<cuda::ModuleEntry>(dlsym(library, cuda::kModuleEntry));
}

}  // namespace

std::string kernel_library_problem(void* library) {
  if (dlsym(library, cuda::kModuleEntry) == nullptr) {
    return std::string(" has no ") + cuda::kModuleEntry;
  }
  const auto layout = reinterpret_cast<cuda::ModuleLayout>(dlsym(library, cuda::kModuleLayout));
  if (layout != nullptr && layout() == cuda::kLayout) return "";
  return " is of another build than this library: build the target ringpress_cuda again";
}

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
  std::string why;
  const cuda::ModuleEntry entry = find_entry(why);
  if (entry == nullptr) return Status(Code::kUnsupported, "no CUDA kernels: " + why);
  Result<std::unique_ptr<Device>> opened(Status(Code::kInternal, "no device was opened"));
  entry(ordinal, {plan_codec<make_device_plan>, plan_codec<make_projection_plan>}, &opened);
  return opened;
}

}  // namespace ringpress::compress_kernels
