// The composition root: builds codecs, collectives, the mesh and the planner into a Communicator.
#include "ringpress/communicator.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <memory_resource>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/error_feedback.h"
#include "nccl_plugin/layer_hints.h"
#include "nccl_plugin/statistics_file.h"
#include "ring/factory.h"
#include "ringpress/planner.h"
#include "ringpress/projection.h"
#include "ringpress/transport.h"
#include "tuner/factory.h"

namespace ringpress {
namespace {

using nccl_plugin::ErrorFeedback;
using nccl_plugin::TensorCall;

// What a call keeps in one piece and is larger goes back to the heap when it ends: what the ranks
// agree on for tensors of more than some ten million values.
constexpr std::size_t kLargestKeptBlock = 1024 * 1024;

ring::ProgressThread progress_thread_of(const Settings& settings) {
  if (settings.progress_thread == "on") return ring::ProgressThread::kOn;
  if (settings.progress_thread == "off") return ring::ProgressThread::kOff;
  return ring::ProgressThread::kAuto;
}

ring::MeshOptions mesh_options(const UniqueId& id, int rank, int size, const Settings& settings) {
  ring::MeshOptions options;
  options.id = id;
  options.rank = rank;
  options.size = size;
  options.agreement = agreement_lines(settings);
  options.extra_secret = settings.secret;
  options.timeout = std::chrono::milliseconds(settings.timeout_ms);
  options.sockets_per_peer = settings.sockets_per_peer;
  options.shared_memory = settings.shared_memory;
  options.progress_thread = progress_thread_of(settings);
  options.interface = settings.interface;
  return options;
}

/// A codec and the hash by which ranks compare it.
struct NamedCodec {
  std::unique_ptr<Codec> codec;
  std::uint64_t hash = 0;
  bool takes_error_feedback = true;
  std::string unbiased;  // Specification of its unbiased variant; empty: there is none.
};

/// True if a codec does not encode tensors but projects them, which only all-reduces can do.
bool projects(const std::string& specification) {
  const auto codec = compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  return codec.is_ok() && codec.value()->projection() != nullptr;
}

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

class MeshCommunicator : public Communicator {
 public:
  MeshCommunicator(std::unique_ptr<Mesh> mesh, const Settings& settings)
      : mesh_(std::move(mesh)),
        rank_(mesh_->rank()),
        size_(mesh_->size()),
        settings_(settings),
        planner_(tuner::make_planner(settings)),
        feedback_(settings.feedback_limit_bytes),
        all_reduces_only_(projects(settings.codec)) {
    for (int peer = 0; peer < size_; ++peer) crosses_hosts_ |= !mesh_->is_local(peer);
  }

  ~MeshCommunicator() override {
    nccl_plugin::write_statistics(settings_, rank_, size_, statistics());
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                    Reduction reduction) override;
  Status start_pieces(const PiecewiseTensor& tensor) override;
  Status all_reduce_piece(const void* send, void* receive, std::size_t first,
                          std::size_t count) override;
  Status reduce_scatter(const void* send, void* receive, std::size_t receive_count, DType dtype,
                        Reduction reduction) override;
  Status all_gather(const void* send, void* receive, std::size_t send_count, DType dtype) override;
  Status broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                   int root) override;
  Status reduce(const void* send, void* receive, std::size_t count, DType dtype,
                Reduction reduction, int root) override;
  Status exchange(std::span<const Transfer> transfers) override;
  Status set_layers(const HintedCall& call, std::span<const Layer> layers) override {
    RINGPRESS_RETURN_IF_ERROR(check_usable());
    return hints_.set(call, layers);
  }
  Result<std::unique_ptr<Communicator>> split(int color, int key,
                                              const Settings& settings) override;
  Status finalize() override;
  void abort() override {
    mesh_->abort({Code::kAborted, "rank " + std::to_string(rank_) + " aborted the communicator"});
  }
  Status failure() const override { return mesh_->failure(); }
  Statistics statistics() const override;

