// Entry points for gossip (ringpress/ringpress.h).
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/gossip/communicator_peers.h"
#include "nccl_plugin/gossip/gossip.h"
#include "nccl_plugin/gossip/host_models.h"
#include "nccl_plugin/gossip/workers.h"
#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/ringpress.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Communicator;
using ringpress::Result;
using ringpress::Status;
using ringpress::nccl_plugin::gossip::CommunicatorPeers;
using ringpress::nccl_plugin::gossip::Gossip;
using ringpress::nccl_plugin::gossip::GossipOptions;
using ringpress::nccl_plugin::gossip::GossipTotals;
using ringpress::nccl_plugin::gossip::HostModels;
using ringpress::nccl_plugin::gossip::Models;
using ringpress::nccl_plugin::gossip::Peers;
using ringpress::nccl_plugin::gossip::StepReport;
using ringpress::nccl_plugin::gossip::Workers;
using ringpress::nccl_plugin::gossip::workers_maker;
using ringpress::nccl_plugin::gossip::WorkersMaker;

struct ringpressGossip {
  std::unique_ptr<Workers> workers;  // Null: the communicator is this library's.
  ncclComm_t handle = nullptr;       // It is looked up at each call, as it may have ended.
  std::weak_ptr<ncclComm> maker;     // Another communicator may have its address.
  std::mutex mutex;                  // Of the calls, and of what follows.
  std::unique_ptr<Gossip> gossip;
};

namespace {

/// The live handles, as Registry has those of communicators.
class GossipTable {
 public:
  static GossipTable& instance() {
    static auto* const table = new GossipTable;  // Lives for ever: threads may outlive main().
    return *table;
  }

  void add(std::shared_ptr<ringpressGossip> gossip) {
    const std::lock_guard lock(mutex_);
    ringpressGossip* const handle = gossip.get();
    live_.emplace(handle, std::move(gossip));
  }
  Result<std::shared_ptr<ringpressGossip>> find(ringpressGossip_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return not_live();
    return found->second;
  }
  /// What it frees may wait for a device, which may wait for another call: not under the mutex.
  Status remove(ringpressGossip_t handle) {
    std::shared_ptr<ringpressGossip> removed;
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return not_live();
    removed = std::move(found->second);
    live_.erase(found);
    return Status::ok();
  }

 private:
  static Status not_live() {
    return {Code::kInvalidArgument, "gossip is not a handle that is in use"};
  }

  mutable std::mutex mutex_;
  std::unordered_map<ringpressGossip*, std::shared_ptr<ringpressGossip>> live_;
};

constexpr std::size_t kOldestConfigBytes = sizeof(ringpressGossipConfig_t);
constexpr std::size_t kOldestStepBytes = offsetof(ringpressGossipStep_t, partial);
constexpr std::size_t kOldestGossipStatisticsBytes = sizeof(ringpressGossipStatistics_t);

/// `wanted`: what the first version had.
Status check_size(std::size_t size, std::size_t wanted, const char* name) {
  if (size >= wanted) return Status::ok();
  return {Code::kInvalidArgument, std::string(name) + "->size is " + std::to_string(size) +
                                      "; set it to the size of its type"};
}

Result<GossipOptions> to_options(const void* model, std::size_t count, int datatype,
                                 const ringpressGossipConfig_t* config) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(model, "model"));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(config, "config"));
  RINGPRESS_RETURN_IF_ERROR(check_size(config->size, kOldestConfigBytes, "config"));
  GossipOptions options;
  options.count = count;
  RINGPRESS_ASSIGN_OR_RETURN(options.dtype, to_dtype(datatype));
  RINGPRESS_RETURN_IF_ERROR(check_bytes(count, options.dtype, 2));
  options.rule = {config->theta, config->t_min, config->t_max, config->period};
  options.seed = config->seed;
  if (config->codec == nullptr) return options;
  options.codec = config->codec;
  // However it is written, it is the same one; what is none is refused later, by its name.
  const auto normal = ringpress::compress_kernels::normalize_specification(options.codec);
  if (normal.is_ok()) options.codec = normal.value();
  return options;
}

/// As much of `from` as the caller knows of.
template <typename Struct>
void copy_out(Struct from, Struct* to) {
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof from));
}

/// Runs body(peers) with the communicator alone.
template <typename Body>
Status run(const ringpressGossip& gossip, void* stream, Body&& body) {
  if (gossip.workers != nullptr) return gossip.workers->run(stream, body);
  if (group_is_open()) {
    return {Code::kInvalidUsage, "gossip within a group: it would not wait for the group's end"};
  }
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> ready, find_ready_comm(gossip.handle));
  if (gossip.maker.lock() != ready) {
    return {Code::kInvalidArgument, "the communicator of gossip has ended"};
  }
  return ready->run([&](Communicator& communicator) -> Status {
    CommunicatorPeers peers(communicator);
    return body(peers);
  });
}

