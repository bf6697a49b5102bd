#include "nccl_plugin/interposer/comm/comm.h"

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "nccl_plugin/session/statistics_file.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

LiveIdentity live_identity(const CommIdentity& named, const CommParts& parts) {
  LiveIdentity identity;
  identity.comm = named.name;
  if (identity.comm.empty()) {
    char number[24];
    std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(named.clique));
    identity.comm = number;
  }
  identity.door = "preload";
  identity.rank = parts.rank;
  identity.ranks = parts.size;
  return identity;
}

// What calls may ask for where they have configurations of their own (NCCL 2.31).
constexpr std::array kCodecsOfCalls = {"q2", "q3", "q4", "q5", "q6", "q7", "q8"};

/// Where calls may have coordinate scales by default, as rank 0 decides: what these take.
void measure_scales(const CommParts& parts) {
  if (parts.scales == nullptr || parts.rank != 0) return;
  if (parts.settings.feedback != FeedbackChoice::kAuto) return;
  const std::optional<double> cost = parts.scales->measure_cost(parts.exchange->stream());
  if (cost) parts.guard->set_scale_cost(*cost);
}

/// Those that a call may ask for, where it can.
Status prepare_codecs_of_calls(CommParts& parts) {
  if (parts.real.AllReduceConfig == nullptr) return Status::ok();
  for (const DType dtype : kCompressibleTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      for (const char* const codec : kCodecsOfCalls) {
        RINGPRESS_RETURN_IF_ERROR(parts.codecs.prepare(dtype, op, codec));
      }
    }
  }
  return Status::ok();
}

}  // namespace

Comm::Comm(CommIdentity identity, const ringpressRealNccl& real, const Settings& settings,
           const CommRank& rank, std::shared_ptr<Device> device,
           std::unique_ptr<ExchangeMemory> exchange)
    : identity_(std::move(identity)),
      parts_{real,
             settings,
             rank.handle,
             rank.rank,
             rank.size,
             device,
             std::move(exchange),
             {real, rank.handle, *device, settings.timeout},
             {settings, rank.size, real.CommSplit != nullptr, identity_.name},
             {*device, static_cast<std::size_t>(rank.size),
              traits_of(unsplit_algorithm(settings)).goes_round,
              CoordinateScales::may_be_wanted(settings)}} {}

Result<std::unique_ptr<Comm>> Comm::make(const ringpressRealNccl& real, const Settings& settings,
                                         ncclComm_t handle, CommIdentity identity,
                                         std::shared_ptr<Device> device) {
  CommRank rank{handle};
  int number = 0;
  ncclResult_t result = real.CommUserRank(handle, &rank.rank);
  if (result == ncclSuccess) result = real.CommCount(handle, &rank.size);
  if (result == ncclSuccess) result = real.CommCuDevice(handle, &number);
  if (result != ncclSuccess) return answered("ncclCommCount", result);
  if (device == nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(device, make_device(settings.backend, number));
  }
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<ExchangeMemory> exchange,
                             ExchangeMemory::make(*device, static_cast<std::size_t>(rank.size)));
  return std::unique_ptr<Comm>(
      new Comm(std::move(identity), real, settings, rank, std::move(device), std::move(exchange)));
}

void Comm::write_report(ReportTime time) {
  std::optional<Statistics> now = parts_.statistics.now(time);
  if (!now) return;
  now->longest_wait_nanoseconds =
      static_cast<std::uint64_t>(parts_.lifetime.watch().waits->value().count());
  if (parts_.lazy != nullptr) parts_.lazy->calls().book_unsent(&*now, time);
  if (parts_.trace != nullptr) parts_.trace->close(parts_.settings.trace, now->last_codec, time);
  write_statistics(parts_.settings, rank(), size(), *now, StatisticsTime::kOfHost);
  reports_.live.close(time);
}

