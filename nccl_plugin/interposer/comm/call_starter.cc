#include "nccl_plugin/interposer/comm/call_starter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ringpress/internal/algorithms.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// How a call by an algorithm (ringpress/internal/algorithms.h) is made in streams.
struct StreamRunner {
  Algorithm algorithm;
  StreamCallPointer (*make)(const StreamCallParts& parts, const HostParts& host);
};

constexpr StreamRunner kStreamRunners[] = {
    {Algorithm::kSra,
     [](const StreamCallParts& parts, const HostParts&) { return make_sra_call(parts); }},
    {Algorithm::kRing,
     [](const StreamCallParts& parts, const HostParts&) { return make_ring_call(parts); }},
    {Algorithm::kHier, make_hier_call},
};
static_assert(std::size(kStreamRunners) == std::size(kAlgorithms),
              "each row of kAlgorithms has a runner in streams");

StreamCallPointer make_sum_call(Algorithm algorithm, const StreamCallParts& parts,
                                const HostParts& host) {
  const auto* const runner =
      std::find_if(std::begin(kStreamRunners), std::end(kStreamRunners),
                   [algorithm](const StreamRunner& one) { return one.algorithm == algorithm; });
  RINGPRESS_EXPECTS(runner != std::end(kStreamRunners), "an algorithm has no runner in streams");
  return runner->make(parts, host);
}

/// Of a call that the sequence has told StreamScales of: fills in what it is encoded with.
Result<StreamScales::Chosen> choose_scales(const CommParts& comm, const PlannedCall& planned,
                                           Way way, StreamCallParts* parts) {
  const Call& call = planned.call;
  if (!comm.sequence->has_told(CallUser::kScales)) return StreamScales::Chosen{};
  const PreparedCodec& codec = *comm.codec_of(call, planned.decision);
  const bool takes_scales = planned.decision.has_scales && way.kind == Way::Kind::kSum;
  RINGPRESS_ASSIGN_OR_RETURN(
      const StreamScales::Chosen chosen,
      comm.scales->choose(tensor_of(call, call.count), comm.policy.residual_count(call, way),
                          takes_scales ? codec.scale_block : 0, parts->lane->stream()));
  if (chosen.codes == nullptr) return chosen;
  parts->codec = codec.scaled.get();
  parts->scales = chosen.codes;
  return chosen;
}

}  // namespace

Result<StreamCallPointer> CallStarter::start(const PlannedCall& planned) {
  exact_because_ = planned.stays_exact ? planned.decision.why : WhyExact{};
  if (planned.may_be_put_off) return start_lazily(planned);
  RINGPRESS_ASSIGN_OR_RETURN(StreamCallPointer call, start_settled(planned));
  return parts_.trace == nullptr ? std::move(call) : trace(planned, std::move(call));
}

Result<StreamCallPointer> CallStarter::start_settled(const PlannedCall& planned) {
  if (!planned.stays_exact) {
    planner_.tell_sequence(planned);
    return start_planned(planned);
  }
  parts_.sequence->begin_call();
  return make_exact_call(parts_.real, planned.call);
}

/// `call`, as the trace wants it.
StreamCallPointer CallStarter::trace(const PlannedCall& planned, StreamCallPointer call) {
  if (planned.call.kind != CollectiveKind::kAllReduce) return call;
  CallFrame frame;
  if (capture_of(*parts_.device, planned.call) != 0) {
    parts_.trace->skip();
  } else {
    const TensorCall tensor = tensor_of(planned.call, planned.call.count);
    parts_.trace->time(tensor, planned.call.stream, planned.takes_turn, &frame);
  }
  return make_framed_call(parts_.framed_parts(planned.call), frame, std::move(call));
}

/// What its sending may need is made before ranks agree on the call.
Result<StreamCallPointer> CallStarter::start_lazily(const PlannedCall& planned) {
  if (planner_.needs_agreement(planned)) {
    const std::size_t bytes = parts_.projected_bytes(planned.call);
    RINGPRESS_RETURN_IF_ERROR(parts_.kept->reserve_projected(bytes));
  }
  return make_lazy_call(parts_.real, *this, planned.call);
}

