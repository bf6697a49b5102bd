#include "nccl_plugin/session/mesh/call_maker.h"

#include <chrono>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/statistics_file.h"
#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/hash.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kMostErrors = 32;  // In statistics.

LiveIdentity live_identity(const MeshSession& session) {
  const Mesh& mesh = *session.mesh;
  LiveIdentity identity;
  identity.comm = session.watch->name();
  identity.door = "host";
  identity.rank = mesh.rank();
  identity.ranks = mesh.size();
  const int ranks_per_host = mesh.ranks_per_host();
  if (ranks_per_host > 0) identity.hosts = mesh.size() / ranks_per_host;
  return identity;
}

void tell_watch(CallWatch& watch, const PreparedCall& call, int ranks, std::uint64_t wire_bytes) {
  const CollectiveContext& context = call.context;
  if (context.residual != nullptr) {
    const bool is_scattered = context.call.kind == CollectiveKind::kReduceScatter;
    const auto shards = static_cast<std::size_t>(is_scattered ? ranks : 1);
    watch.norms().note(context.residual, context.call.count * shards);
  }
  if (!watch.keeps_events()) return;
  const bool is_exact = call.named->codec->traits().identity;
  watch.decide({call.named->codec->specification(), algorithm_name(call.decision.algorithm),
                is_exact ? to_text(call.decision.why) : std::string(), call.raw_bytes, wire_bytes});
}

}  // namespace

CallMaker::CallMaker(MeshSession& session)
    : session_(session),
      class_votes_(session),
      advisers_(session),
      slice_turns_(session.call_sequence),
      scales_(session.call_sequence, session.settings.feedback_limit_bytes) {
  const Settings& settings = session.settings;
  const bool is_followed = session.watch != nullptr && !settings.is_worker;
  if (is_followed) {
    reports_.live.open(settings, live_identity(session),
                       [this](ReportTime time) { return statistics_at(time); },
                       {session.watch.get()});
  }
  if (settings.statistics.empty() && settings.trace.empty() && !is_followed) return;
  reports_.end.open([this](ReportTime time) { write_report(time); });
}

void CallMaker::set_ring_order(const std::vector<int>& order) {
  collectives_ = ring::Collectives(order);
}

/// Throws where the program has no memory left for a copy of them.
void CallMaker::write_report(ReportTime time) {
  const bool has_booked = session_.is_finalized;
  std::optional<Statistics> now = statistics_at(time);
  if (!now) return;
  if (session_.lazy != nullptr && !has_booked) session_.lazy->calls.book_unsent(&*now, time);
  if (!session_.settings.is_worker) {
    write_statistics(session_.settings, session_.rank(), session_.size(), *now);
  }
  advisers_.steps().of_calls().close(now->last_codec, time);
  reports_.live.close(time);
}

Result<PreparedCall> CallMaker::prepare(CollectiveKind kind, std::size_t count, DType dtype,
                                        const Reduction& reduction, int root) {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  PlanRequest request = session_.request(kind, count, dtype, reduction);
  // (An all-reduce may have been put off until now: it was observed when it was made.)
  if (kind != CollectiveKind::kAllReduce) {
    RINGPRESS_RETURN_IF_ERROR(class_votes_.observe(request, nullptr));
  }
  request.call_class = class_votes_.classes().class_of(request);
  advisers_.begin_call();
  RINGPRESS_ASSIGN_OR_RETURN(const Decision decision,
                             decide_call(*session_.planner, request, advisers_));
  CallSignature signature;
  signature.count = count;
  signature.kind = kind;
  signature.dtype = dtype;
  signature.op = reduction.op;
  signature.root = root;
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* codec,
                             session_.codec_for(decision.codec, dtype, reduction.op));
  if (!decision.error_feedback) warn_of_loss(codec->loss, kind, session_.settings);
  PreparedCall call = prepare_decided(decision, *codec, signature, reduction);
  if (!advisers_.parts().empty() && !decision.is_exact()) {
    RINGPRESS_RETURN_IF_ERROR(add_parts(&call));
  }
  return call;
}

/// Codecs of their own for the parts of a call.
Status CallMaker::add_parts(PreparedCall* call) {
  CollectiveContext& context = call->context;
  codec_parts_.clear();
  for (const tuning::LeveledPart& part : advisers_.parts()) {
    RINGPRESS_ASSIGN_OR_RETURN(
        const NamedCodec* named,
        session_.codec_for(advisers_.codec_of(part), context.codec->dtype(), context.codec->op()));
    codec_parts_.push_back({part.end, named->codec.get()});
    std::uint64_t& hash = context.call.codec_hash;
    hash = combine_hash(combine_hash(hash, part.end), named->hash);
  }
  context.parts = codec_parts_;
  return Status::ok();
}