 private:
  /// Everything that a call needs, decided before its first byte moves.
  struct Preparation {
    CollectiveContext context;
    const Collective* collective = nullptr;
    const Plan* plan = nullptr;  // Until the next call.
    std::uint64_t raw_bytes = 0;
    Clock::time_point started;
  };
  /// The tensor whose pieces are being reduced.
  struct Pieces {
    PiecewiseTensor tensor;
    Plan plan;                          // As plan_, so that its strings keep their memory.
    const NamedCodec* codec = nullptr;  // Null: start_pieces() has not been called.
    float* residual = nullptr;          // Of tensor.count floats, or null.
  };

  Status check_usable() const;
  Result<Preparation> prepare(CollectiveKind kind, std::size_t count, DType dtype,
                              Reduction reduction, int root);
  Preparation prepare_planned(const Plan& plan, const NamedCodec& codec,
                              const CallSignature& signature, Reduction reduction);
  Status plan_pieces(const PiecewiseTensor& tensor, Plan* plan);
  Result<const NamedCodec*> codec_for(const std::string& specification, DType dtype, ReduceOp op);
  std::uint64_t count_recurrence(const PlanRequest& request);
  void recall(Preparation* call, const void* send, std::size_t count);
  Status finish(const Preparation& call, Status status);
  Status run_alone(const Preparation& call, const void* send, void* receive, std::size_t count);
  CallSignature pair_signature(const Transfer& transfer);

  // The mesh is given up by finalize(); abort() from another thread may still use it, so it is
  // destroyed only with the communicator or under `finalized_`.
  std::unique_ptr<Mesh> mesh_;
  // Of the calls, which are made by one thread at a time. Keeps as much as the largest one needed.
  std::pmr::unsynchronized_pool_resource call_memory_{{0, kLargestKeptBlock}};
  const int rank_;
  const int size_;
  const Settings settings_;
  std::unique_ptr<Planner> planner_;
  ErrorFeedback feedback_;
  nccl_plugin::LayerHints hints_;
  const bool all_reduces_only_;
  bool crosses_hosts_ = false;
  bool finalized_ = false;
  std::uint64_t sequence_ = 0;
  std::map<std::tuple<std::string, DType, ReduceOp>, NamedCodec, std::less<>> codecs_;
  std::map<std::tuple<CollectiveKind, std::size_t, DType, ReduceOp>, std::uint64_t> recurrences_;
  std::map<std::pair<int, bool>, std::uint64_t> transfers_;  // By peer and direction.
  Plan plan_;                                                // Of the last call, but for pieces.
  Pieces pieces_;
  const std::unique_ptr<Collective> ring_ = ring::make_collective(Algorithm::kRing);
  const std::unique_ptr<Collective> sra_ = ring::make_collective(Algorithm::kSra);
  mutable std::mutex statistics_mutex_;
  Statistics statistics_;
};

Status MeshCommunicator::check_usable() const {
  if (finalized_) return {Code::kInvalidUsage, "the communicator was finalized"};
  return mesh_->failure();
}

std::uint64_t MeshCommunicator::count_recurrence(const PlanRequest& request) {
  return recurrences_[{request.kind, request.count, request.dtype, request.op}]++;
}

Result<const NamedCodec*> MeshCommunicator::codec_for(const std::string& specification, DType dtype,
                                                      ReduceOp op) {
  const auto found = codecs_.find(std::make_tuple(std::string_view(specification), dtype, op));
  if (found != codecs_.end()) return &found->second;
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, compress_kernels::make_codec(specification, dtype, op));
  const std::string& text = codec->specification();
  const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
  RINGPRESS_ASSIGN_OR_RETURN(const bool takes_error_feedback,
                             compress_kernels::takes_error_feedback(specification));
  RINGPRESS_ASSIGN_OR_RETURN(std::string unbiased,
                             compress_kernels::unbiased_specification(specification));
  NamedCodec named{std::move(codec), hash, takes_error_feedback, std::move(unbiased)};
  return &codecs_.emplace(std::make_tuple(specification, dtype, op), std::move(named))
              .first->second;
}