Result<StreamCallPointer> CallStarter::start_sent(const Call& call) {
  PlannedCall planned{call};
  parts_.kept->forget_place();
  StreamCallPointer started;
  if (planner_.choose(&planned)) {
    RINGPRESS_ASSIGN_OR_RETURN(started, start_planned(planned));
  } else {
    exact_because_ = planned.decision.why;
    started = make_exact_call(parts_.real, call);
  }
  if (!parts_.kept->has_place()) planner_.keep_place(call);
  return started;
}

void CallStarter::pass_put_off(const Call& call) {
  exact_because_ = {ExactReason::kPutOff, 0, {}};
  planner_.keep_place(call);
}

/// What CallPlanner::choose() has said yes to.
Result<StreamCallPointer> CallStarter::start_planned(const PlannedCall& planned) {
  if (planned.is_of_step) return start_of_step(planned);
  return planned.takes_turn ? start_in_turn(planned) : start_compressed(planned);
}

/// As the step's plan says, or else as the guard does.
Result<StreamCallPointer> CallStarter::start_of_step(const PlannedCall& planned) {
  const Call& call = planned.call;
  const TensorCall tensor = tensor_of(call, call.count);
  StreamSteps& steps = *parts_.steps;
  RINGPRESS_ASSIGN_OR_RETURN(const SteppedCall stepped,
                             steps.next(tensor, call.stream, parts_.lifetime.watch()));
  CallFrame frame;
  frame.words = stepped.words;
  const bool is_by_rule = planned.decision.is_given();
  const Decision decision =
      follow_step(stepped.stays_exact, parts_.policy.request(call), planned.decision);
  StreamCallPointer inner;
  if (planned.is_new()) {
    // As if it were left to the real library, which does not know of places either.
    exact_because_ = decision.why;
    inner = make_exact_call(parts_.real, call);
    steps.time(tensor, call.stream, is_by_rule, &frame);
  } else if (!decision.is_compressed()) {
    inner = start_exactly(
        planned, planned.gains_nothing() ? ExactReason::kNothingGained : decision.why.reason);
    steps.time(tensor, call.stream, is_by_rule, &frame);
  } else if (planned.takes_turn) {
    RINGPRESS_ASSIGN_OR_RETURN(inner, start_in_turn(planned));
    steps.skip();
  } else {
    RINGPRESS_ASSIGN_OR_RETURN(inner, start_compressed(planned));
    steps.time(tensor, call.stream, is_by_rule, &frame);
  }
  return make_framed_call(parts_.framed_parts(call), frame, std::move(inner));
}

/// As the guard says now.
Result<StreamCallPointer> CallStarter::start_in_turn(const PlannedCall& planned) {
  const Call& call = planned.call;
  RINGPRESS_ASSIGN_OR_RETURN(const GuardedCall guarded,
                             parts_.guard->next(parts_.policy.request(call), call.stream,
                                                planned.decision.codec, parts_.lifetime.watch()));
  StreamCallPointer inner;
  if (guarded.step.is_exact) {
    inner = start_exactly(
        planned, guarded.step.is_trial ? ExactReason::kTrial : ExactReason::kNothingGained);
  } else {
    RINGPRESS_ASSIGN_OR_RETURN(inner, start_compressed(planned));
  }
  return make_framed_call(parts_.framed_parts(call), guarded.frame, std::move(inner));
}

StreamCallPointer CallStarter::start_exactly(const PlannedCall& planned, ExactReason reason) {
  exact_because_ = left_exact(planned.decision, reason).why;
  planner_.pass_over(planned.call, planned.decision);
  return make_exact_call(parts_.real, planned.call);
}