/// All ranks find the same codes, for which frames carry their hash.
Status CallMaker::add_scales(const TensorCall& tensor, PreparedCall* call) {
  if (!session_.call_sequence->has_told(CallUser::kScales)) return Status::ok();
  return session_.decide([&] {
    CollectiveContext& context = call->context;
    const bool takes_scales =
        call->decision.has_scales && call->named->scaled != nullptr && context.parts.empty();
    call->scales = scales_.choose(tensor, takes_scales ? call->named->scale_block : 0);
    if (call->scales.codes == nullptr) return Status::ok();
    context.codec = call->named->scaled.get();
    context.scales = call->scales.codes;
    context.call.codec_hash = combine_hash(context.call.codec_hash, call->scales.hash);
    return Status::ok();
  });
}

Status CallMaker::begin_look(const TensorCall& tensor, const void* values, PreparedCall* call) {
  const CodecTraits& traits = call->named->codec->traits();
  const bool may_lose = !call->decision.is_exact() && !traits.identity && !traits.lossless;
  ErrorGuard& guard = *advisers_.kept().guard;
  call->is_looked_at = session_.settings.guard && may_lose && guard.is_due(tensor);
  if (!call->is_looked_at) return Status::ok();
  return session_.decide([&] {
    const Status status = session_.peers.sum(guard.take(tensor, values));
    call->started = Clock::now();
    return status;
  });
}

void CallMaker::end_look(const TensorCall& tensor, const PreparedCall& call, const void* result) {
  if (!call.is_looked_at) return;
  ErrorGuard& guard = *advisers_.kept().guard;
  const std::string line = guard.judge(tensor, result, session_.size(), call.decision.codec,
                                       is_guarded(session_.settings, call.decision));
  if (!line.empty() && session_.rank() == 0) log_line(LogLevel::kWarn, "%s", line.c_str());
  session_.statistics.add(
      [&guard](Statistics* all) { guard.list_errors(kMostErrors, &all->errors); });
}

/// A block that has one step is no number throughout if one of its values is none.
void CallMaker::look_for_overflow(const PreparedCall& call, const void* result, std::size_t count) {
  if (call.context.residual == nullptr) return;
  const bool has_blocks = call.named->scale_block != 0 && call.context.parts.empty();
  const std::size_t step = has_blocks ? call.named->scale_block : 1;
  const DType dtype = call.context.call.dtype;
  if (compress_kernels::are_finite(result, count, dtype, step)) return;
  session_.feedback.halve_residuals();
}

PreparedCall CallMaker::prepare_decided(const Decision& decision, const NamedCodec& codec,
                                        const CallSignature& signature,
                                        const Reduction& reduction) {
  PreparedCall call;
  call.decision = decision;
  call.named = &codec;
  call.started = Clock::now();
  call.collective = &collectives_.of(decision.algorithm);
  call.context.mesh = session_.mesh.get();
  call.context.memory = &session_.call_memory;
  call.context.codec = codec.codec.get();
  call.context.call = signature;
  call.context.call.sequence = session_.sequence++;
  call.context.call.codec_hash = codec.hash;
  call.context.call.algorithm = decision.algorithm;
  call.context.chunk_elements = decision.chunk_elements;
  call.context.pre_multiplied = reduction.pre_multiplied;
  call.context.input_scale = reduction.input_scale;
  call.context.random_seed = session_.settings.seed;
  if (session_.watch == nullptr) return call;
  call.sent_before = session_.mesh->counters().sent_bytes;
  session_.watch->make_with(codec.codec->specification().c_str());
  return call;
}

Status CallMaker::run_alone(const PreparedCall& call, const void* send, void* receive,
                            std::size_t count) {
  DecodeAddEncodeArgs args;
  args.values = send;
  args.count = count;
  args.input_scale = call.context.input_scale;
  args.decoded = receive;
  call.context.codec->decode_add_encode(args);
  return Status::ok();
}

Status CallMaker::finish(const PreparedCall& call, Status status) {
  const Codec& codec = *call.named->codec;
  const auto taken = Clock::now() - call.started;
  advisers_.note_time(std::chrono::duration<double>(taken).count());
  class_votes_.note_end();
  const CallSignature& signature = call.context.call;
  said_.say({signature.kind, signature.count, signature.dtype}, codec.specification(),
            call.decision);
  std::optional<std::uint64_t> wire_bytes;
  if (session_.watch != nullptr) {
    wire_bytes = session_.mesh->counters().sent_bytes - call.sent_before;
    tell_watch(*session_.watch, call, session_.size(), *wire_bytes);
  }
  session_.statistics.count({call.decision, codec.traits().identity, codec.specification(),
                             !call.context.parts.empty(), call.context.scales != nullptr,
                             call.raw_bytes, taken, session_.kept_bytes() + scales_.bytes(),
                             wire_bytes});
  return status;
}

std::optional<Statistics> CallMaker::statistics_at(ReportTime time) const {
  std::optional<Statistics> now = session_.statistics.now(time);
  if (!now) return now;
  // What is part of all is asked for first: a call may be under way.
  now->calibration_bytes = advisers_.calibration_bytes();
  now->wire_bytes = session_.mesh->counters().sent_bytes;
  if (session_.watch != nullptr) {
    now->phases = session_.watch->phases();
    now->residual_norm = session_.watch->norms().norm();
  }
  return now;
}

}  // namespace ringpress::nccl_plugin
