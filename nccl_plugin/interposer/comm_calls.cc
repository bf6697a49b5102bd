// Comm's part in each call: whether it is compressed, and what with.
#include <algorithm>
#include <string>
#include <tuple>

#include "nccl_plugin/interposer/comm.h"
#include "nccl_plugin/session/calls/savings.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// Of a stream that does not say whether it is captured.
constexpr std::uint64_t kUnknownCapture = UINT64_MAX;

}  // namespace

TensorCall tensor_of(const Call& call, std::size_t count) {
  return {call.kind, count, static_cast<DType>(call.dtype), static_cast<ReduceOp>(call.op),
          call.tensor == nullptr ? call.send : call.tensor};
}

/// The planner's question; everything in it is equal on all ranks.
PlanRequest Comm::make_request(const Call& call) const {
  Reduction reduction;
  // Numbers above those of NCCL's own operations are of the program's pre-multiplied sums.
  reduction.pre_multiplied = call.op >= ncclNumOps;
  if (!reduction.pre_multiplied) reduction.op = static_cast<ReduceOp>(call.op);
  return request_of(comm_shape_, call.kind, whole_count(call.kind, call.count, size_),
                    static_cast<DType>(call.dtype), reduction);
}

const Comm::NamedCodec* Comm::codec_for(const Call& call, std::string_view specification) const {
  const auto found = codecs_.find(
      CodecKeyView(specification, static_cast<DType>(call.dtype), static_cast<ReduceOp>(call.op)));
  return found == codecs_.end() ? nullptr : &found->second;
}

/// 0: its stream is not being captured.
std::uint64_t Comm::capture_of(const Call& call) const {
  const Result<std::uint64_t> capture = device_->capture(call.stream);
  return capture.is_ok() ? capture.value() : kUnknownCapture;
}

/// 0 for a call that is never projected. (No rule names a codec that does.)
std::size_t Comm::projected_bytes(const Call& call) const {
  const NamedCodec* const named = codec_for(call, settings_.codec);
  if (named == nullptr || named->projection == nullptr) return 0;
  return projection_bytes(*named->projection, call.count);
}

/// Of a call that could be compressed.
StreamLimits Comm::limits_of(const Call& call, const PlanRequest& request, const NamedCodec& named,
                             std::uint64_t capture) const {
  const bool gathers = call.kind == CollectiveKind::kAllGather;
  StreamLimits limits;
  limits.saves_nothing = !saves_bytes(named.of_tensor(), request);
  limits.agrees_on_sums = gathers && named.of_tensor().agreement() != nullptr;
  limits.lacks_memory = projected_bytes(call) >= refused_projected_bytes_;
  limits.is_captured = capture != 0;
  // What cannot be told is left to the real library, which will say what is wrong.
  limits.may_be_captured = settings_.graph && capture != kUnknownCapture;
  limits.has_random_bits = named.has_random_bits();
  limits.lacks_memory_for_graph = capture == refused_capture_;
  return limits;
}

/// What the guard says of a call that could be compressed.
void Comm::ask_guard(const PlanRequest& request, std::uint64_t capture, PlannedCall* planned) {
  if (guard_ == nullptr || planned->decision.is_by_rule()) return;
  const StreamGuard::Answer answer =
      capture != 0 ? guard_->look_at_captured(request) : guard_->look_at(request);
  planned->takes_turn = answer == StreamGuard::Answer::kAsk;
  planned->gains_nothing = answer == StreamGuard::Answer::kExact;
}

/// The residual of a call that goes without it keeps its place.
void Comm::pass_over(const Call& call, const Decision& decision) {
  const NamedCodec& named = *codec_for(call, decision.codec);
  const std::size_t count = residual_count(call, choose_way(decision, call));
  if (!named.to_keep(decision, count).residual) return;
  feedback_->pass(tensor_of(call, count));
  has_place_ = true;
}

bool Comm::plan(PlannedCall* planned) {
  *planned = PlannedCall{planned->call};
  planned->may_be_put_off = may_be_put_off(planned->call);
  if (planned->may_be_put_off || choose_plan(planned)) return true;
  count_exact(planned->decision.why);
  if (planned->decision.is_observed()) {
    const std::lock_guard lock(statistics_mutex_);
    ++statistics_.observed_calls;
    statistics_.observed_raw_bytes += raw_bytes(make_request(planned->call));
  }
  return false;
}