Result<StreamCallPointer> CallStarter::start_compressed(const PlannedCall& planned) {
  const Call& call = planned.call;
  const Decision& decision = planned.decision;
  const PreparedCodec* const codec = parts_.codec_of(call, decision);
  RINGPRESS_EXPECTS(codec != nullptr, "a call was accepted that has no codec");
  const Way way = parts_.way_of(call, decision);
  ProjectionParts projection;
  StreamCallParts parts = make_parts(call, decision, way);
  RINGPRESS_RETURN_IF_ERROR(find_memory(call, decision, way, &parts, &projection));
  RINGPRESS_ASSIGN_OR_RETURN(const StreamScales::Chosen scales,
                             choose_scales(parts_, planned, way, &parts));
  parts_.statistics.begin(codec->of_tensor().specification(), way.name());
  switch (way.kind) {
    case Way::Kind::kProjection:
      return make_projection_call(parts, projection);
    case Way::Kind::kGather:
      return make_gather_call(parts);
    case Way::Kind::kSum:
      break;
  }
  StreamCallPointer made = make_sum_call(way.algorithm, parts, host_parts(call));
  if (scales.tensor == nullptr) return made;
  const std::size_t first =
      way.is_hierarchical() ? host_parts(call).rank * parts_.policy.residual_count(call, way) : 0;
  const auto* const result = static_cast<const std::byte*>(call.receive) +
                             first * dtype_size(static_cast<DType>(call.dtype));
  return parts_.scales->learn_from(parts, scales, result, std::move(made));
}

StreamCallParts CallStarter::make_parts(const Call& call, const Decision& decision, Way way) {
  const bool is_hier = way.is_hierarchical();
  const HostPosition& host = parts_.policy.position();
  const PreparedCodec& codec = *parts_.codec_of(call, decision);
  StreamCallParts parts;
  parts.real = &parts_.real;
  parts.comm = is_hier ? parts_.lifetime.groups().cross : parts_.handle;
  parts.rank = static_cast<std::size_t>(is_hier ? host.host : parts_.rank);
  parts.world = static_cast<std::size_t>(is_hier ? host.hosts : parts_.size);
  parts.device = parts_.device.get();
  parts.codec = codec.codec.get();
  parts.kind = call.kind;
  parts.send = call.send;
  parts.receive = call.receive;
  parts.count = call.count;
  parts.stream = call.stream;
  parts.chunk_elements = decision.chunk_elements;
  parts.seed = parts_.settings.seed;
  if (!is_hier) parts.ring_order = parts_.policy.ring_order();
  // Also of a call that this rank cannot begin: the others have counted it.
  parts.sequence = turns_.calls++;
  if (codec.projection != nullptr) {
    const Projection& sizes = *codec.projection->codec().projection();
    turn_ = turns_.slices.next(tensor_of(call, call.count), sizes.cycle({call.count, {}}));
    parts.turn = turn_.turn;
  }
  return parts;
}

/// Adds what this rank may lack. `projection` is filled in if the tensor is projected.
Status CallStarter::find_memory(const Call& call, const Decision& decision, Way way,
                                StreamCallParts* parts, ProjectionParts* projection) {
  const PreparedCodec& codec = *parts_.codec_of(call, decision);
  KeptMemory& memory = *parts_.kept;
  RINGPRESS_ASSIGN_OR_RETURN(const KeptMemory::Room room, memory.room_of(call, way));
  parts->lane = room.lane;
  const std::size_t count = parts_.policy.residual_count(call, way);
  ToKeep wanted = codec.to_keep(decision, count);
  // Whoever replays a graph counts no turns.
  const bool has_turn = codec.projection != nullptr && !turn_.is_by_address;
  if (has_turn && !memory.is_of_graph(room)) wanted.memory_count = 0;
  const Kept kept = memory.find(tensor_of(call, count), wanted, room, call.stream);
  parts->residual = kept.residual;
  if (codec.projection == nullptr) return Status::ok();
  if (memory.is_of_graph(room) && kept.memory == nullptr) {
    // Without it, each replay would project as the first one does.
    return {Code::kSystem, "no memory for what a graph keeps of a projected tensor"};
  }
  projection->projection = codec.projection.get();
  projection->state = reinterpret_cast<std::uint64_t*>(kept.memory);
  projection->goes_round_the_ring = way.goes_round();
  RINGPRESS_ASSIGN_OR_RETURN(projection->memory, room.workspace->projected(projection_bytes(
                                                     *codec.projection, call.count)));
  return Status::ok();
}

HostParts CallStarter::host_parts(const Call& call) const {
  const HostPosition& position = parts_.policy.position();
  HostParts host;
  host.whole = parts_.handle;
  host.local = parts_.lifetime.groups().local;
  host.rank = static_cast<std::size_t>(position.local_rank);
  host.size = static_cast<std::size_t>(position.local_size);
  host.dtype = call.dtype;
  host.op = call.op;
  return host;
}

}  // namespace ringpress::nccl_plugin::interposer
