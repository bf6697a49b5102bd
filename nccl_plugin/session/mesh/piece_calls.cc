#include "nccl_plugin/session/mesh/piece_calls.h"

#include <string>

#include "nccl_plugin/session/calls/residual_spike.h"
#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin {
namespace {

bool has_extent(const PiecewiseTensor& tensor) {
  switch (tensor.known) {
    case PiecewiseTensor::Known::kNothing:
    case PiecewiseTensor::Known::kPadded:
      return false;
    case PiecewiseTensor::Known::kExtent:
    case PiecewiseTensor::Known::kTensor:
      return true;
  }
  return false;
}

}  // namespace

/// Of the whole tensor.
PlanRequest PieceCalls::request_of_whole(const PiecewiseTensor& tensor) const {
  const std::size_t count = tensor.whole_count != 0 ? tensor.whole_count : tensor.count;
  // Each rank is a node's; how many that has is not known.
  const int size = session_.size();
  const CommShape nodes{size, true, session_.shape.all_reduces_only, false, 0, size, 0};
  PlanRequest request =
      request_of(nodes, CollectiveKind::kAllReduce, count, tensor.dtype, {tensor.op});
  // Such a tensor stays exact, though not for its size.
  request.is_count_known = tensor.known != PiecewiseTensor::Known::kNothing;
  return request;
}

/// What is known of it is known on all ranks, which have the same tensors in the same order.
Result<CallClass> PieceCalls::classify(const PiecewiseTensor& tensor, const PlanRequest& request) {
  ClassVotes& votes = calls_.class_votes();
  switch (tensor.known) {
    case PiecewiseTensor::Known::kNothing:
    case PiecewiseTensor::Known::kPadded:
      break;
    case PiecewiseTensor::Known::kExtent:
      return votes.classes().class_of_captured(request);
    case PiecewiseTensor::Known::kTensor:
      RINGPRESS_RETURN_IF_ERROR(votes.observe(request, tensor.address));
      return votes.classes().class_of(request);
  }
  return takes_gradients_alone(session_.settings) ? CallClass::kUntold : CallClass::kGradient;
}

Status PieceCalls::start(const PiecewiseTensor& tensor) {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  session_.call_sequence->begin_call();
  tensor_ = tensor;
  has_started_ = false;
  residual_ = nullptr;
  PlanRequest request = request_of_whole(tensor);
  RINGPRESS_ASSIGN_OR_RETURN(request.call_class, classify(tensor, request));
  RINGPRESS_ASSIGN_OR_RETURN(
      decision_, decide_tensor(*session_.planner, request, tensor.known, calls_.advisers()));
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* const codec,
                             session_.codec_for(decision_.codec, tensor.dtype, tensor.op));
  has_started_ = true;
  if (decision_.error_feedback && !codec->codec->traits().lossless) {
    const Kept kept =
        session_.feedback.find({CollectiveKind::kAllReduce, tensor.count, tensor.dtype, tensor.op,
                                tensor.address, tensor.layout},
                               {true, 0, 0, codec->codec->specification()});
    residual_ = kept.residual;
    usual_residual_ = kept.usual;
  }
  return Status::ok();
}

Status PieceCalls::check(std::size_t first, std::size_t count) const {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  if (!has_started_) return {Code::kInvalidUsage, "a piece of no tensor"};
  if (!has_extent(tensor_) || (first <= tensor_.count && count <= tensor_.count - first)) {
    return Status::ok();
  }
  return {Code::kInvalidArgument, "a piece of elements " + std::to_string(first) + " to " +
                                      std::to_string(first + count) + " of a tensor of " +
                                      std::to_string(tensor_.count)};
}

/// What is sent without error feedback must do without, whatever is quickest.
Result<Decision> PieceCalls::decide_next(std::size_t count) {
  calls_.advisers().begin_call();
  const bool is_tensors = tensor_.known == PiecewiseTensor::Known::kTensor;
  if (count == 0 || session_.size() == 1 || decision_.is_exact() || !is_tensors) return decision_;
  const PlanRequest piece{
      CollectiveKind::kAllReduce, count, tensor_.dtype, tensor_.op, false, session_.size()};
  return decide_piece(decision_, piece, calls_.advisers());
}

Status PieceCalls::run(const void* send, void* receive, std::size_t first, std::size_t count) {
  RINGPRESS_RETURN_IF_ERROR(check(first, count));
  const CallWatch::Call watched(session_.watch.get(),
                                {CollectiveKind::kAllReduce, count, tensor_.dtype});
  const bool is_tensors = tensor_.known == PiecewiseTensor::Known::kTensor;
  if (is_tensors && first == 0 && count > 0) {
    calls_.class_votes().note_values(send, count, tensor_.dtype);
  }
  RINGPRESS_ASSIGN_OR_RETURN(const Decision decision, decide_next(count));
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* const codec,
                             session_.codec_for(decision.codec, tensor_.dtype, tensor_.op));
  CallSignature signature;
  signature.count = count;
  signature.kind = CollectiveKind::kAllReduce;
  signature.dtype = tensor_.dtype;
  signature.op = tensor_.op;
  signature.root = -1;
  PreparedCall call =
      calls_.prepare_decided(decision, *codec, signature, Reduction{tensor_.op, 1, false});
  if (count == 0) return calls_.finish(call, Status::ok());
  if (session_.size() == 1) {
    return calls_.finish(call, calls_.run_alone(call, send, receive, count));
  }
  const CodecTraits& traits = codec->codec->traits();
  if (residual_ != nullptr && codec->takes_error_feedback && !traits.lossless) {
    call.context.residual = residual_ + first;
  }
  if (!traits.identity && !traits.lossless && !is_tensors) session_.statistics.count_unbiased();
  const auto ranks = static_cast<std::uint64_t>(session_.size());
  call.raw_bytes = count * dtype_size(tensor_.dtype) * 2 * (ranks - 1) / ranks;
  const TensorCall piece{CollectiveKind::kAllReduce, count, tensor_.dtype, tensor_.op};
  if (is_tensors) RINGPRESS_RETURN_IF_ERROR(calls_.begin_look(piece, send, &call));
  const Status status = call.collective->all_reduce(call.context, {send, receive, count});
  if (!status.is_ok()) return calls_.finish(call, status);
  drop_spike(call.context.residual, count, usual_residual_);
  calls_.look_for_overflow(call, receive, count);
  calls_.end_look(piece, call, receive);
  return calls_.finish(call, status);
}

}  // namespace ringpress::nccl_plugin
