#include "nccl_plugin/plugin/coll_comm.h"

#include <utility>

#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/statistics_file.h"

namespace ringpress::nccl_plugin::plugin {

CollComm::CollComm(Communicators communicators, const CollIdentity& identity,
                   const Settings& settings)
    : Object{ObjectKind::kCollNetComm}, identity_(identity), settings_(settings) {
  for (CollRequest& request : requests_) request.owner = this;
  for (std::size_t lane = 0; lane < kCollLanes; ++lane) {
    lanes_[lane] = std::make_unique<CollLane>(std::move(communicators[lane]));
  }
  before_ = statistics();
  try {
    for (std::size_t lane = 0; lane < kCollLanes; ++lane) {
      lanes_[lane]->start(lanes_[kCollLanes - 1 - lane].get());
    }
  } catch (...) {  // Where there are no more threads, the one that runs looks after its companion.
    for (auto& lane : lanes_) lane->stop();
    throw;
  }
}

CollComm::~CollComm() {
  for (auto& lane : lanes_) lane->stop();
  const Statistics total = statistics();
  const Communicator& communicator = lanes_[0]->communicator();
  write_statistics(settings_, communicator.rank(), communicator.size(), total);
  log(abi::LogLevel::kInfo, abi::kLogNet,
      "CollNet of node %d of %d: %llu calls, %llu compressed (%llu of them unbiased), %llu bytes "
      "became %llu",
      communicator.rank(), communicator.size(), static_cast<unsigned long long>(total.calls),
      static_cast<unsigned long long>(total.compressed_calls),
      static_cast<unsigned long long>(total.unbiased_calls),
      static_cast<unsigned long long>(total.raw_bytes),
      static_cast<unsigned long long>(total.wire_bytes));
}

/// Of all lanes together, without what they did to get ready.
Statistics CollComm::statistics() const {
  Statistics total = lanes_[0]->communicator().statistics();
  for (std::size_t lane = 1; lane < kCollLanes; ++lane) {
    const Statistics more = lanes_[lane]->communicator().statistics();
    total.calls += more.calls;
    total.compressed_calls += more.compressed_calls;
    total.unbiased_calls += more.unbiased_calls;
    total.raw_bytes += more.raw_bytes;
    total.wire_bytes += more.wire_bytes;
    total.residual_bytes += more.residual_bytes;
    total.observed_calls += more.observed_calls;
    total.observed_raw_bytes += more.observed_raw_bytes;
    total.nanoseconds += more.nanoseconds;
    for (const auto& [reason, count] : more.exact_calls) total.exact_calls[reason] += count;
  }
  total.calls -= before_.calls;
  total.nanoseconds -= before_.nanoseconds;
  for (const auto& [reason, count] : before_.exact_calls) total.exact_calls[reason] -= count;
  std::erase_if(total.exact_calls, [](const auto& entry) { return entry.second == 0; });
  return total;
}

CollRequest* CollComm::all_reduce(const CollCall& call) {
  CollRequest* const request = &requests_[next_request_];
  if (request->state.load(std::memory_order_acquire) != CollRequest::State::kFree) return nullptr;
  next_request_ = (next_request_ + 1) % kCollRequests;
  request->call = call;
  identify(request);
  lanes_[request->lane]->append(request);
  return request;
}

/// What is known of the call's tensor, and its lane. Decided from what is equal on all nodes.
void CollComm::identify(CollRequest* request) {
  const CollCall& call = request->call;
  request->lane = next_lane_;
  next_lane_ = (next_lane_ + 1) % kCollLanes;
  request->tensor = PiecewiseTensor{};
  request->tensor.dtype = call.dtype;
  request->starts_tensor = true;
  request->first = 0;
  request->valid_count = call.count;
  // NCCL's staging memory, which is zero at first and is ours until the call is done, has zeros
  // behind a tensor's end if it is cleared after each use. In place it is the user's memory.
  request->clears_staging = identity_.part != TensorPart::kWhole && call.send != call.receive;
  if (request->clears_staging) {
    request->tensor.known = PiecewiseTensor::Known::kPadded;
    request->tensor.whole_count = call.count;
  }
  // Where other nodes know nothing, this one's book is kept short all the same.
  const std::size_t bytes = call.count * dtype_size(call.dtype);
  const auto piece = take_piece_of_this_thread(nodes(), {bytes, kCollLanes, identity_.part});
  if (identity_.part == TensorPart::kNothing) return;
  if (piece.has_value() && piece->tensor.element_bytes == dtype_size(call.dtype)) {
    identify_piece(request, *piece);
  }
}

/// Each tensor's first piece goes to the first lane: so each lane has the same pieces every time.
void CollComm::identify_piece(CollRequest* request, const TensorPiece& piece) {
  request->lane = piece.index % kCollLanes;
  next_lane_ = (request->lane + 1) % kCollLanes;
  request->tensor.known =
      piece.is_recurring ? PiecewiseTensor::Known::kTensor : PiecewiseTensor::Known::kExtent;
  request->tensor.count = piece.lane_count;
  request->tensor.whole_count = piece.tensor.count;
  request->tensor.layout = piece.layout;
  request->tensor.address = piece.tensor.address;
  request->starts_tensor = piece.index < kCollLanes;
  request->valid_count = piece.count;
  std::size_t& lane_first = lane_first_[request->lane];
  if (request->starts_tensor) lane_first = 0;
  request->first = lane_first;
  lane_first += piece.count;
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
      return lanes_[request->lane]->failure();
    case CollRequest::State::kFree:
      break;
  }
  return Status(Code::kInvalidArgument, "a request that is not under way");
}

}  // namespace ringpress::nccl_plugin::plugin
