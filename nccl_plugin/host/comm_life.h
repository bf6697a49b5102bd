// When calls of a communicator are allowed, one at a time, and how it is waited for them.
//
// kSetup -> kReady -> kFinalized, or from kSetup to kFailed, or from anywhere to kRevoked or
// kAborted. Between kReady and kSuspended it goes to and fro.
#ifndef NCCL_PLUGIN_HOST_COMM_LIFE_H_
#define NCCL_PLUGIN_HOST_COMM_LIFE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "nccl_plugin/session/calls/call_issue.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::host {

/// What is under way: a call, and jobs that a nonblocking communicator runs in its own thread.
struct CommWork {
  bool busy = false;        // A thread is inside the communicator.
  std::size_t pending = 0;  // Jobs submitted and not finished.
  bool has_submitted = false;
  std::optional<double> awaited_seconds;  // When the last job was first asked about.

  bool is_idle() const { return pending == 0 && !busy; }
  void note_submitted();
  void note_wait();
};

/// What has gone wrong.
struct CommFailure {
  Status first;             // Of the setup, a job, or a call that has lost a peer.
  Status cut_off;           // The first job that a revoke has ended.
  std::thread::id revoker;  // Who has revoked it.
};

/// Thread-safe. Its lock is never held across a call of the communicator.
class CommLife {
 public:
  enum class State { kSetup, kReady, kSuspended, kFinalized, kRevoked, kAborted, kFailed };

  /// Ok when new calls are allowed: set up, idle if nonblocking, not finalized, revoked or failed.
  Status check_ready() const;
  /// Ok when others may be made of its ranks. With `aborting`, whatever it is doing.
  Status check_parent(bool aborting) const;
  /// Ok once it was set up.
  Status check_known() const;
  bool is_revoked() const;
  /// kInProgress, or how its setup and its jobs went. Nothing: how its communicator is doing. What
  /// a revoke has cut off is quiet for the thread that has revoked it, and an error for others.
  std::optional<Status> async_status() const;

  /// The setup has ended well: `keep` is called with the lock held. Else why it is in vain.
  Status begin(const std::function<void()>& keep);
  /// The setup has ended badly, or a call has found out that a peer is lost: every later call
  /// returns `status`.
  void fail(const Status& status);

  /// Waits until no call is under way, and begins one.
  Status enter();
  /// The same of one that may have been revoked. False: calls have not left it for so long.
  bool enter_after_calls(std::chrono::milliseconds patience);
  void leave();
  /// In a call: no other may follow (kFinalized), or none before resume() (kSuspended).
  void pause(State state);
  /// Fails unless it is suspended.
  Status resume();
  /// Ok when resume() may be called.
  Status check_suspended() const;

  /// `start` is called with the lock held, and starts a job that ends with finish().
  void submit(const std::function<void()>& start);
  /// `note` is called with the lock held if this is the first that went wrong.
  void finish(const Status& status, const std::function<void()>& note);
  /// `start` is called as if it started a job, of which nobody asks.
  void with_lock(const std::function<void()>& start);
  /// How a job that is submitted now was issued.
  CallIssue issue_now() const;

  /// Waits for calls under way, and allows no more. True: the peers expect a goodbye.
  bool close();
  /// Allows no more calls, has `interrupt` end those under way, and waits until they and all jobs
  /// have left it, for `patience` at most. False: they have not, or it was being set up, and there
  /// was nothing to interrupt.
  bool stop(State state, const std::function<void()>& interrupt,
            std::chrono::milliseconds patience);

 private:
  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  State state_ = State::kSetup;
  bool is_known_ = false;
  mutable CommWork work_;
  CommFailure failure_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_COMM_LIFE_H_
