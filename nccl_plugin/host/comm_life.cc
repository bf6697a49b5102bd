#include "nccl_plugin/host/comm_life.h"

namespace ringpress::nccl_plugin::host {
namespace {

/// With NCCL's code for it.
Status not_finished() {
  return Status(Code::kInvalidArgument,
                "the previous call on comm has not finished; poll ncclCommGetAsyncError until it "
                "reports ncclSuccess");
}

/// Ok where calls are allowed. `failure`: of the setup.
Status status_of(CommLife::State state, const Status& failure) {
  using State = CommLife::State;
  switch (state) {
    case State::kSetup:
      return Status(Code::kInvalidArgument,
                    "comm is not ready: its setup has not finished; end the group, or poll "
                    "ncclCommGetAsyncError until it reports ncclSuccess");
    case State::kReady:
      return Status::ok();
    case State::kSuspended:
      return Status(Code::kInvalidUsage, "comm is suspended; ncclCommResume comes first");
    case State::kFinalized:
      return Status(Code::kInvalidUsage, "comm was finalized");
    case State::kRevoked:
      return Status(Code::kInvalidUsage, "comm was revoked");
    case State::kAborted:
      return Status(Code::kAborted, "comm was aborted");
    case State::kFailed:
      return failure;
  }
  return Status(Code::kInternal, "unknown state");
}

/// Ok where it is suspended.
Status suspension_of(CommLife::State state, const Status& failure) {
  using State = CommLife::State;
  if (state == State::kSuspended) return Status::ok();
  if (state == State::kReady) return Status(Code::kInvalidUsage, "comm is not suspended");
  return status_of(state, failure);
}

}  // namespace

void CommWork::note_submitted() {
  ++pending;
  has_submitted = true;
  awaited_seconds.reset();
}

void CommWork::note_wait() {
  if (has_submitted && !awaited_seconds) awaited_seconds = issue_clock_seconds();
}

Status CommLife::begin(const std::function<void()>& keep) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kRevoked) {
      return Status(Code::kRevoked, "the communicator was revoked while it was set up");
    }
    if (state_ != State::kSetup) {
      return Status(Code::kAborted, "the communicator was aborted while it was set up");
    }
    keep();
    state_ = State::kReady;
    is_known_ = true;
  }
  changed_.notify_all();
  return Status::ok();
}

void CommLife::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kSetup) state_ = State::kFailed;
    const bool counts = state_ == State::kFailed || state_ == State::kReady;
    if (counts && failure_.first.is_ok()) failure_.first = status;
  }
  changed_.notify_all();
}

Status CommLife::check_ready() const {
  const std::lock_guard lock(mutex_);
  RINGPRESS_RETURN_IF_ERROR(status_of(state_, failure_.first));
  return work_.pending > 0 ? not_finished() : failure_.first;
}

Status CommLife::check_parent(bool aborting) const {
  const std::lock_guard lock(mutex_);
  const bool is_alive = state_ == State::kReady || state_ == State::kRevoked;
  if (!is_known_ || !is_alive) return status_of(state_, failure_.first);
  if (aborting) return Status::ok();
  if (work_.pending > 0) return not_finished();
  return state_ == State::kRevoked ? Status::ok() : failure_.first;
}

bool CommLife::is_revoked() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kRevoked;
}

Status CommLife::check_known() const {
  const std::lock_guard lock(mutex_);
  return is_known_ ? Status::ok() : status_of(state_, failure_.first);
}

std::optional<Status> CommLife::async_status() const {
  const std::lock_guard lock(mutex_);
  work_.note_wait();
  // Its setup is in vain, and nobody waits for it.
  if (state_ == State::kRevoked && !is_known_) return Status::ok();
  if (work_.pending > 0 || state_ == State::kSetup) {
    return Status(Code::kInProgress, "not finished");
  }
  // What was ended on purpose is quiet, not broken.
  if (state_ == State::kRevoked) {
    return std::this_thread::get_id() == failure_.revoker ? Status::ok() : failure_.cut_off;
  }
  if (state_ == State::kFinalized) return Status::ok();
  if (state_ == State::kSuspended)
    return failure_.first.is_ok() ? std::nullopt : std::optional(failure_.first);
  if (!failure_.first.is_ok()) return failure_.first;
  const Status status = status_of(state_, failure_.first);
  return status.is_ok() ? std::nullopt : std::optional(status);
}

Status CommLife::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_.busy || state_ != State::kReady; });
  RINGPRESS_RETURN_IF_ERROR(status_of(state_, failure_.first));
  work_.busy = true;
  return Status::ok();
}

bool CommLife::enter_after_calls(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!is_known_) return false;
  if (!changed_.wait_for(lock, patience, [this] { return !work_.busy; })) return false;
  work_.busy = true;
  return true;
}

void CommLife::leave() {
  {
    const std::lock_guard lock(mutex_);
    work_.busy = false;
  }
  changed_.notify_all();
}

void CommLife::submit(const std::function<void()>& start) {
  const std::lock_guard lock(mutex_);
  start();
  work_.note_submitted();
}

void CommLife::finish(const Status& status, const std::function<void()>& note) {
  {
    const std::lock_guard lock(mutex_);
    --work_.pending;
    if (state_ == State::kRevoked && failure_.cut_off.is_ok()) failure_.cut_off = status;
    if (!status.is_ok() && failure_.first.is_ok()) {
      failure_.first = status;
      note();
    }
  }
  changed_.notify_all();
}

void CommLife::with_lock(const std::function<void()>& start) {
  const std::lock_guard lock(mutex_);
  start();
}

CallIssue CommLife::issue_now() const {
  const std::lock_guard lock(mutex_);
  return {issue_clock_seconds(), work_.awaited_seconds};
}

void CommLife::pause(State state) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kReady) state_ = state;
}

Status CommLife::check_suspended() const {
  const std::lock_guard lock(mutex_);
  if (work_.pending > 0) return not_finished();
  return suspension_of(state_, failure_.first);
}

Status CommLife::resume() {
  const std::lock_guard lock(mutex_);
  RINGPRESS_RETURN_IF_ERROR(suspension_of(state_, failure_.first));
  state_ = State::kReady;
  return Status::ok();
}

bool CommLife::close() {
  bool was_ready = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_.is_idle() && state_ != State::kSetup; });
    was_ready = state_ == State::kReady || state_ == State::kSuspended;
    state_ = State::kAborted;
  }
  changed_.notify_all();
  return was_ready;
}

bool CommLife::stop(State state, const std::function<void()>& interrupt,
                    std::chrono::milliseconds patience) {
  bool was_in_setup = false;
  {
    const std::lock_guard lock(mutex_);
    was_in_setup = !is_known_ && state_ != State::kFailed;
    state_ = state;
    if (state == State::kRevoked) failure_.revoker = std::this_thread::get_id();
  }
  changed_.notify_all();
  if (was_in_setup) return false;
  interrupt();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return work_.is_idle(); });
}

}  // namespace ringpress::nccl_plugin::host
