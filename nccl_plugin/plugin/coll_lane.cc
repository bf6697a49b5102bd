#include "nccl_plugin/plugin/coll_lane.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "nccl_plugin/firewall.h"
#include "ringpress/transport.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

// To wake the worker costs the progress thread a call to the system, which takes longer than all
// else that thread does for a call. So the worker looks for the next call by itself: at first
// without pause, which bridges the gaps between the calls of one collective, then in naps, which
// bridge those between training steps. Only then it sleeps until it is woken.
constexpr std::chrono::microseconds kAwakeTime{200};
constexpr std::chrono::seconds kDozingTime{60};
// A call waits for the end of a nap: for little beside the time that none came.
constexpr int kIdlePerNap = 1000;
constexpr Clock::duration kShortestNap = std::chrono::microseconds(25);
constexpr Clock::duration kLongestNap = std::chrono::milliseconds(1);

}  // namespace

CollLane::CollLane(std::unique_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)), worker_([this] { run(); }) {}

CollLane::~CollLane() {
  stop();
}

void CollLane::stop() {
  if (!worker_.joinable()) return;
  const bool is_idle = taken_.load() == appended_.load();
  closing_.store(true);
  if (!is_idle) communicator_->abort();
  wake_worker();
  worker_.join();
}

void CollLane::append(CollRequest* request) {
  request->state.store(CollRequest::State::kWaiting, std::memory_order_relaxed);
  const std::uint64_t index = appended_.load(std::memory_order_relaxed);
  queue_[index % kCollRequests] = request;
  appended_.store(index + 1);
  if (worker_sleeps_.load() != 0) wake_worker();
}

void CollLane::wake_worker() {
  worker_sleeps_.store(0);
  worker_sleeps_.notify_one();
}

/// The next request; null when it is time to end.
CollRequest* CollLane::next() {
  const std::uint64_t index = taken_.load(std::memory_order_relaxed);
  const Deadline begin = Clock::now();
  while (appended_.load() == index) {
    if (closing_.load()) return nullptr;
    const auto idle = Clock::now() - begin;
    if (idle < kAwakeTime) {
      sched_yield();
    } else if (idle < kDozingTime) {
      std::this_thread::sleep_for(
          std::clamp(Clock::duration(idle / kIdlePerNap), kShortestNap, kLongestNap));
    } else {
      sleep(index);
    }
  }
  return queue_[index % kCollRequests];
}

/// Until a call after `taken` others is there, or it is time to end.
void CollLane::sleep(std::uint64_t taken) {
  worker_sleeps_.store(1);
  // What came in between has not seen that this thread sleeps.
  if (appended_.load() == taken && !closing_.load()) worker_sleeps_.wait(1);
  worker_sleeps_.store(0);
}

void CollLane::run() {
  pthread_setname_np(pthread_self(), "rp-collnet");
  prctl(PR_SET_TIMERSLACK, 1000ul);  // Nanoseconds, of this thread: naps are short.
  while (CollRequest* const request = next()) {
    Status status = failure_;
    if (status.is_ok()) status = catch_all([&] { return perform(*request); });
    if (failure_.is_ok() && !status.is_ok()) failure_ = status;
    taken_.store(taken_.load(std::memory_order_relaxed) + 1);
    request->state.store(status.is_ok() ? CollRequest::State::kDone : CollRequest::State::kFailed,
                         std::memory_order_release);
  }
}

Status CollLane::perform(const CollRequest& request) {
  const CollCall& call = request.call;
  if (request.starts_tensor) {
    RINGPRESS_RETURN_IF_ERROR(communicator_->start_pieces(request.tensor));
  }
  RINGPRESS_RETURN_IF_ERROR(
      communicator_->all_reduce_piece(call.send, call.receive, request.first, request.valid_count));
  if (request.clears_staging) std::memset(call.send, 0, call.count * dtype_size(call.dtype));
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::plugin
