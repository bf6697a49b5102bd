#include "nccl_plugin/interposer/comm.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "compress_kernels/factory.h"
#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/interposer/calls/agreeing_stream_call.h"
#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "nccl_plugin/session/statistics_file.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// Elements of all shards' chunks together, at most: a few of them are in memory at a time.
constexpr std::size_t kLargestSlice = 2 * 1024 * 1024;
// Projections of tensors up to this size have memory from the start; for others it is made when
// they are first seen.
constexpr std::size_t kPreparedElements = 8 * 1024 * 1024;
constexpr std::array kCompressible = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
constexpr std::chrono::milliseconds kRetirePatience{100};

}  // namespace

float* DeviceResiduals::allocate(std::size_t count) {
  Result<void*> memory = device_.allocate(count * sizeof(float));
  if (!memory.is_ok()) return nullptr;
  if (!device_.zero(stream_, memory.value(), count * sizeof(float)).is_ok()) {
    device_.free(memory.value());
    return nullptr;
  }
  return static_cast<float*>(memory.value());
}

Comm::Comm(const ringpressRealNccl& real, const Settings& settings, ncclComm_t handle,
           CommIdentity identity)
    : real_(real),
      settings_(settings),
      handle_(handle),
      clique_(identity.clique),
      name_(std::move(identity.name)),
      planner_(planner_for(settings, name_)) {}

Result<std::unique_ptr<Comm>> Comm::make(const ringpressRealNccl& real, const Settings& settings,
                                         ncclComm_t handle, CommIdentity identity) {
  std::unique_ptr<Comm> comm(new Comm(real, settings, handle, std::move(identity)));
  int number = 0;
  ncclResult_t result = real.CommUserRank(handle, &comm->rank_);
  if (result == ncclSuccess) result = real.CommCount(handle, &comm->size_);
  if (result == ncclSuccess) result = real.CommCuDevice(handle, &number);
  if (result != ncclSuccess) return answered("ncclCommCount", result);
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, make_device(settings.backend, number));
  comm->device_ = std::move(device);
  RINGPRESS_ASSIGN_OR_RETURN(comm->stream_, comm->device_->create_stream());
  const std::size_t bytes = (static_cast<std::size_t>(comm->size_) + 1) * sizeof(std::int32_t);
  RINGPRESS_ASSIGN_OR_RETURN(comm->exchange_memory_, comm->device_->allocate(bytes));
  return comm;
}

void Comm::write_report(ReportTime time) {
  Statistics now;
  {
    const auto lock = lock_for_report(statistics_mutex_, time);
    if (!lock.owns_lock()) return;
    now = statistics_;
    exact_calls_.write_to(&now);
  }
  if (lazy_ != nullptr) lazy_->calls().book_unsent(&now, time);
  if (trace_ != nullptr) trace_->close(settings_.trace, now.last_codec, time);
  write_statistics(settings_, rank_, size_, now, StatisticsTime::kOfHost);
}

Comm::~Comm() {
  report_.write();
  guard_.reset();
  steps_.reset();
  trace_.reset();
  lazy_.reset();
  feedback_.reset();
  captured_.reset();
  workspace_.reset();
  codecs_.clear();
  if (exchange_memory_ != nullptr) device_->free(exchange_memory_);
  if (stream_ != nullptr) device_->destroy_stream(stream_);
}

/// Whether there are kernels for every form that a call makes.
Status Comm::check_forms(const DeviceCodec& codec, std::size_t world) const {
  const std::size_t partial = is_ring() ? world / 2 : 1;
  for (std::size_t summed = 1; summed <= partial; ++summed) {
    RINGPRESS_RETURN_IF_ERROR(codec.supports({summed, world}, 1));
  }
  // Summaries of all ranks are merged at once, also where sums go round a ring.
  const bool adds_two = is_ring() && codec.codec().agreement() == nullptr;
  return codec.supports({world, world}, adds_two ? 2 : world - 1);
}

/// A projection, and the codec of its sums.
Status Comm::make_projection(DType dtype, ReduceOp op, NamedCodec* named) {
  RINGPRESS_ASSIGN_OR_RETURN(named->projection,
                             device_->make_projection(named->specification, dtype, op));
  const Codec& inner = named->of_tensor().projection()->inner();
  if (!inner.traits().identity) {
    RINGPRESS_ASSIGN_OR_RETURN(
        named->codec, device_->make_codec(inner.specification(), inner.dtype(), inner.op()));
  }
  shape_.projected_bytes =
      std::max(shape_.projected_bytes, projection_bytes(*named->projection, kPreparedElements));
  return Status::ok();
}

Status Comm::prepare_codec(DType dtype, ReduceOp op, const std::string& specification) {
  NamedCodec named;
  named.specification = specification;
  if (named.specification == "none") return Status::ok();
  if (compress_kernels::projects(named.specification)) {
    RINGPRESS_RETURN_IF_ERROR(make_projection(dtype, op, &named));
  } else {
    RINGPRESS_ASSIGN_OR_RETURN(named.codec, device_->make_codec(named.specification, dtype, op));
  }
  if (named.codec != nullptr) {
    RINGPRESS_RETURN_IF_ERROR(check_forms(*named.codec, static_cast<std::size_t>(size_)));
  }
  RINGPRESS_ASSIGN_OR_RETURN(named.takes_error_feedback,
                             compress_kernels::takes_error_feedback(named.specification));
  codecs_[{specification, dtype, op}] = std::move(named);
  return Status::ok();
}