/// True: it is compressed, or may be when it takes its turn; else the decision says why not.
bool Comm::choose_plan(PlannedCall* planned) {
  const Call& call = planned->call;
  PlanRequest request = make_request(call);
  request.recurrences = recurrences_.count(request);
  std::uint64_t capture = settings_.graph ? capture_of(call) : 0;
  if (capture != 0) request.recurrences = kRecursAlways;
  Decision& decision = planned->decision;
  decision = planner_->plan(request);
  if (decision.waits_for_recurrence()) {
    planned->is_new = planned->is_of_step = is_of_step(call, request, capture);
    return planned->is_new;
  }
  const NamedCodec* const named = codec_for(call, decision.codec);
  if (named == nullptr) return false;
  if (!settings_.graph) capture = capture_of(call);
  decision = follow_stream(limits_of(call, request, *named, capture), request, decision);
  if (decision.why.reason != ExactReason::kNone) return false;
  ask_guard(request, capture, planned);
  planned->is_of_step = is_of_step(call, request, capture);
  if (!planned->gains_nothing || planned->is_of_step) return true;
  pass_over(call, decision);
  decision = left_exact(decision, ExactReason::kNothingGained);
  return false;
}

/// Whether it is to be shown to all ranks' plan for the step. Captured calls are not.
bool Comm::is_of_step(const Call& call, const PlanRequest& request, std::uint64_t capture) const {
  if (steps_ == nullptr || !steps_->takes(request)) return false;
  return capture == 0 && (settings_.graph || capture_of(call) == 0);
}

void Comm::count_exact(const WhyExact& why) {
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.calls;
  exact_calls_.count(why);
  if (lazy_ != nullptr) statistics_.residual_bytes = kept_bytes();
  statistics_.last_codec = kNoCodec;
  exact_calls_.set_last(why);
}

WhyExact Comm::why_not_begun(const Status& error) {
  const std::lock_guard lock(statistics_mutex_);
  return {ExactReason::kCannotBegin, 0, *errors_.insert(error.message()).first};
}

bool Comm::needs_agreement(const PlannedCall& planned) const {
  const Call& call = planned.call;
  const std::size_t bytes = projected_bytes(call);
  // Where a rank has no memory, such a call is not projected if it is sent.
  if (planned.may_be_put_off && bytes >= refused_projected_bytes_) return false;
  const std::uint64_t capture = settings_.graph ? capture_of(call) : 0;
  // What a graph keeps of a projected tensor is made anew for each captured call.
  if (capture != 0) return bytes > 0 || agreed_captures_.count(capture) == 0;
  return bytes > agreed_projected_bytes_;
}

void Comm::note_agreement(const Call& call, bool all_can) {
  const std::size_t bytes = projected_bytes(call);
  const std::uint64_t capture = settings_.graph ? capture_of(call) : 0;
  if (capture != 0 && all_can) agreed_captures_.insert(capture);
  if (capture != 0 && !all_can) refused_capture_ = capture;
  if (capture != 0) return;
  if (all_can) {
    agreed_projected_bytes_ = std::max(agreed_projected_bytes_, bytes);
  } else {
    refused_projected_bytes_ = std::min(refused_projected_bytes_, bytes);
  }
}

/// What each rank sends of such a call uncompressed, as StreamCall::raw_bytes().
std::uint64_t Comm::raw_bytes(const PlanRequest& request) const {
  const std::uint64_t bytes = request.count * dtype_size(request.dtype);
  const auto peers = static_cast<std::uint64_t>(size_ - 1);
  const std::uint64_t rounds = request.kind == CollectiveKind::kAllReduce ? 2 : 1;
  return bytes * rounds * peers / static_cast<std::uint64_t>(size_);
}

Comm::Way Comm::choose_way(const Decision& decision, const Call& call) const {
  const NamedCodec* named = codec_for(call, decision.codec);
  if (named != nullptr && named->projection != nullptr) return Way::kProjection;
  if (call.kind == CollectiveKind::kAllGather) return Way::kGather;
  if (is_ring()) return Way::kRing;
  const bool has_parts =
      groups_.exist() && hier_part(call.count, static_cast<std::size_t>(groups_.place.local_size));
  return decision.algorithm == Algorithm::kHier && has_parts ? Way::kHier : Way::kSra;
}

ToKeep Comm::NamedCodec::to_keep(const Decision& decision, std::size_t count) const {
  ToKeep wanted;
  wanted.residual =
      decision.error_feedback && takes_error_feedback && !of_tensor().traits().lossless;
  if (projection != nullptr) wanted.memory_count = projection_state_floats(*projection, count);
  return wanted;
}

/// What lasts from call to call.
Kept Comm::find_kept(const Call& call, std::size_t count, const ToKeep& wanted, Place place) {
  if (!wanted.residual && wanted.memory_count == 0) return {};
  if (place.workspace != workspace_.get()) return find_captured(count, wanted, place.workspace);
  has_place_ = true;
  // Projections are made in the caller's stream.
  residual_memory_->use(wanted.memory_count > 0 ? call.stream : place.lane->stream());
  return feedback_->find(tensor_of(call, count), wanted);
}

