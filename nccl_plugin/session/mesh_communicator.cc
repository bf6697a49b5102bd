// What all calls of a communicator have in common: what is decided before, and booked after them.
#include "nccl_plugin/session/mesh_communicator.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "compress_kernels/factory.h"
#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/session/statistics_file.h"
#include "ring/factory.h"
#include "ringpress/internal/hash.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/projection.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {
MeshCommunicator::MeshCommunicator(std::unique_ptr<Mesh> mesh, const Settings& settings)
    : mesh_(std::move(mesh)),
      rank_(mesh_->rank()),
      size_(mesh_->size()),
      settings_(settings),
      planner_(tuner::make_planner(settings)),
      feedback_(settings.feedback_limit_bytes, host_residual_memory(), call_sequence_),
      all_reduces_only_(compress_kernels::projects(settings.codec)),
      peers_(*mesh_, call_memory_, sequence_),
      ring_(ring::make_collective(Algorithm::kRing)),
      sra_(ring::make_collective(Algorithm::kSra)) {
  for (int peer = 0; peer < size_; ++peer) crosses_hosts_ |= !mesh_->is_local(peer);
  // Of calls that are put off, no step can be made out.
  if (!LazyCalls::is_wanted(settings_)) {
    steps_.open(settings_, rank_, size_, crosses_hosts_, call_sequence_);
  } else {
    lazy_ =
        std::make_unique<LazyCalls>(settings_, host_lazy_memory(), rank_, size_, call_sequence_);
    lazy_votes_ = std::make_unique<LazyVotes>(*mesh_, sequence_);
  }
  if (tuning::TunedCalls::has_choice(settings_)) {
    tuned_ = std::make_unique<tuning::TunedCalls>(settings_, peers_);
  }
  if (settings_.mode == "on" && settings_.adjust_steps != 0) {
    if (auto family = tuning::make_level_family(settings_)) {
      levels_ = std::make_unique<tuning::StepLevels>(settings_, peers_, std::move(family),
                                                     call_sequence_);
    }
  }
  if (settings_.statistics.empty() && settings_.trace.empty()) return;
  report_.open([this](ReportTime time) { write_report(time); });
}

Status MeshCommunicator::arrange_ring(const RingTopology& topology) {
  // Without a file nothing can be wrong with the hosts, and a ring of two, or inside one of them,
  // has no other order. All of this is equal on all ranks.
  if (topology.setting == "ranks" || size_ < 2) return Status::ok();
  if (!topology.is_file() && (size_ < 3 || !crosses_hosts_)) return Status::ok();
  constexpr std::size_t kLongestName = 256;  // With its zero.
  std::vector<std::byte> own(kLongestName), all(own.size() * static_cast<std::size_t>(size_));
  const std::string name = topology.own_host.substr(0, kLongestName - 1);
  std::memcpy(own.data(), name.data(), name.size());
  RINGPRESS_RETURN_IF_ERROR(peers_.gather(own, all));
  std::vector<std::string> hosts;
  for (std::size_t at = 0; at < all.size(); at += kLongestName) {
    hosts.emplace_back(reinterpret_cast<const char*>(&all[at]));
  }
  RINGPRESS_ASSIGN_OR_RETURN(std::vector<int> order, ring_order_of(topology, hosts));
  ring_ = ring::make_collective(Algorithm::kRing, std::move(order));
  return Status::ok();
}

MeshCommunicator::~MeshCommunicator() {
  report_.write();
}

/// Throws where the program has no memory left for a copy of them.
void MeshCommunicator::write_report(ReportTime time) {
  const bool has_booked = finalized_;
  std::optional<Statistics> now = statistics_at(time);
  if (!now) return;
  if (lazy_ != nullptr && !has_booked) lazy_->book_unsent(&*now, time);
  write_statistics(settings_, rank_, size_, *now);
  steps_.close(now->last_codec, time);
}

Status MeshCommunicator::count_hosts() {
  int local = 1;
  for (int peer = 0; peer < size_; ++peer) local += peer != rank_ && mesh_->is_local(peer) ? 1 : 0;
  float share = 1.0F / static_cast<float>(local);
  RINGPRESS_RETURN_IF_ERROR(peers_.sum({&share, 1}));
  hosts_ = static_cast<int>(std::lround(share));
  return Status::ok();
}

