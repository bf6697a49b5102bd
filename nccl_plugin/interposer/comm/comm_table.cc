#include "nccl_plugin/interposer/comm/comm_table.h"

#include <mutex>
#include <utility>

namespace ringpress::nccl_plugin::interposer {

void CommTable::add(std::shared_ptr<Comm> comm) {
  const std::lock_guard lock(mutex_);
  const ncclComm_t handle = comm->handle();
  comms_[handle] = std::move(comm);
  size_.store(comms_.size());
}

std::shared_ptr<Comm> CommTable::find(ncclComm_t handle) const {
  if (size_.load() == 0) return nullptr;
  const std::shared_lock lock(mutex_);
  const auto found = comms_.find(handle);
  return found == comms_.end() ? nullptr : found->second;
}

std::shared_ptr<Comm> CommTable::remove(ncclComm_t handle) {
  if (size_.load() == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = comms_.find(handle);
  if (found == comms_.end()) return nullptr;
  std::shared_ptr<Comm> comm = std::move(found->second);
  comms_.erase(found);
  size_.store(comms_.size());
  return comm;
}

}  // namespace ringpress::nccl_plugin::interposer