/// The trace is of rank 0 alone, and of exact calls too: nothing of it is agreed on.
void Comm::open() {
  const Settings& settings = parts_.settings;
  // What it took to make the communicator does not count.
  parts_.lifetime.watch().waits->forget();
  if (StreamTrace::is_wanted(settings, rank(), size())) {
    warn_if_failed("no step is recorded for RINGPRESS_TRACE", catch_all([this] {
                     parts_.trace =
                         std::make_unique<StreamTrace>(*parts_.device, size(), parts_.sequence);
                     return Status::ok();
                   }));
  }
  reports_.live.open(settings, live_identity(identity_, parts_),
                     [this](ReportTime time) { return parts_.statistics.now(time); }, {});
  if (settings.statistics.empty() && !is_traced() && !follows_calls(settings)) return;
  reports_.end.open([this](ReportTime time) { write_report(time); });
}

void Comm::set_groups(const HostGroups& groups) {
  parts_.lifetime.set_groups(groups);
  if (groups.exist()) parts_.policy.set_position(groups.position);
}

/// Those that calls may get. Where none of them can be used here, nothing is compressed.
Status Comm::prepare_codecs() {
  for (const DType dtype : kCompressibleTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      RINGPRESS_RETURN_IF_ERROR(
          parts_.codecs.prepare(dtype, op, parts_.policy.usual_codec(dtype, op)));
      for (const std::string& codec : rule_codecs(parts_.settings)) {
        RINGPRESS_RETURN_IF_ERROR(parts_.codecs.prepare(dtype, op, codec));
      }
    }
  }
  const Status problem = parts_.codecs.problem();
  if (parts_.codecs.is_empty()) return problem;
  if (!problem.is_ok()) warn_once("calls are left to plain NCCL: " + problem.message());
  return prepare_codecs_of_calls(parts_);
}

Status Comm::prepare_to_compress() {
  const Settings& settings = parts_.settings;
  CommPolicy& policy = parts_.policy;
  Device& device = *parts_.device;
  const auto hosts = static_cast<std::size_t>(policy.position().hosts);
  WorkspaceShape room = parts_.codecs.room(hosts, settings.all_gather);
  RINGPRESS_RETURN_IF_ERROR(prepare_codecs());
  // Calls that are only observed need no more room than without codecs.
  if (compresses(settings.mode)) room = parts_.codecs.room(hosts, settings.all_gather);
  RINGPRESS_ASSIGN_OR_RETURN(parts_.kept, KeptMemory::make(parts_.device, exchange().stream(),
                                                           settings, room, parts_.sequence));
  if (parts_.codecs.have_scales()) {
    RINGPRESS_ASSIGN_OR_RETURN(
        parts_.scales, StreamScales::make(device, settings.feedback_limit_bytes, parts_.sequence));
  }
  if (tuning::TunedCalls::has_choice(settings)) {
    RINGPRESS_ASSIGN_OR_RETURN(parts_.guard, StreamGuard::make(device, settings, rank()));
    measure_scales(parts_);
  }
  const bool puts_off = LazyCalls::is_wanted(settings);
  if (takes_gradients_alone(settings) && !puts_off) {
    RINGPRESS_ASSIGN_OR_RETURN(parts_.votes, StreamVotes::make(device));
  }
  if (StepPlanner::is_wanted(settings, size(), policy.crosses_hosts()) && !puts_off) {
    RINGPRESS_ASSIGN_OR_RETURN(
        parts_.steps, StreamSteps::make(device, settings, rank(), size(), parts_.sequence));
  }
  if (!puts_off) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(
      parts_.lazy,
      StreamLazy::make(device, settings, rank(), size(), parts_.lifetime.watch(), parts_.sequence));
  return Status::ok();
}

bool Comm::begin_exact(const Call& call) {
  if (call.kind != CollectiveKind::kAllReduce) return false;
  if (capture_of(*parts_.device, call) != 0) {
    parts_.trace->skip();
    return false;
  }
  parts_.trace->begin_exact(tensor_of(call, call.count), call.stream);
  return true;
}

/// A step that is not learnt for want of memory is not worth a line.
void Comm::end_exact() noexcept {
  static_cast<void>(catch_all([this] {
    parts_.trace->end_exact();
    return Status::ok();
  }));
}

void Comm::flush_lazy() {
  if (parts_.lazy != nullptr) parts_.lazy->calls().flush();
}

}  // namespace ringpress::nccl_plugin::interposer
