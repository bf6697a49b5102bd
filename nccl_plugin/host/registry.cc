#include "nccl_plugin/host/registry.h"

#include <utility>

#include "nccl_plugin/host/comm.h"

namespace ringpress::nccl_plugin::host {

Registry& Registry::instance() {
  // Never destroyed: threads may still be inside calls while the process exits.
  static Registry* const registry = new Registry;
  return *registry;
}

void Registry::add(std::shared_ptr<ncclComm> comm) {
  const std::lock_guard lock(mutex_);
  const ncclComm_t handle = comm.get();
  live_[handle] = std::move(comm);
}

std::shared_ptr<ncclComm> Registry::find(ncclComm_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(handle);
  return found == live_.end() ? nullptr : found->second;
}

std::shared_ptr<ncclComm> Registry::remove(ncclComm_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(handle);
  if (found == live_.end()) return nullptr;
  std::shared_ptr<ncclComm> comm = std::move(found->second);
  live_.erase(found);
  return comm;
}

Result<std::shared_ptr<ncclComm>> find_comm(ncclComm_t handle) {
  if (handle == nullptr) return Status(Code::kInvalidArgument, "comm is null");
  std::shared_ptr<ncclComm> comm = Registry::instance().find(handle);
  if (comm == nullptr) {
    return Status(Code::kInvalidArgument,
                  "comm is not a live communicator: it was destroyed, aborted or never made");
  }
  return comm;
}

Result<std::shared_ptr<ncclComm>> find_ready_comm(ncclComm_t handle) {
  Result<std::shared_ptr<ncclComm>> comm = find_comm(handle);
  if (comm.is_ok()) RINGPRESS_RETURN_IF_ERROR(comm.value()->life().check_ready());
  return comm;
}

Result<std::shared_ptr<ncclComm>> find_known_comm(ncclComm_t handle) {
  Result<std::shared_ptr<ncclComm>> comm = find_comm(handle);
  if (comm.is_ok()) RINGPRESS_RETURN_IF_ERROR(comm.value()->life().check_known());
  return comm;
}

}  // namespace ringpress::nccl_plugin::host
