// Whether a communicator of the real NCCL may still be used, and how its end is made known.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_LIFETIME_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_LIFETIME_H_

#include <atomic>
#include <chrono>

#include "nccl_plugin/interposer/host_groups.h"
#include "nccl_plugin/interposer/stream/stream_wait.h"
#include "nccl_plugin/preload/engine.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// Has its calls fail on all ranks, where the library can be told (ncclCommRevoke()). Where that
/// answers in-progress, as of a nonblocking communicator, waits for its end, a second at most.
void revoke(const ringpressRealNccl& real, ncclComm_t handle) noexcept;

/// Of one communicator. Any thread, but for set_groups().
class CommLifetime {
 public:
  /// `real` and `device` outlive this.
  /// `timeout`: of waits.
  CommLifetime(const ringpressRealNccl& real, ncclComm_t handle, Device& device,
               std::chrono::milliseconds timeout)
      : real_(real),
        handle_(handle),
        device_(device),
        watch_{[this] { return failure() != ncclSuccess || is_retired_.load(); },
               [this](Stream stream) { return find_failure(stream); }, &waits_, timeout} {}
  CommLifetime(const CommLifetime&) = delete;
  CommLifetime& operator=(const CommLifetime&) = delete;

  /// What the communicator was split into; they end with it.
  void set_groups(const HostGroups& groups) { groups_ = groups; }
  const HostGroups& groups() const { return groups_; }
  /// Ends them, before the communicator itself is ended.
  void end_groups(bool is_abort) noexcept;

  /// A call of it failed in here, so that no later one can be trusted to fit those of other ranks.
  /// They fail too, where the real library can be told (ncclCommRevoke()), and do not wait.
  void give_up(ncclResult_t failure) noexcept;
  /// That error; ncclSuccess if there was none.
  ncclResult_t failure() const { return failure_.load(); }

  /// Between enter() and leave() the handle is in use by a call of ours. enter() is false once
  /// retire() was called; that waits a little for those who are inside.
  bool enter();
  void leave() { inside_.fetch_sub(1); }
  void retire();

  /// While it is suspended, and once it is revoked: the real library refuses its calls.
  bool is_left_alone() const { return is_left_alone_.load(); }
  void set_left_alone(bool is_left_alone) { is_left_alone_.store(is_left_alone); }

  /// For those who wait for streams.
  const Watch& watch() const { return watch_; }

 private:
  Status find_failure(Stream stream);

  const ringpressRealNccl& real_;
  const ncclComm_t handle_;
  Device& device_;
  HostGroups groups_;
  std::atomic<bool> groups_ended_{false};
  std::atomic<int> inside_{0};
  std::atomic<bool> is_retired_{false};
  std::atomic<bool> is_left_alone_{false};
  std::atomic<ncclResult_t> failure_{ncclSuccess};
  LongestWait waits_;
  const Watch watch_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_LIFETIME_H_
