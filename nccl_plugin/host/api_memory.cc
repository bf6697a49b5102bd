// Entry points for memory: allocation and the registration that host memory does not need.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Status;

namespace {

/// What ncclMemAlloc() handed out, so that ncclMemFree() refuses anything else. Thread-safe.
class Allocations {
 public:
  static Allocations& instance() {
    static Allocations* const allocations = new Allocations;  // Lives until the process ends.
    return *allocations;
  }
  void add(const void* memory) {
    const std::lock_guard lock(mutex_);
    live_.insert(memory);
  }
  bool remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    return live_.erase(memory) == 1;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const void*> live_;
};

Status allocate(void** out, std::size_t bytes) {
  *out = nullptr;
  if (bytes == 0) return Status::ok();
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > PTRDIFF_MAX - page) {
    return Status(Code::kInvalidArgument,
                  "size " + std::to_string(bytes) + " does not fit into memory");
  }
  // Whole pages: no other object shares the last one.
  void* const memory = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (memory == nullptr) {
    return Status(Code::kSystem, "no memory for " + std::to_string(bytes) + " bytes");
  }
  Allocations::instance().add(memory);
  *out = memory;
  return Status::ok();
}

Status register_range(ncclComm_t comm, const void* buffer, std::size_t bytes, void** handle) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(comm));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(buffer, "buff"));
  if (bytes == 0) return Status(Code::kInvalidArgument, "size is 0");
  *handle = live->objects().registrations.add();
  return Status::ok();
}

Status deregister(ncclComm_t comm, const void* handle) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
  if (handle == nullptr || live->objects().registrations.remove(handle)) return Status::ok();
  return Status(Code::kInvalidArgument,
                "handle was not made for this communicator, or is deregistered");
}

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return firewall("ncclMemAlloc", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(ptr, "ptr"));
    return allocate(ptr, size);
  });
}
RINGPRESS_PROFILING_NAME(MemAlloc);

RINGPRESS_EXPORT ncclResult_t ncclMemFree(void* ptr) {
  return firewall("ncclMemFree", nullptr, [&]() -> Status {
    if (ptr == nullptr) return Status::ok();
    if (!Allocations::instance().remove(ptr)) {
      return Status(Code::kInvalidArgument,
                    "ptr did not come from ncclMemAlloc, or was freed already");
    }
    std::free(ptr);
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(MemFree);

RINGPRESS_EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size,
                                               void** handle) {
  return firewall("ncclCommRegister", comm, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(handle, "handle"));
    return register_range(comm, buff, size, handle);
  });
}
RINGPRESS_PROFILING_NAME(CommRegister);

RINGPRESS_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return firewall("ncclCommDeregister", comm, [&] { return deregister(comm, handle); });
}
RINGPRESS_PROFILING_NAME(CommDeregister);
