#include "nccl_plugin/plugin/coll_comm.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstring>

#include "nccl_plugin/firewall.h"
#include "ringpress/transport.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

// How long the worker looks for the next call before it sleeps. Waking it costs the progress thread
// a call to the system; the calls of one collective come closer together than this.
constexpr std::chrono::microseconds kAwakeTime{200};

}  // namespace

CollComm::CollComm(std::unique_ptr<Communicator> communicator, const CollIdentity& identity)
    : communicator_(std::move(communicator)), identity_(identity) {
  for (CollRequest& request : requests_) request.owner = this;
  worker_ = std::thread([this] { run(); });
}

CollComm::~CollComm() {
  const bool is_idle = taken_.load() == appended_.load();
  closing_.store(true);
  if (!is_idle) communicator_->abort();
  wake_worker();
  worker_.join();
}

Result<CollRequest*> CollComm::all_reduce(const CollCall& call) {
  CollRequest* const request = &requests_[next_request_];
  if (request->state.load(std::memory_order_acquire) != CollRequest::State::kFree) {
    return static_cast<CollRequest*>(nullptr);
  }
  next_request_ = (next_request_ + 1) % kRequests;
  request->call = call;
  identify(request);
  request->state.store(CollRequest::State::kWaiting, std::memory_order_relaxed);
  const std::uint64_t index = appended_.load(std::memory_order_relaxed);
  queue_[index % kRequests] = request;
  appended_.store(index + 1);
  if (worker_sleeps_.load() != 0) wake_worker();
  return request;
}

/// What is known of the call's tensor. Decided from what is equal on all nodes.
void CollComm::identify(CollRequest* request) {
  const CollCall& call = request->call;
  request->tensor = PiecewiseTensor{};
  request->tensor.dtype = call.dtype;
  request->starts_tensor = true;
  request->first = 0;
  request->valid_count = call.count;
  request->clears_staging = false;
  if (!identity_.has_books) {
    // NCCL's staging memory, which is zero at first and is ours until the call is done, has zeros
    // behind a tensor's end if it is cleared after each use. In place it is the user's memory.
    request->clears_staging = call.send != call.receive;
    if (request->clears_staging) request->tensor.known = PiecewiseTensor::Known::kPadded;
    return;
  }
  if (book_ == nullptr) book_ = tensor_book_of_this_thread(identity_.comm_id);
  if (book_ == nullptr) return;
  const auto piece = book_->take_piece(call.count * dtype_size(call.dtype));
  if (!piece.has_value() || piece->tensor.element_bytes != dtype_size(call.dtype)) return;
  request->tensor.known =
      piece->is_recurring ? PiecewiseTensor::Known::kTensor : PiecewiseTensor::Known::kExtent;
  request->tensor.count = piece->tensor.count;
  request->tensor.address = piece->tensor.address;
  request->starts_tensor = piece->is_first;
  request->first = piece->first;
  request->valid_count = piece->count;
}

Result<bool> CollComm::test(CollRequest* request) {
  switch (request->state.load(std::memory_order_acquire)) {
    case CollRequest::State::kWaiting:
      return false;
    case CollRequest::State::kDone:
      request->state.store(CollRequest::State::kFree, std::memory_order_release);
      return true;
    case CollRequest::State::kFailed:
      request->state.store(CollRequest::State::kFree, std::memory_order_release);
      return failure_;
    case CollRequest::State::kFree:
      break;
  }
  return Status(Code::kInvalidArgument, "a request that is not under way");
}

// --- the worker ---

void CollComm::wake_worker() {
  worker_sleeps_.store(0);
  worker_sleeps_.notify_one();
}

/// The next request; null when it is time to end.
CollRequest* CollComm::next() {
  const std::uint64_t index = taken_.load(std::memory_order_relaxed);
  Deadline sleepy = Clock::now() + kAwakeTime;
  while (appended_.load() == index) {
    if (closing_.load()) return nullptr;
    if (Clock::now() < sleepy) {
      sched_yield();
      continue;
    }
    worker_sleeps_.store(1);
    // What came in between has not seen that this thread sleeps.
    if (appended_.load() == index && !closing_.load()) worker_sleeps_.wait(1);
    worker_sleeps_.store(0);
    sleepy = Clock::now() + kAwakeTime;
  }
  return queue_[index % kRequests];
}

void CollComm::run() {
  pthread_setname_np(pthread_self(), "rp-collnet");
  while (CollRequest* const request = next()) {
    Status status = failure_;
    if (status.is_ok()) status = catch_all([&] { return perform(request); });
    if (failure_.is_ok() && !status.is_ok()) failure_ = status;
    taken_.store(taken_.load(std::memory_order_relaxed) + 1);
    request->state.store(status.is_ok() ? CollRequest::State::kDone : CollRequest::State::kFailed,
                         std::memory_order_release);
  }
}

Status CollComm::perform(CollRequest* request) {
  const CollCall& call = request->call;
  if (request->starts_tensor) {
    RINGPRESS_RETURN_IF_ERROR(communicator_->start_pieces(request->tensor));
  }
  RINGPRESS_RETURN_IF_ERROR(communicator_->all_reduce_piece(call.send, call.receive, request->first,
                                                            request->valid_count));
  if (request->clears_staging) std::memset(call.send, 0, call.count * dtype_size(call.dtype));
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::plugin
