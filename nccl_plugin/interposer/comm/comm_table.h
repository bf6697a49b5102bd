// Which communicators the engine knows.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_COMM_TABLE_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_COMM_TABLE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "nccl_plugin/interposer/comm/comm.h"

namespace ringpress::nccl_plugin::interposer {

/// The communicators that are known, by the real library's handle. Its lock is never held across a
/// call of the real library.
class CommTable {
 public:
  void add(std::shared_ptr<Comm> comm);
  /// Null for those that are plain NCCL's.
  std::shared_ptr<Comm> find(ncclComm_t handle) const;
  /// The same, and forgets it. What it held is freed with the last reference.
  std::shared_ptr<Comm> remove(ncclComm_t handle);

 private:
  std::atomic<std::size_t> size_{0};
  mutable std::shared_mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<Comm>> comms_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_COMM_TABLE_H_
