#include "nccl_plugin/host/comm.h"

#include <chrono>
#include <optional>
#include <utility>

#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/hash.h"
#include "ringpress/internal/log.h"

using ringpress::Code;
using ringpress::Communicator;
using ringpress::Status;
using ringpress::UniqueId;

namespace {

/// 64 bits of an id: too few to find its secret by.
std::uint64_t hash_of(const UniqueId& id) {
  std::uint64_t hash = 0;
  for (const auto byte : id) hash = ringpress::combine_hash(hash, static_cast<unsigned char>(byte));
  return hash;
}

// How long abort() waits for a call in another thread to notice. Longer only if the system is
// starved; the call then leaves later, on its own.
constexpr std::chrono::milliseconds kAbortWait{5000};

Communicator::End end_by(bool is_revoked) {
  return is_revoked ? Communicator::End::kRevoked : Communicator::End::kAborted;
}

}  // namespace

Status ncclComm::attach(std::unique_ptr<Communicator> communicator, const UniqueId& id) {
  const Status begun = life_.begin([&] {
    communicator_ = std::move(communicator);
    hash_ = hash_of(id);
  });
  if (!begun.is_ok()) communicator->abort(end_by(begun.code() == Code::kRevoked));
  return begun;
}

void ncclComm::submit(std::function<Status()> job) {
  // The job shares this object: it may be destroyed only after the job has left it.
  life_.submit([&] {
    worker_.submit([self = shared_from_this(), job = std::move(job)] {
      const Status status = ringpress::nccl_plugin::catch_all(job);
      self->life_.finish(status, [&] { self->objects_.error.set(status.message()); });
    });
  });
}

bool ncclComm::run_after_calls(const std::function<void(Communicator&)>& call) {
  if (!life_.enter_after_calls(kAbortWait)) return false;
  const Leave leave{life_};
  call(*communicator_);
  return true;
}

void ncclComm::run_aside(std::function<void()> job) {
  life_.with_lock([&] { worker_.submit(std::move(job)); });
}

Status ncclComm::finalize() {
  return run([this](Communicator& communicator) {
    Status status = communicator.finalize();
    life_.pause(State::kFinalized);
    return status;
  });
}

void ncclComm::destroy() {
  const bool say_goodbye = life_.close();
  if (say_goodbye && communicator_->failure().is_ok()) {
    const Status status = communicator_->finalize();
    if (!status.is_ok()) {
      ringpress::log_line(ringpress::LogLevel::kWarn, "destroying a communicator: %s",
                          status.message().c_str());
    }
  }
  worker_.stop();
  objects_.windows.end();
}

bool ncclComm::stop_calls(State state, std::chrono::milliseconds patience) {
  // Ranks that meet cannot be interrupted; they have a timeout.
  const auto interrupt = [&] {
    const bool is_revoked = state == State::kRevoked;
    if (communicator_ != nullptr) communicator_->abort(end_by(is_revoked));
    objects_.windows.abort(is_revoked ? Status(Code::kRevoked, "the communicator was revoked")
                                      : Status(Code::kAborted, "the communicator was aborted"));
  };
  return life_.stop(state, interrupt, patience);
}

void ncclComm::abort() {
  if (stop_calls(State::kAborted, kAbortWait)) {
    worker_.stop();
  } else {
    worker_.abandon();
  }
}

Status ncclComm::revoke() {
  const auto patience = traits_.blocking() ? kAbortWait : std::chrono::milliseconds(0);
  if (stop_calls(State::kRevoked, patience)) return Status::ok();
  if (!life_.check_known().is_ok()) return Status::ok();  // It was being set up.
  return Status(Code::kInProgress, "calls under way have not ended yet");
}

Status ncclComm::async_status() const {
  const std::optional<Status> status = life_.async_status();
  return status ? *status : communicator_->failure();
}