/// What lasts as long as a captured call's graph.
Kept Comm::find_captured(std::size_t count, const ToKeep& wanted, Workspace* workspace) {
  Kept kept;
  if (wanted.memory_count > 0) kept.memory = workspace->add_residual(wanted.memory_count, stream_);
  const std::size_t limit = settings_.feedback_limit_bytes;
  const std::size_t bytes =
      feedback_->bytes() + captured_->residual_bytes() + count * sizeof(float);
  if (wanted.residual && (limit == 0 || bytes <= limit)) {
    kept.residual = workspace->add_residual(count, stream_);
  }
  return kept;
}

/// The workspace that a call has, and its lane there.
Result<Comm::Place> Comm::find_place_for(const Call& call, Way way) {
  Workspace* workspace = workspace_.get();
  if (settings_.graph) {
    RINGPRESS_ASSIGN_OR_RETURN(const std::uint64_t capture, device_->capture(call.stream));
    if (capture != 0) {
      RINGPRESS_ASSIGN_OR_RETURN(workspace, captured_->of(capture, call.stream, shape_));
    }
  }
  return Place{workspace, way == Way::kHier ? &workspace->cross() : &workspace->whole()};
}

StreamCallParts Comm::make_parts(const Call& call, const Decision& decision, Way way) {
  const bool is_hier = way == Way::kHier;
  const HostPlace& host = groups_.place;
  StreamCallParts parts;
  parts.real = &real_;
  parts.comm = is_hier ? groups_.cross : handle_;
  parts.rank = static_cast<std::size_t>(is_hier ? host.host : rank_);
  parts.world = static_cast<std::size_t>(is_hier ? host.hosts : size_);
  parts.device = device_.get();
  const NamedCodec& named = *codec_for(call, decision.codec);
  parts.codec = named.codec.get();
  parts.kind = call.kind;
  parts.send = call.send;
  parts.receive = call.receive;
  parts.count = call.count;
  parts.stream = call.stream;
  parts.chunk_elements = decision.chunk_elements;
  parts.seed = settings_.seed;
  if (!is_hier) parts.ring_order = ring_order_;
  // Also of a call that this rank cannot begin: the others have counted it.
  parts.sequence = sequence_++;
  if (named.projection != nullptr) parts.turn = projected_.count(make_request(call));
  return parts;
}

std::size_t Comm::residual_count(const Call& call, Way way) const {
  if (way != Way::kHier) return call.count;
  return hier_part(call.count, static_cast<std::size_t>(groups_.place.local_size));
}

/// Adds what this rank may lack. `projection` is filled in if the tensor is projected.
Status Comm::find_place_and_memory(const Call& call, const Decision& decision, Way way,
                                   StreamCallParts* parts, ProjectionParts* projection) {
  const NamedCodec& named = *codec_for(call, decision.codec);
  RINGPRESS_ASSIGN_OR_RETURN(const Place place, find_place_for(call, way));
  parts->lane = place.lane;
  const std::size_t count = residual_count(call, way);
  const Kept kept = find_kept(call, count, named.to_keep(decision, count), place);
  parts->residual = kept.residual;
  if (named.projection == nullptr) return Status::ok();
  if (place.workspace != workspace_.get() && kept.memory == nullptr) {
    // Without it, each replay would project as the first one does.
    return {Code::kSystem, "no memory for what a graph keeps of a projected tensor"};
  }
  projection->projection = named.projection.get();
  projection->state = reinterpret_cast<std::uint64_t*>(kept.memory);
  projection->goes_round_the_ring = is_ring();
  RINGPRESS_ASSIGN_OR_RETURN(projection->memory, place.workspace->projected(projection_bytes(
                                                     *named.projection, call.count)));
  return Status::ok();
}

const char* Comm::name_of(Way way) const {
  switch (way) {
    case Way::kHier:
      return algorithm_name(Algorithm::kHier);
    case Way::kGather:
      return "gather";
    case Way::kSra:
    case Way::kRing:
    case Way::kProjection:
      break;
  }
  return algorithm_name(is_ring() ? Algorithm::kRing : Algorithm::kSra);
}

void Comm::finish(const StreamCall& call, std::uint64_t nanoseconds) {
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.calls;
  ++statistics_.compressed_calls;
  statistics_.raw_bytes += call.raw_bytes();
  statistics_.wire_bytes += call.sent_bytes();
  statistics_.nanoseconds += nanoseconds;
  statistics_.residual_bytes = kept_bytes();
}

}  // namespace ringpress::nccl_plugin::interposer