/// Rounds of an agreement on a chunk.
std::size_t Comm::most_rounds() const {
  int rounds = 0;
  for (const auto& [key, named] : codecs_) {
    if (named.codec == nullptr) continue;
    const Agreement* const agreement = named.codec->codec().agreement();
    if (agreement != nullptr) rounds = std::max(rounds, agreement->rounds());
  }
  return static_cast<std::size_t>(rounds);
}

/// Room for the largest chunk in every form, what is agreed on for it, and what an operation on it
/// needs, whatever the type.
void Comm::size_lane(LaneShape* shape, std::size_t world) const {
  const std::size_t tiles = std::max<std::size_t>(1, kLargestSlice / kTileElements / world);
  shape->chunk_elements = tiles * kTileElements;
  shape->region_bytes = 1;
  for (const auto& [key, named] : codecs_) {
    if (named.codec == nullptr) continue;
    const Codec& codec = named.codec->codec();
    shape->scratch_bytes =
        std::max(shape->scratch_bytes, named.codec->scratch_bytes(world, shape->chunk_elements));
    shape->agreement_bytes =
        std::max(shape->agreement_bytes, agreement_bytes(codec, shape->chunk_elements, world));
    for (std::size_t summed = 1; summed <= world; ++summed) {
      shape->region_bytes =
          std::max(shape->region_bytes, codec.wire_bytes(shape->chunk_elements, {summed, world}));
    }
  }
}

Status Comm::prepare_to_compress() {
  const auto world = static_cast<std::size_t>(size_);
  for (const DType dtype : kCompressible) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      RINGPRESS_RETURN_IF_ERROR(prepare_codec(dtype, op, usual_codec(dtype, op)));
      for (const std::string& codec : rule_codecs(settings_)) {
        RINGPRESS_RETURN_IF_ERROR(prepare_codec(dtype, op, codec));
      }
    }
  }
  const std::size_t rounds = most_rounds();
  shape_.whole = is_ring() ? ring_lane(world, rounds) : sra_lane(world, rounds);
  if (settings_.all_gather) make_room_to_gather(world, &shape_.whole);
  size_lane(&shape_.whole, world);
  if (groups_.exist()) {
    const auto hosts = static_cast<std::size_t>(groups_.place.hosts);
    shape_.cross = sra_lane(hosts, rounds);
    size_lane(&shape_.cross, hosts);
  }
  RINGPRESS_ASSIGN_OR_RETURN(workspace_, Workspace::make(*device_, shape_));
  captured_ = std::make_unique<CapturedWorkspaces>(device_);
  agreed_projected_bytes_ = shape_.projected_bytes;
  residual_memory_ = std::make_unique<DeviceResiduals>(*device_);
  feedback_ = std::make_unique<ErrorFeedback>(settings_.feedback_limit_bytes, *residual_memory_);
  if (tuning::TunedCalls::has_choice(settings_)) {
    RINGPRESS_ASSIGN_OR_RETURN(guard_, StreamGuard::make(*device_, settings_, rank_));
  }
  if (StepPlanner::is_wanted(settings_, size_, comm_shape_.crosses_hosts) &&
      !LazyCalls::is_wanted(settings_)) {
    RINGPRESS_ASSIGN_OR_RETURN(steps_, StreamSteps::make(*device_, settings_, rank_, size_));
  }
  return prepare_to_put_off();
}

/// The trace is of rank 0 alone, and of exact calls too: nothing of it is agreed on.
void Comm::open() {
  if (StreamTrace::is_wanted(settings_, rank_, size_)) {
    warn_if_failed("no step is recorded for RINGPRESS_TRACE", catch_all([this] {
                     trace_ = std::make_unique<StreamTrace>(*device_, size_);
                     return Status::ok();
                   }));
  }
  if (settings_.statistics.empty() && trace_ == nullptr) return;
  report_.open([this](ReportTime time) { write_report(time); });
}

void Comm::end_groups(bool is_abort) noexcept {
  if (groups_ended_.exchange(true)) return;
  // What is in there stays: another thread may be reading it.
  HostGroups ended = groups_;
  ended.end(is_abort ? real_.CommAbort : real_.CommDestroy);
}

void Comm::give_up(ncclResult_t failure) noexcept {
  ncclResult_t none = ncclSuccess;
  if (!failure_.compare_exchange_strong(none, failure) || !enter()) return;
  // Not ncclCommAbort(): that would take the handle from the program.
  if (real_.CommRevoke != nullptr)
    static_cast<void>(real_.CommRevoke(handle_, NCCL_REVOKE_DEFAULT));
  leave();
  end_groups(true);
}

bool Comm::enter() {
  inside_.fetch_add(1);
  if (!is_retired_.load()) return true;
  inside_.fetch_sub(1);
  return false;
}

void Comm::retire() {
  is_retired_.store(true);
  // Who is inside may be waiting for what the real library is about to abort: not longer than this.
  const auto until = std::chrono::steady_clock::now() + kRetirePatience;
  while (inside_.load() > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace ringpress::nccl_plugin::interposer