Result<MeshCommunicator::Preparation> MeshCommunicator::prepare(CollectiveKind kind,
                                                                std::size_t count, DType dtype,
                                                                Reduction reduction, int root) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  PlanRequest request{kind,  count,          dtype, reduction.op,     reduction.pre_multiplied,
                      size_, crosses_hosts_, 0,     all_reduces_only_};
  const bool is_shard =
      kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather;
  if (is_shard) request.count *= static_cast<std::size_t>(size_);
  request.recurrences = count_recurrence(request);
  planner_->plan(request, &plan_);
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* named, codec_for(plan_.codec, dtype, reduction.op));
  plan_.error_feedback &= named->takes_error_feedback;
  CallSignature signature;
  signature.count = count;
  signature.kind = kind;
  signature.dtype = dtype;
  signature.op = reduction.op;
  signature.root = root;
  return prepare_planned(plan_, *named, signature, reduction);
}

/// `signature` lacks what the plan says. `plan` is kept by reference.
MeshCommunicator::Preparation MeshCommunicator::prepare_planned(const Plan& plan,
                                                                const NamedCodec& codec,
                                                                const CallSignature& signature,
                                                                Reduction reduction) {
  Preparation call;
  call.plan = &plan;
  call.started = Clock::now();
  call.collective = plan.algorithm == Algorithm::kRing ? ring_.get() : sra_.get();
  call.context.mesh = mesh_.get();
  call.context.memory = &call_memory_;
  call.context.codec = codec.codec.get();
  call.context.call = signature;
  call.context.call.sequence = sequence_++;
  call.context.call.codec_hash = codec.hash;
  call.context.call.algorithm = plan.algorithm;
  call.context.chunk_elements = plan.chunk_elements;
  call.context.pre_multiplied = reduction.pre_multiplied;
  call.context.input_scale = reduction.input_scale;
  call.context.random_seed = settings_.seed;
  return call;
}

/// What is known of the tensor from earlier calls and from hints.
void MeshCommunicator::recall(Preparation* call, const void* send, std::size_t count) {
  CollectiveContext& context = call->context;
  if (context.codec->traits().lossless) return;
  const DType dtype = context.codec->dtype();
  nccl_plugin::ToKeep wanted{call->plan->error_feedback, 0};
  if (context.codec->projection() != nullptr) {
    context.layers = hints_.find({count, dtype, send});
    wanted.state_count = context.codec->projection()->state_count({count, context.layers});
  }
  if (!wanted.residual && wanted.state_count == 0) return;
  const nccl_plugin::Kept kept =
      feedback_.find({context.call.kind, count, dtype, context.codec->op(), send}, wanted);
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
    ++statistics_.exact_calls[call.plan->reason];
  }
  statistics_.nanoseconds += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - call.started).count());
  statistics_.raw_bytes += call.raw_bytes;
  if (!call.plan->observed_codec.empty()) {
    ++statistics_.observed_calls;
    statistics_.observed_raw_bytes += call.raw_bytes;
  }
  statistics_.residual_bytes = feedback_.bytes();
  statistics_.last_codec = call.context.codec->specification();
  statistics_.last_algorithm = algorithm_name(call.plan->algorithm);
  statistics_.last_reason = call.plan->reason;
  return status;
}

/// A communicator of one rank: the reduction of its own values alone.
Status MeshCommunicator::run_alone(const Preparation& call, const void* send, void* receive,
                                   std::size_t count) {
  DecodeAddEncodeArgs args;
  args.values = send;
  args.count = count;
  args.input_scale = call.context.input_scale;
  args.decoded = receive;
  call.context.codec->decode_add_encode(args);
  return Status::ok();
}

Status MeshCommunicator::all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                                    Reduction reduction) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kAllReduce, count, dtype, reduction, -1));
  if (count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, count));
  recall(&call, send, count);
  const std::uint64_t ranks = static_cast<std::uint64_t>(size_);
  call.raw_bytes = count * dtype_size(dtype) * 2 * (ranks - 1) / ranks;
  return finish(call, call.collective->all_reduce(call.context, {send, receive, count}));
}

