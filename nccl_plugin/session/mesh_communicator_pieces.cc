// All-reduces of a tensor whose pieces come one after the other.
#include <limits>

#include "nccl_plugin/session/mesh_communicator.h"
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

/// On the whole tensor, which others have found worth compressing, by what is certain enough of it.
Result<Decision> MeshCommunicator::decide_pieces(const PiecewiseTensor& tensor) {
  constexpr std::uint64_t kRecursAlways = std::numeric_limits<std::uint32_t>::max();
  std::size_t count = tensor.whole_count != 0 ? tensor.whole_count : tensor.count;
  // It stays exact, though not for its size: as if it were just large enough.
  if (tensor.known == PiecewiseTensor::Known::kNothing) {
    count = settings_.minimum_bytes / dtype_size(tensor.dtype) + 1;
  }
  // Each rank is a node's; how many that has is not known.
  const CommShape nodes{size_, true, all_reduces_only_, false, 0, size_, 0};
  PlanRequest request =
      request_of(nodes, CollectiveKind::kAllReduce, count, tensor.dtype, {tensor.op});
  request.recurrences = kRecursAlways;
  return decide_tensor(*planner_, request, tensor.known, *this);
}

Status MeshCommunicator::start_pieces(const PiecewiseTensor& tensor) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  call_sequence_->begin_call();
  pieces_.tensor = tensor;
  pieces_.codec = nullptr;
  pieces_.residual = nullptr;
  RINGPRESS_ASSIGN_OR_RETURN(pieces_.decision, decide_pieces(tensor));
  RINGPRESS_ASSIGN_OR_RETURN(pieces_.codec,
                             codec_for(pieces_.decision.codec, tensor.dtype, tensor.op));
  if (pieces_.decision.error_feedback && !pieces_.codec->codec->traits().lossless) {
    pieces_.residual = feedback_
                           .find({CollectiveKind::kAllReduce, tensor.count, tensor.dtype, tensor.op,
                                  tensor.address, tensor.layout})
                           .residual;
  }
  return Status::ok();
}

Status MeshCommunicator::all_reduce_piece(const void* send, void* receive, std::size_t first,
                                          std::size_t count) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  if (pieces_.codec == nullptr) return {Code::kInvalidUsage, "a piece of no tensor"};
  const PiecewiseTensor& tensor = pieces_.tensor;
  if (has_extent(tensor) && (first > tensor.count || count > tensor.count - first)) {
    return {Code::kInvalidArgument, "a piece of elements " + std::to_string(first) + " to " +
                                        std::to_string(first + count) + " of a tensor of " +
                                        std::to_string(tensor.count)};
  }
  CallSignature signature;
  signature.count = count;
  signature.kind = CollectiveKind::kAllReduce;
  signature.dtype = tensor.dtype;
  signature.op = tensor.op;
  signature.root = -1;
  // What is sent without error feedback must do without, whatever is quickest.
  is_tuned_ = false;
  Decision decision = pieces_.decision;
  if (count > 0 && size_ > 1 && !decision.is_exact() &&
      tensor.known == PiecewiseTensor::Known::kTensor) {
    const PlanRequest piece{
        CollectiveKind::kAllReduce, count, tensor.dtype, tensor.op, false, size_};
    RINGPRESS_ASSIGN_OR_RETURN(decision, decide_piece(decision, piece, *this));
  }
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* const codec,
                             codec_for(decision.codec, tensor.dtype, tensor.op));
  Preparation call = prepare_decided(decision, *codec, signature, Reduction{tensor.op, 1, false});
  if (count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, count));
  const bool adds_residual = pieces_.residual != nullptr && codec->takes_error_feedback &&
                             !codec->codec->traits().lossless;
  if (adds_residual) call.context.residual = pieces_.residual + first;
  const bool is_compressed = !call.context.codec->traits().identity;
  if (is_compressed && tensor.known != PiecewiseTensor::Known::kTensor &&
      !call.context.codec->traits().lossless) {
    const std::lock_guard lock(statistics_mutex_);
    ++statistics_.unbiased_calls;
  }
  const std::uint64_t ranks = static_cast<std::uint64_t>(size_);
  call.raw_bytes = count * dtype_size(tensor.dtype) * 2 * (ranks - 1) / ranks;
  return finish(call, call.collective->all_reduce(call.context, {send, receive, count}));
}

}  // namespace ringpress::nccl_plugin