Status MeshCommunicator::check_usable() const {
  if (finalized_) return {Code::kInvalidUsage, "the communicator was finalized"};
  return mesh_->failure();
}

Result<const NamedCodec*> MeshCommunicator::codec_for(std::string_view name, DType dtype,
                                                      ReduceOp op) {
  return codecs_.find_or_make(name, dtype, op, make_named_codec);
}

/// The planner's question.
PlanRequest MeshCommunicator::make_request(CollectiveKind kind, std::size_t count, DType dtype,
                                           Reduction reduction) const {
  const CommShape comm{size_, crosses_hosts_, all_reduces_only_, false, 0, hosts_, size_};
  return request_of(comm, kind, whole_count(kind, count, size_), dtype, reduction);
}

/// The same on all ranks. What a rule leaves as it is comes at once.
bool MeshCommunicator::may_be_put_off(std::size_t count, DType dtype, Reduction reduction) const {
  if (lazy_ == nullptr) return false;
  const PlanRequest request = make_request(CollectiveKind::kAllReduce, count, dtype, reduction);
  return lazy_->takes(request) && !planner_->plan(request).is_denied();
}

Result<MeshCommunicator::Preparation> MeshCommunicator::prepare(CollectiveKind kind,
                                                                std::size_t count, DType dtype,
                                                                Reduction reduction, int root) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  PlanRequest request = make_request(kind, count, dtype, reduction);
  request.recurrences = recurrences_.count(request);
  is_measured_ = false;
  parts_ = {};
  RINGPRESS_ASSIGN_OR_RETURN(const Decision decision, decide_call(*planner_, request, *this));
  CallSignature signature;
  signature.count = count;
  signature.kind = kind;
  signature.dtype = dtype;
  signature.op = reduction.op;
  signature.root = root;
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* codec,
                             codec_for(decision.codec, dtype, reduction.op));
  Preparation call = prepare_decided(decision, *codec, signature, reduction);
  if (codec->codec->projection() != nullptr) call.context.turn = projected_.count(request);
  if (!parts_.empty() && !decision.is_exact()) RINGPRESS_RETURN_IF_ERROR(add_parts(&call));
  return call;
}

/// Codecs of their own for the parts of a call.
Status MeshCommunicator::add_parts(Preparation* call) {
  CollectiveContext& context = call->context;
  codec_parts_.clear();
  for (const tuning::LeveledPart& part : parts_) {
    const std::string& specification = levels_->family().specification(part.level);
    RINGPRESS_ASSIGN_OR_RETURN(
        const NamedCodec* named,
        codec_for(specification, context.codec->dtype(), context.codec->op()));
    codec_parts_.push_back({part.end, named->codec.get()});
    std::uint64_t& hash = context.call.codec_hash;
    hash = combine_hash(combine_hash(hash, part.end), named->hash);
  }
  context.parts = codec_parts_;
  return Status::ok();
}

/// Other ranks may have made another call, which is then found out in a call of ours: this says of
/// which of the program's it was the beginning.
Status MeshCommunicator::explain(const Status& status, const PlanRequest& request) const {
  if (status.code() != Code::kMismatch) return status;
  return {Code::kMismatch, status.message() + " (while the ranks agreed on how to make the " +
                               collective_name(request.kind) + " of " +
                               std::to_string(request.count) + " " + dtype_name(request.dtype) +
                               " that this rank is at)"};
}

/// Before anything else is decided, all whose call it is are told of it together.
std::optional<PlannedStepCall> MeshCommunicator::step_of(const PlanRequest& request,
                                                         const Decision& planned) {
  const std::optional<TensorCall> tensor = std::exchange(under_way_, {});
  if (!tensor) return std::nullopt;
  CallUsers users = steps_.users(*tensor);
  if (planned.error_feedback) users.add(CallUser::kFeedback);
  if (levels_ != nullptr && is_usual_compressed_all_reduce(request, planned))
    users.add(CallUser::kLevels);
  call_sequence_->tell(*tensor, users);
  return steps_.stays_exact();
}

