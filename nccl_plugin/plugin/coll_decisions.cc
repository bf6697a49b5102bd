#include "nccl_plugin/plugin/coll_decisions.h"

namespace ringpress::nccl_plugin::plugin {

CollDecision CollDecisions::decide(const CollCall& call, ProfiledTensors* profiled) {
  CollDecision decision;
  decision.worker = next_worker_;
  decision.tensor.dtype = call.dtype;
  decision.valid_count = call.count;
  const std::optional<TensorPiece> piece = known_piece(call, profiled);
  has_unknown_ = has_unknown_ || !piece.has_value();
  use_staging(call, &decision);
  if (piece.has_value()) know(*piece, &decision);
  next_worker_ = (decision.worker + 1) % kCollWorkers;
  return decision;
}

std::optional<TensorPiece> CollDecisions::known_piece(const CollCall& call,
                                                      ProfiledTensors* profiled) const {
  if (part_ == TensorPart::kNothing) return std::nullopt;
  const std::size_t bytes = call.count * dtype_size(call.dtype);
  auto piece = profiled->take_piece({call.address, bytes, kCollWorkers, part_});
  if (piece && piece->tensor.element_bytes != dtype_size(call.dtype)) piece.reset();
  return piece;
}

/// Whether the staging memory is cleared after the call, and whether what lies behind the end of a
/// tensor that is not known is zero. In place it is the user's memory.
void CollDecisions::use_staging(const CollCall& call, CollDecision* decision) {
  if (call.send == call.receive) return;
  const MemoryRange used{call.send, call.count * dtype_size(call.dtype)};
  if (part_ == TensorPart::kWhole && !has_unknown_) {
    staging_.soil(used);
    return;
  }
  decision->clears_staging = true;
  if (staging_.is_clear(used)) {
    decision->tensor.known = PiecewiseTensor::Known::kPadded;
    decision->tensor.whole_count = call.count;
  }
  staging_.clear(used);
}

/// Each tensor's first piece goes to the first worker: so each worker has the same pieces every
/// time.
void CollDecisions::know(const TensorPiece& piece, CollDecision* decision) {
  decision->worker = piece.index % kCollWorkers;
  decision->tensor.known =
      piece.is_recurring ? PiecewiseTensor::Known::kTensor : PiecewiseTensor::Known::kExtent;
  decision->tensor.count = piece.worker_count;
  decision->tensor.whole_count = piece.tensor.count;
  decision->tensor.layout = piece.layout;
  decision->tensor.address = piece.tensor.address;
  decision->tag = piece.tensor.tag;
  decision->starts_tensor = piece.index < kCollWorkers;
  decision->valid_count = piece.count;
  std::size_t& worker_first = worker_first_[decision->worker];
  if (decision->starts_tensor) worker_first = 0;
  decision->first = worker_first;
  worker_first += piece.count;
}

}  // namespace ringpress::nccl_plugin::plugin
