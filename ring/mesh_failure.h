// How a mesh fails: once, for one reason, and every connected rank hears it.
#ifndef RING_MESH_FAILURE_H_
#define RING_MESH_FAILURE_H_

#include <atomic>
#include <mutex>

#include "ring/mesh_connections.h"

namespace ringpress::ring {

class MeshFailure {
 public:
  explicit MeshFailure(Connections& connections) : connections_(connections) {}

  bool has_failed() const { return failed_; }
  /// Ok, or the first reason.
  Status status() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  /// Any thread. Only the first one counts.
  void latch(const Status& reason) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.is_ok()) return;
    status_ = reason;
    failed_ = true;
  }

  /// Whether the peers know of it.
  bool is_spread() const { return spread_; }
  /// Owner only. Tells the peers, once; the caller's memory must still be valid.
  void spread() {
    if (!spread_.exchange(true)) connections_.spread(status());
  }
  /// Owner only. Returns the first failure, which may not be `reason`.
  Status fail(const Status& reason) {
    latch(failed_ ? reason : connections_.cause_of(reason, failed_));
    spread();
    return status();
  }

 private:
  Connections& connections_;
  mutable std::mutex mutex_;
  Status status_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> spread_{false};
};

}  // namespace ringpress::ring

#endif  // RING_MESH_FAILURE_H_