Result<std::optional<TunedChoice>> MeshCommunicator::tuned_for(const PlanRequest& request,
                                                               const Decision& decision) {
  std::optional<TunedChoice> choice;
  is_tuned_ = tuned_ != nullptr && !decision.is_by_rule();
  if (!is_tuned_) return choice;
  const auto ask = [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(choice, tuned_->choose(request, decision));
    return Status::ok();
  };
  RINGPRESS_RETURN_IF_ERROR(decide([&] { return explain(ask(), request); }));
  return choice;
}

Result<std::string_view> MeshCommunicator::level_of(const PlanRequest& request,
                                                    const Decision& decision) {
  if (levels_ == nullptr) return std::string_view();
  RINGPRESS_RETURN_IF_ERROR(
      decide([&] { return explain(levels_->choose(request, decision), request); }));
  if (levels_->has_changed_sizes()) steps_.start_over();
  is_measured_ = levels_->wants_values();
  parts_ = levels_->parts();
  return levels_->codec();
}

Result<CodecLimits> MeshCommunicator::limits_of(const PlanRequest& request,
                                                const Decision& decision) {
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* named,
                             codec_for(decision.codec, request.dtype, request.op));
  return nccl_plugin::limits_of(*named, request);
}

Result<LazyCalls::Decision> MeshCommunicator::ask_lazy(const TensorCall& tensor,
                                                       const void* values) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  LazyCalls::Decision decision;
  RINGPRESS_RETURN_IF_ERROR(decide([&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const LazyVote own, lazy_->vote(tensor, values));
    RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, lazy_votes_->cast(tensor, own));
    RINGPRESS_ASSIGN_OR_RETURN(decision, lazy_->follow(largest));
    return Status::ok();
  }));
  return decision;
}

/// After a call that was sent: its late votes have come, too.
Status MeshCommunicator::conclude_lazy() {
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, lazy_votes_->conclude());
  return lazy_->conclude(largest);
}

/// On rank 0: by what calls are made that the plan leaves exact. Each is one piece of work, so what
/// takes least alone does so in the step.
void MeshCommunicator::choose_collectives(StepWord* word) const {
  if (tuned_ == nullptr) return;
  for (PlannedStepCall& call : word->calls) {
    if (call.stays_exact == 0) continue;
    const PlanRequest request =
        make_request(CollectiveKind::kAllReduce, call.count, static_cast<DType>(call.dtype),
                     {static_cast<ReduceOp>(call.op)});
    const std::optional<Choice> choice = tuned_->quickest_exact(request, planner_->plan(request));
    if (!choice) continue;
    call.algorithm = static_cast<std::uint8_t>(choice->algorithm);
    call.chunk_bytes = static_cast<std::uint32_t>(choice->chunk_bytes);
  }
}

/// Rank 0's word on the step, where it is due on all ranks.
Status MeshCommunicator::hear_of_step() {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  return decide([this]() -> Status {
    StepWord word = steps_.word();
    choose_collectives(&word);
    RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(std::as_writable_bytes(std::span(&word.header, 1))));
    if (word.header.calls > StepWord::kMostCalls) {
      return {Code::kMismatch, "rank 0's plan is for a step of too many calls"};
    }
    word.calls.resize(word.header.calls);
    if (!word.calls.empty()) {
      RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(std::as_writable_bytes(std::span(word.calls))));
    }
    return steps_.hear(word);
  });
}

/// `signature` lacks what was decided.
MeshCommunicator::Preparation MeshCommunicator::prepare_decided(const Decision& decision,
                                                                const NamedCodec& codec,
                                                                const CallSignature& signature,
                                                                Reduction reduction) {
  Preparation call;
  call.decision = decision;
  call.started = Clock::now();
  call.collective = decision.algorithm == Algorithm::kRing ? ring_.get() : sra_.get();
  call.context.mesh = mesh_.get();
  call.context.memory = &call_memory_;
  call.context.codec = codec.codec.get();
  call.context.call = signature;
  call.context.call.sequence = sequence_++;
  call.context.call.codec_hash = codec.hash;
  call.context.call.algorithm = decision.algorithm;
  call.context.chunk_elements = decision.chunk_elements;
  call.context.pre_multiplied = reduction.pre_multiplied;
  call.context.input_scale = reduction.input_scale;
  call.context.random_seed = settings_.seed;
  return call;
}

