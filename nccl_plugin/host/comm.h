// What an ncclComm_t of the host backend points to: a Communicator, and what NCCL's API adds to it:
// when calls are allowed, one call at a time, nonblocking mode, abort, user-made operators.
//
// Life: kSetup -> kReady -> kFinalized, or from kSetup to kFailed, or from anywhere to kRevoked or
// kAborted.
#ifndef NCCL_PLUGIN_HOST_COMM_H_
#define NCCL_PLUGIN_HOST_COMM_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "nccl_plugin/host/operators.h"
#include "nccl_plugin/host/registrations.h"
#include "nccl_plugin/host/worker.h"
#include "nccl_plugin/session/calls/call_issue.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

/// Thread-safe. Always owned by shared_ptr.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
 public:
  ncclComm(bool blocking, int device, std::string name = {})
      : blocking_(blocking), device_(device), name_(std::move(name)) {}

  bool blocking() const { return blocking_; }
  int device() const { return device_; }
  /// What the program calls it; empty: nothing.
  const std::string& name() const { return name_; }

  /// Ends the setup well. If the communicator was aborted meanwhile, `communicator` is dropped.
  ringpress::Status attach(std::unique_ptr<ringpress::Communicator> communicator);
  /// Ends the setup badly: every later call returns `status`.
  void fail(const ringpress::Status& status);

  /// Ok when new calls are allowed: set up, idle if nonblocking, not finalized, revoked or failed.
  ringpress::Status check_ready() const;
  /// Ok when others may be made of its ranks. With `aborting`, whatever it is doing.
  ringpress::Status check_parent(bool aborting) const;
  bool is_revoked() const;
  /// Ok once rank() and size() are known.
  ringpress::Status check_known() const;
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Calls `call` with the Communicator, alone: other threads wait.
  template <typename Call>
  ringpress::Status run(Call&& call) {
    RINGPRESS_RETURN_IF_ERROR(enter());
    const Leave leave{this};
    return std::forward<Call>(call)(*communicator_);
  }

  /// The same of one that may have been revoked: once its calls have left it. False: they have not
  /// for seconds, and it was not called.
  bool run_after_calls(const std::function<void(ringpress::Communicator&)>& call);
  /// Runs `job` in this communicator's own thread and returns at once; async_status() tells how it
  /// went. For nonblocking communicators.
  void submit(std::function<ringpress::Status()> job);
  /// How a job that is submitted now was issued.
  ringpress::nccl_plugin::CallIssue issue_now();
  /// Runs `job`, which must not throw, in this communicator's own thread and returns at once. The
  /// caller keeps this object alive until the job is done.
  void run_aside(std::function<void()> job);

  ringpress::Status finalize();
  /// Waits for calls under way, says goodbye to the peers and ends the thread. Last call.
  void destroy();
  /// Ends calls under way in other threads, and waits until they have left. Last call.
  void abort();
  /// As abort(), but queries, shrinks, destroy() and abort() are still allowed. A nonblocking one
  /// does not wait: kInProgress, and async_status() tells when the calls have left.
  ringpress::Status revoke();
  /// The id of a communicator of the given ranks, once this one is revoked.
  ringpress::Result<ringpress::UniqueId> survivors_id(std::span<const int> ranks) {
    return communicator_->survivors_id(ranks);
  }

  /// kInProgress, or how the communicator is doing.
  ringpress::Status async_status() const;
  ringpress::Statistics statistics() const { return communicator_->statistics(); }

  std::string last_error() const;
  void set_last_error(const std::string& text);

  ringpress::nccl_plugin::host::UserOperators& operators() { return operators_; }
  ringpress::nccl_plugin::host::Registrations& registrations() { return registrations_; }

 private:
  enum class State { kSetup, kReady, kFinalized, kRevoked, kAborted, kFailed };
  struct Leave {
    ncclComm* comm;
    ~Leave() { comm->leave(); }
  };

  ringpress::Status state_status() const;  // With mutex_ held.
  ringpress::Status enter();
  void leave();
  void finish(const ringpress::Status& status);
  bool stop_calls(State state, std::chrono::milliseconds patience);

  const bool blocking_;
  const int device_;
  const std::string name_;

  void note_wait() const;  // With mutex_ held.

  mutable std::mutex mutex_;  // Guards what follows; never held across a call of communicator_.
  std::condition_variable changed_;
  State state_ = State::kSetup;
  bool busy_ = false;        // A thread is inside communicator_.
  std::size_t pending_ = 0;  // Jobs submitted and not finished.
  bool has_submitted_ = false;
  mutable std::optional<double> awaited_seconds_;  // When the last job was first asked about.
  ringpress::Status failure_;                      // Of the setup, or the first of a submitted job.
  std::string last_error_;
  ringpress::nccl_plugin::host::Worker worker_;

  // Written once, when state_ leaves kSetup; later reads need no lock.
  std::unique_ptr<ringpress::Communicator> communicator_;
  int rank_ = -1;
  int size_ = 0;

  ringpress::nccl_plugin::host::UserOperators operators_;
  ringpress::nccl_plugin::host::Registrations registrations_;
};

#endif  // NCCL_PLUGIN_HOST_COMM_H_