/// The plan for the whole tensor, which others have found worth compressing, and what is certain
/// enough of it.
Status MeshCommunicator::plan_pieces(const PiecewiseTensor& tensor, Plan* plan) {
  constexpr std::uint64_t kRecursAlways = std::numeric_limits<std::uint32_t>::max();
  const std::size_t whole = tensor.whole_count != 0 ? tensor.whole_count : tensor.count;
  const std::size_t count = has_extent(tensor) ? whole : settings_.minimum_bytes;
  planner_->plan({CollectiveKind::kAllReduce, count, tensor.dtype, tensor.op, false, size_, true,
                  kRecursAlways, all_reduces_only_},
                 plan);
  if (tensor.known == PiecewiseTensor::Known::kTensor || plan->codec == "none") return Status::ok();
  plan->error_feedback = false;
  if (tensor.known == PiecewiseTensor::Known::kNothing) {
    plan->codec = "none";
    plan->reason = "not known where the tensor ends";
    return Status::ok();
  }
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* named,
                             codec_for(plan->codec, tensor.dtype, tensor.op));
  if (named->unbiased.empty()) {
    plan->reason = "not known which tensor it is, and ";
    plan->reason.append(plan->codec).append(" needs error feedback");
    plan->codec = "none";
  } else {
    plan->codec = named->unbiased;
  }
  return Status::ok();
}

Status MeshCommunicator::start_pieces(const PiecewiseTensor& tensor) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  pieces_.tensor = tensor;
  pieces_.codec = nullptr;
  pieces_.residual = nullptr;
  RINGPRESS_RETURN_IF_ERROR(plan_pieces(tensor, &pieces_.plan));
  RINGPRESS_ASSIGN_OR_RETURN(pieces_.codec, codec_for(pieces_.plan.codec, tensor.dtype, tensor.op));
  const Codec& codec = *pieces_.codec->codec;
  if (codec.projection() != nullptr) {
    pieces_.plan.codec = "none";
    pieces_.plan.reason = settings_.codec;
    pieces_.plan.reason.append(" projects whole tensors, not pieces");
    RINGPRESS_ASSIGN_OR_RETURN(pieces_.codec, codec_for("none", tensor.dtype, tensor.op));
  } else if (pieces_.plan.error_feedback && pieces_.codec->takes_error_feedback &&
             !codec.traits().lossless) {
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
  Preparation call =
      prepare_planned(pieces_.plan, *pieces_.codec, signature, Reduction{tensor.op, 1, false});
  if (count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, count));
  if (pieces_.residual != nullptr) call.context.residual = pieces_.residual + first;
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

Status MeshCommunicator::reduce_scatter(const void* send, void* receive, std::size_t receive_count,
                                        DType dtype, Reduction reduction) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call, prepare(CollectiveKind::kReduceScatter,
                                                       receive_count, dtype, reduction, -1));
  if (receive_count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, receive_count));
  call.raw_bytes = receive_count * dtype_size(dtype) * static_cast<std::uint64_t>(size_ - 1);
  return finish(call,
                call.collective->reduce_scatter(call.context, {send, receive, receive_count}));
}

Status MeshCommunicator::all_gather(const void* send, void* receive, std::size_t send_count,
                                    DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kAllGather, send_count, dtype, {}, -1));
  if (send_count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, send_count));
  call.raw_bytes = send_count * dtype_size(dtype) * static_cast<std::uint64_t>(size_ - 1);
  return finish(call, call.collective->all_gather(call.context, {send, receive, send_count}));
}

Status MeshCommunicator::broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                                   int root) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kBroadcast, count, dtype, {}, root));
  if (count == 0) return finish(call, Status::ok());
  return finish(call, ring::broadcast(call.context, send, receive, count, root));
}

Status MeshCommunicator::reduce(const void* send, void* receive, std::size_t count, DType dtype,
                                Reduction reduction, int root) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kReduce, count, dtype, reduction, root));
  if (count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, count));
  return finish(call, ring::reduce(call.context, send, receive, count, root));
}

/// Point-to-point calls are numbered per pair of ranks and direction: other ranks do not see them.
CallSignature MeshCommunicator::pair_signature(const Transfer& transfer) {
  CallSignature call;
  call.sequence = transfers_[{transfer.peer, transfer.is_send}]++;
  call.count = transfer.count;
  call.kind = CollectiveKind::kSendRecv;
  call.dtype = transfer.dtype;
  return call;
}

