// The live communicator handles of this process. Every entry point looks its handle up here before
// it touches what the handle points to, so a destroyed or made-up handle is an error, not a crash.
#ifndef NCCL_PLUGIN_HOST_REGISTRY_H_
#define NCCL_PLUGIN_HOST_REGISTRY_H_

#include <memory>
#include <mutex>
#include <unordered_map>

#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {

/// Thread-safe. Who finds a communicator shares it: it lives until the last call has left it.
class Registry {
 public:
  static Registry& instance();

  void add(std::shared_ptr<ncclComm> comm);
  /// Null if `handle` is not live.
  std::shared_ptr<ncclComm> find(ncclComm_t handle) const;
  /// As find(), and the handle is dead from now on. Of several callers one gets it.
  std::shared_ptr<ncclComm> remove(ncclComm_t handle);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<ncclComm>> live_;
};

/// A live handle, or the error that a null or dead one deserves.
Result<std::shared_ptr<ncclComm>> find_comm(ncclComm_t handle);
/// As find_comm(), and it must be open for new calls.
Result<std::shared_ptr<ncclComm>> find_ready_comm(ncclComm_t handle);
/// As find_comm(), and its rank and size must be known.
Result<std::shared_ptr<ncclComm>> find_known_comm(ncclComm_t handle);

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_REGISTRY_H_
