#include "nccl_plugin/host/comm.h"

#include <chrono>

#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/log.h"

using ringpress::Code;
using ringpress::Communicator;
using ringpress::Status;

namespace {

// How long abort() waits for a call in another thread to notice. Longer only if the system is
// starved; the call then leaves later, on its own.
constexpr std::chrono::milliseconds kAbortWait{5000};

/// With NCCL's code for it.
Status not_finished() {
  return Status(Code::kInvalidArgument,
                "the previous call on comm has not finished; poll ncclCommGetAsyncError until it "
                "reports ncclSuccess");
}

Communicator::End end_by(bool is_revoked) {
  return is_revoked ? Communicator::End::kRevoked : Communicator::End::kAborted;
}

}  // namespace

Status ncclComm::attach(std::unique_ptr<Communicator> communicator) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kSetup) {
    const bool was_revoked = state_ == State::kRevoked;
    lock.unlock();
    communicator->abort(end_by(was_revoked));
    return was_revoked ? Status(Code::kRevoked, "the communicator was revoked while it was set up")
                       : Status(Code::kAborted, "the communicator was aborted while it was set up");
  }
  rank_ = communicator->rank();
  size_ = communicator->size();
  communicator_ = std::move(communicator);
  state_ = State::kReady;
  lock.unlock();
  changed_.notify_all();
  return Status::ok();
}

void ncclComm::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kSetup) {
      state_ = State::kFailed;
      failure_ = status;
    }
  }
  changed_.notify_all();
}

Status ncclComm::state_status() const {
  switch (state_) {
    case State::kSetup:
      return Status(Code::kInvalidArgument,
                    "comm is not ready: its setup has not finished; end the group, or poll "
                    "ncclCommGetAsyncError until it reports ncclSuccess");
    case State::kReady:
      return Status::ok();
    case State::kFinalized:
      return Status(Code::kInvalidUsage, "comm was finalized");
    case State::kRevoked:
      return Status(Code::kInvalidUsage, "comm was revoked");
    case State::kAborted:
      return Status(Code::kAborted, "comm was aborted");
    case State::kFailed:
      return failure_;
  }
  return Status(Code::kInternal, "unknown state");
}

Status ncclComm::check_ready() const {
  const std::lock_guard lock(mutex_);
  RINGPRESS_RETURN_IF_ERROR(state_status());
  return pending_ > 0 ? not_finished() : failure_;
}

Status ncclComm::check_parent(bool aborting) const {
  const std::lock_guard lock(mutex_);
  const bool is_alive = state_ == State::kReady || state_ == State::kRevoked;
  if (communicator_ == nullptr || !is_alive) return state_status();
  if (aborting) return Status::ok();
  if (pending_ > 0) return not_finished();
  return state_ == State::kRevoked ? Status::ok() : failure_;
}

bool ncclComm::is_revoked() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kRevoked;
}

Status ncclComm::check_known() const {
  const std::lock_guard lock(mutex_);
  return communicator_ == nullptr ? state_status() : Status::ok();
}

Status ncclComm::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ || state_ != State::kReady; });
  RINGPRESS_RETURN_IF_ERROR(state_status());
  busy_ = true;
  return Status::ok();
}

void ncclComm::leave() {
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
  }
  changed_.notify_all();
}

void ncclComm::submit(std::function<Status()> job) {
  const std::lock_guard lock(mutex_);
  // The job shares this object: it may be destroyed only after the job has left it.
  worker_.submit([self = shared_from_this(), job = std::move(job)] {
    self->finish(ringpress::nccl_plugin::catch_all(job));
  });
  ++pending_;
  has_submitted_ = true;
  awaited_seconds_.reset();
}

ringpress::nccl_plugin::CallIssue ncclComm::issue_now() {
  const std::lock_guard lock(mutex_);
  return {ringpress::nccl_plugin::issue_clock_seconds(), awaited_seconds_};
}

void ncclComm::note_wait() const {
  if (!has_submitted_ || awaited_seconds_) return;
  awaited_seconds_ = ringpress::nccl_plugin::issue_clock_seconds();
}

void ncclComm::finish(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    --pending_;
    if (!status.is_ok() && failure_.is_ok()) {
      failure_ = status;
      last_error_ = status.message();
    }
  }
  changed_.notify_all();
}

bool ncclComm::run_after_calls(const std::function<void(Communicator&)>& call) {
  {
    std::unique_lock lock(mutex_);
    if (communicator_ == nullptr) return false;
    if (!changed_.wait_for(lock, kAbortWait, [this] { return !busy_; })) return false;
    busy_ = true;
  }
  const Leave leave{this};
  call(*communicator_);
  return true;
}

void ncclComm::run_aside(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  worker_.submit(std::move(job));
}

Status ncclComm::finalize() {
  return run([this](Communicator& communicator) {
    Status status = communicator.finalize();
    const std::lock_guard lock(mutex_);
    if (state_ == State::kReady) state_ = State::kFinalized;
    return status;
  });
}

void ncclComm::destroy() {
  bool say_goodbye = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pending_ == 0 && !busy_ && state_ != State::kSetup; });
    say_goodbye = state_ == State::kReady;
    state_ = State::kAborted;
  }
  changed_.notify_all();
  if (say_goodbye && communicator_->failure().is_ok()) {
    const Status status = communicator_->finalize();
    if (!status.is_ok()) {
      ringpress::log_line(ringpress::LogLevel::kWarn, "destroying a communicator: %s",
                          status.message().c_str());
    }
  }
  worker_.stop();
}

bool ncclComm::stop_calls(State state, std::chrono::milliseconds patience) {
  bool in_setup = false;
  {
    const std::lock_guard lock(mutex_);
    in_setup = state_ == State::kSetup;
    state_ = state;
  }
  changed_.notify_all();
  if (in_setup) return false;  // Ranks that meet cannot be interrupted; they have a timeout.
  if (communicator_ != nullptr) communicator_->abort(end_by(state == State::kRevoked));
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return pending_ == 0 && !busy_; });
}

void ncclComm::abort() {
  if (stop_calls(State::kAborted, kAbortWait)) {
    worker_.stop();
  } else {
    worker_.abandon();
  }
}

Status ncclComm::revoke() {
  const auto patience = blocking_ ? kAbortWait : std::chrono::milliseconds(0);
  if (stop_calls(State::kRevoked, patience)) return Status::ok();
  return Status(Code::kInProgress, "calls under way have not ended yet");
}

Status ncclComm::async_status() const {
  {
    const std::lock_guard lock(mutex_);
    note_wait();
    if (pending_ > 0 || state_ == State::kSetup) return Status(Code::kInProgress, "not finished");
    // What was ended on purpose is quiet, not broken.
    if (state_ == State::kRevoked || state_ == State::kFinalized) return Status::ok();
    if (!failure_.is_ok()) return failure_;
    RINGPRESS_RETURN_IF_ERROR(state_status());
  }
  return communicator_->failure();
}

std::string ncclComm::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void ncclComm::set_last_error(const std::string& text) {
  const std::lock_guard lock(mutex_);
  last_error_ = text;
}