Status MeshCommunicator::exchange(std::span<const Transfer> transfers) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  std::vector<ring::PointToPoint> pairs;
  std::uint64_t raw_bytes = 0;
  for (const Transfer& transfer : transfers) {
    const std::size_t bytes = transfer.count * dtype_size(transfer.dtype);
    if (bytes == 0) continue;
    if (transfer.is_send && transfer.peer != rank_) raw_bytes += bytes;
    pairs.push_back(
        {transfer.is_send, transfer.data, bytes, transfer.peer, pair_signature(transfer)});
  }
  const Status status = ring::exchange(*mesh_, pairs, settings_.chunk_bytes);
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.calls;
  statistics_.raw_bytes += raw_bytes;
  return status;
}

Result<std::unique_ptr<Communicator>> MeshCommunicator::split(int color, int key,
                                                              const Settings& settings) {
  struct Choice {
    std::int32_t color, key;
  };
  const Choice own{color, key};
  std::vector<Choice> choices(static_cast<std::size_t>(size_));
  RINGPRESS_RETURN_IF_ERROR(all_gather(&own, choices.data(), sizeof own, DType::kInt8));
  std::vector<int> members;  // Ranks of this communicator, in the order of the new one.
  for (int peer = 0; peer < size_; ++peer) {
    if (color >= 0 && choices[static_cast<std::size_t>(peer)].color == color) {
      members.push_back(peer);
    }
  }
  std::stable_sort(members.begin(), members.end(), [&choices](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  const bool leads = !members.empty() && members.front() == rank_;
  UniqueId id{};
  Status opened = Status::ok();
  if (leads) {
    auto made = make_unique_id(settings);
    if (made.is_ok()) id = made.value();
    opened = made.status();
  }
  std::vector<UniqueId> ids(static_cast<std::size_t>(size_));
  RINGPRESS_RETURN_IF_ERROR(all_gather(id.data(), ids.data(), sizeof id, DType::kInt8));
  if (members.empty()) return std::unique_ptr<Communicator>();
  RINGPRESS_RETURN_IF_ERROR(opened);
  const auto leader = static_cast<std::size_t>(members.front());
  if (ids[leader] == UniqueId{}) {
    return Status(Code::kSystem, "rank " + std::to_string(leader) + ", which leads color " +
                                     std::to_string(color) + ", could not open a socket");
  }
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  return create(ids[leader], static_cast<int>(place), static_cast<int>(members.size()), settings);
}

Status MeshCommunicator::finalize() {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  finalized_ = true;
  return Status::ok();
}

Statistics MeshCommunicator::statistics() const {
  const std::lock_guard lock(statistics_mutex_);
  Statistics now = statistics_;
  now.wire_bytes = mesh_->counters().sent_bytes;
  return now;
}

}  // namespace

Result<UniqueId> make_unique_id(const Settings& settings) {
  return ring::open_rendezvous(settings.interface, settings.secret,
                               std::chrono::milliseconds(settings.timeout_ms));
}

Result<std::unique_ptr<Rendezvous>> prepare_unique_id(const Settings& settings) {
  return ring::prepare_rendezvous(settings.interface, settings.secret);
}

Result<std::unique_ptr<Communicator>> Communicator::create(const UniqueId& id, int rank, int size,
                                                           const Settings& settings,
                                                           std::chrono::milliseconds join_timeout) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                              std::to_string(size) + " ranks does not exist");
  }
  // The ranks meet first: if one has a wrong setting, the others hear of it instead of waiting.
  ring::MeshOptions options = mesh_options(id, rank, size, settings);
  options.join_timeout = join_timeout;
  RINGPRESS_ASSIGN_OR_RETURN(auto mesh, ring::make_mesh(options));
  RINGPRESS_RETURN_IF_ERROR(check_settings(settings));
  if (settings.backend == "cuda") {
    return Status(Code::kUnsupported,
                  "RINGPRESS_BACKEND=cuda: this library was built without a CUDA backend");
  }
  nccl_plugin::check_statistics_file(settings);
  if (settings.codec != "auto") {
    RINGPRESS_RETURN_IF_ERROR(compress_kernels::normalize_specification(settings.codec).status());
  }
  return std::unique_ptr<Communicator>(new MeshCommunicator(std::move(mesh), settings));
}

}  // namespace ringpress
