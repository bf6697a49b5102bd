// The id that ncclCommGetUniqueId() made on a rank, until ncclCommGrow() has used it.
#ifndef NCCL_PLUGIN_HOST_GROW_ID_H_
#define NCCL_PLUGIN_HOST_GROW_ID_H_

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::host {

/// Thread-safe.
class GrowId {
 public:
  /// `make` gives an id that serves for `lifetime`. kInvalidUsage while there is one that nobody
  /// has used.
  template <typename Make>
  Result<UniqueId> renew(std::chrono::milliseconds lifetime, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (id_ && std::chrono::steady_clock::now() < until_) {
      return Status(Code::kInvalidUsage,
                    "the id that was made before is not used yet: ncclCommGrow comes first");
    }
    id_.reset();
    RINGPRESS_ASSIGN_OR_RETURN(const UniqueId id, make());
    id_ = id;
    until_ = std::chrono::steady_clock::now() + lifetime;
    return id;
  }
  /// From now on it is used. None where another one is `named`.
  std::optional<UniqueId> take(const std::optional<UniqueId>& named) {
    const std::lock_guard lock(mutex_);
    if (named && named != id_) return std::nullopt;
    return std::exchange(id_, std::nullopt);
  }
  /// It was not used after all.
  void give_back(const UniqueId& id) {
    const std::lock_guard lock(mutex_);
    if (!id_) id_ = id;
  }

 private:
  std::mutex mutex_;
  std::optional<UniqueId> id_;
  std::chrono::steady_clock::time_point until_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_GROW_ID_H_
