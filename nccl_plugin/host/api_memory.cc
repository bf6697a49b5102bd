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

/// In `kind` of the communicator's.
Status register_range(ncclComm_t comm, void* buffer, std::size_t bytes,
                      Registrations CommObjects::*kind, void** handle) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(comm));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(buffer, "buff"));
  if (bytes == 0) return Status(Code::kInvalidArgument, "size is 0");
  *handle = (live->objects().*kind).add(buffer);
  return Status::ok();
}

Status unknown_handle(const char* name) {
  return Status(Code::kInvalidArgument,
                std::string(name) + " was not made for this communicator, or is deregistered");
}

Status deregister(ncclComm_t comm, const void* handle, Registrations CommObjects::*kind,
                  const char* name) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
  if (handle == nullptr || (live->objects().*kind).remove(handle)) return Status::ok();
  return unknown_handle(name);
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
    return register_range(comm, buff, size, &CommObjects::registrations, handle);
  });
}
RINGPRESS_PROFILING_NAME(CommRegister);

RINGPRESS_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return firewall("ncclCommDeregister", comm,
                  [&] { return deregister(comm, handle, &CommObjects::registrations, "handle"); });
}
RINGPRESS_PROFILING_NAME(CommDeregister);

RINGPRESS_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size,
                                                     ncclWindow_t* win, int winFlags) {
  return firewall("ncclCommWindowRegister", comm, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(win, "win"));
    constexpr int kKnown = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY |
                           NCCL_WIN_CFT_COUNTED;
    if ((winFlags & ~kKnown) != 0) {
      return Status(Code::kInvalidArgument, "winFlags is " + std::to_string(winFlags) +
                                                ", which has bits that no flag has");
    }
    void* handle = nullptr;
    RINGPRESS_RETURN_IF_ERROR(register_range(comm, buff, size, &CommObjects::windows, &handle));
    *win = static_cast<ncclWindow_t>(handle);
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(CommWindowRegister);

RINGPRESS_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return firewall("ncclCommWindowDeregister", comm,
                  [&] { return deregister(comm, win, &CommObjects::windows, "win"); });
}
RINGPRESS_PROFILING_NAME(CommWindowDeregister);

RINGPRESS_EXPORT ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win,
                                                void** outUserPtr) {
  return firewall("ncclWinGetUserPtr", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(outUserPtr, "outUserPtr"));
    *outUserPtr = live->objects().windows.memory_of(win);
    return *outUserPtr == nullptr ? unknown_handle("win") : Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(WinGetUserPtr);