template <typename Body>
ncclResult_t with_gossip(const char* function, ringpressGossip_t handle, void* stream,
                         Body&& body) {
  ncclComm_t comm = nullptr;  // The text of what goes wrong is its, too.
  const Status done = ringpress::nccl_plugin::catch_all([&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ringpressGossip> live,
                               GossipTable::instance().find(handle));
    comm = live->handle;
    const std::lock_guard lock(live->mutex);
    return run(*live, stream, [&](Peers& peers) -> Status { return body(*live->gossip, peers); });
  });
  return report(function, comm, done);
}

/// Of a communicator of this library, or else of the one that it stands before.
Result<std::shared_ptr<ringpressGossip>> make_gossip(ncclComm_t handle) {
  auto made = std::make_shared<ringpressGossip>();
  made->handle = handle;
  const WorkersMaker make_workers = workers_maker();
  if (handle == nullptr || find_comm(handle).is_ok() || !make_workers) {
    RINGPRESS_ASSIGN_OR_RETURN(made->maker, find_ready_comm(handle));
    return made;
  }
  RINGPRESS_ASSIGN_OR_RETURN(made->workers, make_workers(handle));
  return made;
}

std::unique_ptr<Models> make_models(ringpressGossip& gossip) {
  if (gossip.workers != nullptr) return gossip.workers->make_models();
  return std::make_unique<HostModels>();
}

}  // namespace

extern "C" {

RINGPRESS_EXPORT int ringpressGossipInit(ringpressGossip_t* gossip, const void* model, size_t count,
                                         int datatype, const ringpressGossipConfig_t* config,
                                         void* comm, void* stream) {
  const auto handle = static_cast<ncclComm_t>(comm);
  return firewall("ringpressGossipInit", handle, [&]() -> Status {
    if (gossip != nullptr) *gossip = nullptr;
    RINGPRESS_ASSIGN_OR_RETURN(std::shared_ptr<ringpressGossip> made, make_gossip(handle));
    // The others hear of what is wrong here.
    const Status place = check_pointer(gossip, "gossip");
    const Result<GossipOptions> options =
        place.is_ok() ? to_options(model, count, datatype, config) : Result<GossipOptions>(place);
    RINGPRESS_RETURN_IF_ERROR(run(*made, stream, [&](Peers& peers) -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(made->gossip,
                                 Gossip::make(peers, make_models(*made), options, model, stream));
      return Status::ok();
    }));
    ringpressGossip* const pointer = made.get();
    GossipTable::instance().add(std::move(made));
    *gossip = pointer;
    return Status::ok();
  });
}

RINGPRESS_EXPORT int ringpressGossipStep(ringpressGossip_t gossip, void* model,
                                         ringpressGossipStep_t* step, void* stream) {
  const auto body = [&](Gossip& own, Peers& peers) -> Status {
    Status given = check_pointer(model, "model");
    if (given.is_ok() && step != nullptr) given = check_size(step->size, kOldestStepBytes, "step");
    // Whom it meets hears of what is wrong here.
    const Result<StepReport> stepped = own.step(peers, given.is_ok() ? model : nullptr, stream);
    RINGPRESS_RETURN_IF_ERROR(given);
    RINGPRESS_ASSIGN_OR_RETURN(const StepReport report, stepped);
    if (step == nullptr) return Status::ok();
    ringpressGossipStep_t done{};
    done.change = report.change;
    done.exchanged = report.has_exchanged ? 1 : 0;
    done.peer = report.peer;
    done.sent_bytes = report.sent_bytes;
    done.partial = report.is_partial ? 1 : 0;
    copy_out(done, step);
    return Status::ok();
  };
  return with_gossip("ringpressGossipStep", gossip, stream, body);
}

RINGPRESS_EXPORT int ringpressGossipFlush(ringpressGossip_t gossip, void* model, void* stream) {
  const auto body = [&](Gossip& own, Peers& peers) -> Status {
    const Status flushed =
        own.flush(peers, model, stream);  // All hear of a model that is not there.
    RINGPRESS_RETURN_IF_ERROR(check_pointer(model, "model"));
    return flushed;
  };
  return with_gossip("ringpressGossipFlush", gossip, stream, body);
}

RINGPRESS_EXPORT int ringpressGossipGetStatistics(ringpressGossip_t gossip,
                                                  ringpressGossipStatistics_t* statistics) {
  return firewall("ringpressGossipGetStatistics", nullptr, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ringpressGossip> live,
                               GossipTable::instance().find(gossip));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(statistics, "statistics"));
    RINGPRESS_RETURN_IF_ERROR(
        check_size(statistics->size, kOldestGossipStatisticsBytes, "statistics"));
    const std::lock_guard lock(live->mutex);
    const GossipTotals& totals = live->gossip->totals();
    ringpressGossipStatistics_t now{};
    now.steps = totals.steps;
    now.asked = totals.asked;
    now.exchanges = totals.exchanges;
    now.sent_bytes = totals.sent_bytes;
    copy_out(now, statistics);
    return Status::ok();
  });
}

RINGPRESS_EXPORT int ringpressGossipDestroy(ringpressGossip_t gossip) {
  return firewall("ringpressGossipDestroy", nullptr,
                  [&] { return GossipTable::instance().remove(gossip); });
}

}  // extern "C"