/// What is known of the tensor from earlier calls and from hints.
void MeshCommunicator::recall(Preparation* call, const Sent& sent, std::size_t count) {
  CollectiveContext& context = call->context;
  const DType dtype = context.codec->dtype();
  const TensorCall tensor{context.call.kind, count, dtype, context.codec->op(), sent.address};
  find_residual(call, tensor);
  // It has its place all the same.
  if (call_sequence_->has_told(CallUser::kFeedback)) feedback_.pass(tensor);
  if (is_measured_) {
    levels_->take({sent.values, context.residual, count, dtype},
                  hints_.find({count, dtype, sent.address}));
    call->started = Clock::now();
  }
}

void MeshCommunicator::find_residual(Preparation* call, const TensorCall& tensor) {
  CollectiveContext& context = call->context;
  if (context.codec->traits().lossless) return;
  ToKeep wanted{call->decision.error_feedback, 0};
  if (context.codec->projection() != nullptr) {
    context.layers = hints_.find({tensor.count, tensor.dtype, tensor.address});
    wanted.state_count = context.codec->projection()->state_count({tensor.count, context.layers});
  }
  if (!wanted.residual && wanted.state_count == 0) return;
  const Kept kept = feedback_.find(tensor, wanted);
  context.residual = kept.residual;
  context.projection_state = kept.state;
}

/// Books a call that has ended.
Status MeshCommunicator::finish(const Preparation& call, Status status) {
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.calls;
  if (!call.context.codec->traits().identity) {
    ++statistics_.compressed_calls;
  } else {
    exact_calls_.count(call.decision.why);
  }
  const auto taken = Clock::now() - call.started;
  statistics_.nanoseconds += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count());
  if (is_tuned_) tuned_->note(std::chrono::duration<double>(taken).count());
  statistics_.raw_bytes += call.raw_bytes;
  if (call.decision.is_observed()) {
    ++statistics_.observed_calls;
    statistics_.observed_raw_bytes += call.raw_bytes;
  }
  statistics_.residual_bytes = feedback_.bytes() + (lazy_ == nullptr ? 0 : lazy_->bytes());
  const bool is_exact = call.context.codec->traits().identity;
  statistics_.last_codec = is_exact ? kNoCodec : call.context.codec->specification();
  if (!call.context.parts.empty()) statistics_.last_codec.append(" and others, by part");
  statistics_.last_algorithm = algorithm_name(call.decision.algorithm);
  exact_calls_.set_last(call.decision.why);
  return status;
}

Status MeshCommunicator::finalize() {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  if (lazy_ != nullptr) {
    const std::lock_guard lock(statistics_mutex_);
    lazy_->book_unsent(&statistics_, ReportTime::kEnd);
  }
  finalized_ = true;
  return Status::ok();
}

Status MeshCommunicator::set_layers(const HintedCall& call, std::span<const Layer> layers) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  return hints_.set(call, layers);
}

Status MeshCommunicator::flush_lazy() {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  if (lazy_ != nullptr) lazy_->flush();
  return Status::ok();
}

void MeshCommunicator::abort() {
  mesh_->abort({Code::kAborted, "rank " + std::to_string(rank_) + " aborted the communicator"});
}

/// None where its lock is not to be had.
std::optional<Statistics> MeshCommunicator::statistics_at(ReportTime time) const {
  Statistics now;
  {
    const auto lock = lock_for_report(statistics_mutex_, time);
    if (!lock.owns_lock()) return std::nullopt;
    now = statistics_;
    exact_calls_.write_to(&now);
  }
  // What is part of all is asked for first: a call may be under way.
  if (tuned_ != nullptr) now.calibration_bytes = tuned_->calibration_bytes();
  now.wire_bytes = mesh_->counters().sent_bytes;
  return now;
}

}  // namespace ringpress::nccl_plugin
