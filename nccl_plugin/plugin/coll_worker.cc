#include "nccl_plugin/plugin/coll_worker.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstring>

#include "nccl_plugin/errors/firewall.h"
#include "ringpress/internal/call_options.h"
#include "ringpress/internal/transport.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

// How long the worker looks for the next call before it sleeps. Waking it costs the progress thread
// a call to the system; the calls of one collective come closer together than this. Napping on
// instead took so much of two shared cores that a compressed all-reduce became 1.6 times slower.
constexpr std::chrono::microseconds kAwakeTime{200};

}  // namespace

CollWorker::~CollWorker() {
  stop();
}

void CollWorker::start(CollWorker* companion) {
  companion_ = companion;
  worker_ = std::thread([this] { run(); });
}

void CollWorker::stop() {
  if (!worker_.joinable()) return;
  closing_.store(true);  // First: a call that the worker takes all the same is seen to be there.
  if (taken_.load() != appended_.load()) communicator_->abort(Communicator::End::kAborted);
  wake_worker();
  worker_.join();
}

void CollWorker::append(CollRequest* request) {
  request->state.store(CollRequest::State::kWaiting, std::memory_order_relaxed);
  const std::uint64_t index = appended_.load(std::memory_order_relaxed);
  queue_[index % kCollRequests] = request;
  appended_.store(index + 1);
  if (activity_.load() == kAsleep && companion_->activity_.load() != kLooking) wake_worker();
}

/// Only of one that sleeps: a worker that has just been woken may be busy by now, and must be seen
/// to be.
void CollWorker::wake_worker() {
  std::uint32_t activity = kAsleep;
  if (activity_.compare_exchange_strong(activity, kLooking)) activity_.notify_one();
}

/// True while there is a call and nobody to take it.
bool CollWorker::is_overslept() const {
  return activity_.load() == kAsleep && appended_.load() != taken_.load();
}

void CollWorker::wake_companion() {
  if (companion_->is_overslept()) companion_->wake_worker();
}

/// The next request; null when it is time to end, whatever waits.
CollRequest* CollWorker::next() {
  const std::uint64_t index = taken_.load(std::memory_order_relaxed);
  activity_.store(kLooking);
  Deadline sleepy = Clock::now() + kAwakeTime;
  while (appended_.load() == index) {
    if (closing_.load()) return nullptr;
    wake_companion();
    if (Clock::now() < sleepy) {
      sched_yield();
      continue;
    }
    sleep(index);
    sleepy = Clock::now() + kAwakeTime;
  }
  if (closing_.load()) return nullptr;
  activity_.store(kBusy);
  wake_companion();
  return queue_[index % kCollRequests];
}

/// Until a call after `taken` others is there, or it is time to end.
void CollWorker::sleep(std::uint64_t taken) {
  activity_.store(kAsleep);
  wake_companion();
  // What came in between has not seen that this thread sleeps.
  if (appended_.load() == taken && !closing_.load()) activity_.wait(kAsleep);
  activity_.store(kLooking);
}

void CollWorker::run() {
  pthread_setname_np(pthread_self(), "rp-collnet");
  while (CollRequest* const request = next()) {
    Status status = failure_;
    if (status.is_ok()) status = catch_all([&] { return perform(*request); });
    if (failure_.is_ok() && !status.is_ok()) {
      failure_ = status;
      // What is wrong here alone, as a lack of memory: the other nodes would wait for this one.
      communicator_->abort(Communicator::End::kAborted);
    }
    taken_.store(taken_.load(std::memory_order_relaxed) + 1);
    request->state.store(status.is_ok() ? CollRequest::State::kDone : CollRequest::State::kFailed,
                         std::memory_order_release);
  }
}

Status CollWorker::perform(const CollRequest& request) {
  const CollCall& call = request.call;
  const CollDecision& decision = request.decision;
  CallOptions options;
  options.tag = decision.tag;
  const CallsWithOptions scope(options);
  if (decision.starts_tensor) {
    RINGPRESS_RETURN_IF_ERROR(communicator_->pieces().start(decision.tensor));
  }
  RINGPRESS_RETURN_IF_ERROR(
      communicator_->pieces().run(call.send, call.receive, decision.first, decision.valid_count));
  if (decision.clears_staging) std::memset(call.send, 0, call.count * dtype_size(call.dtype));
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::plugin
