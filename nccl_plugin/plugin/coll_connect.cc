#include "nccl_plugin/plugin/coll_connect.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "nccl_plugin/errors/descriptors.h"
#include "nccl_plugin/plugin/collnet_descriptors.h"
#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/plugin/tuner.h"
#include "nccl_plugin/session/calls/call_classes.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/transport.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

using std::chrono::milliseconds;

// NCCL has brought all nodes here a moment ago; who is not here within this time will not come.
constexpr milliseconds kConnectTimeout{60000};
// How much longer than node 0 decides the others wait for what it says.
constexpr milliseconds kDecisionTravel{2000};

/// What all that is done to connect has together.
class SharedDeadline {
 public:
  explicit SharedDeadline(milliseconds time) : end_(Clock::now() + time) {}
  /// Never less than a millisecond.
  milliseconds left() const {
    const auto left = std::chrono::duration_cast<milliseconds>(end_ - Clock::now());
    return std::max(left, milliseconds(1));
  }
  bool is_over() const { return Clock::now() >= end_; }

 private:
  const Deadline end_;
};

/// Opens, on node 0, where the nodes meet for another worker, and serves them there. Who ends
/// instead of coming is noticed by the place that it has listened at since before: handles[node].
Result<UniqueId> serve_next_lane(std::span<const UniqueId> handles, const Settings& settings,
                                 const SharedDeadline& deadline) {
  RINGPRESS_ASSIGN_OR_RETURN(const auto rendezvous, prepare_unique_id(settings));
  std::vector<UniqueId> places(handles.begin(), handles.end());
  places[0] = rendezvous->id();
  const auto left = deadline.left();
  RINGPRESS_RETURN_IF_ERROR(rendezvous->serve({left, left, places}));
  return rendezvous->id();
}

/// Every node gets what node 0 has, and sends it a byte: one that has ended is noticed by who sends
/// to it.
Status tell_id(Communicator* communicator, UniqueId* id) {
  std::vector<Transfer> transfers;
  std::vector<std::byte> bytes(static_cast<std::size_t>(communicator->size()));
  const auto add = [&](bool is_first, int node) {
    transfers.push_back({is_first, id->data(), id->size(), DType::kInt8, node});
    std::byte* const byte = &bytes[static_cast<std::size_t>(node)];
    transfers.push_back({!is_first, byte, 1, DType::kInt8, node});
  };
  const bool is_first = communicator->rank() == 0;
  for (int node = 1; is_first && node < communicator->size(); ++node) add(true, node);
  if (!is_first) add(false, 0);
  return communicator->exchange(transfers);
}

/// The communicators of all workers. The first tells where the nodes meet for the others.
Result<CollComm::Communicators> make_lanes(std::span<const UniqueId> handles, int rank,
                                           const Settings& settings,
                                           const SharedDeadline& deadline) {
  Settings worker_settings = settings;
  worker_settings.is_worker = true;  // CollComm reports for all of them.
  // So is the limit. (Each worker has other pieces of about each tensor.)
  if (settings.feedback_limit_bytes != 0) {
    worker_settings.feedback_limit_bytes =
        std::max<std::size_t>(settings.feedback_limit_bytes / kCollWorkers, 1);
  }
  // Each worker has a thread of its own, which nobody is to keep from its sockets.
  if (worker_settings.progress_thread == ProgressThread::kAuto) {
    worker_settings.progress_thread = ProgressThread::kOff;
  }
  // Each node is one rank here.
  if (worker_settings.topology.by == RingOrderBy::kHosts) {
    worker_settings.topology.by = RingOrderBy::kRanks;
  }
  CollComm::Communicators workers;
  UniqueId id = handles[0];
  for (std::size_t worker = 0; worker < kCollWorkers; ++worker) {
    if (worker > 0) {
      if (rank == 0) {
        RINGPRESS_ASSIGN_OR_RETURN(id, serve_next_lane(handles, settings, deadline));
      }
      workers[0]->set_timeout(deadline.left());
      RINGPRESS_RETURN_IF_ERROR(tell_id(workers[0].get(), &id));
    }
    worker_settings.timeout = deadline.left();
    const int size = static_cast<int>(handles.size());
    RINGPRESS_ASSIGN_OR_RETURN(workers[worker], join_mesh(id, rank, size, worker_settings));
  }
  return workers;
}

/// What a node says to node 0, and node 0 to all.
struct Vote {
  std::int32_t refusing = -1;  // The node that cannot take part, or -1.
  std::int32_t part = 0;       // TensorPart: the least that NCCL tells any node.
  std::int32_t is_too_late = 0;
  std::int32_t channels = 0;      // guaranteed_channels() of a node, and of node 0 in its answer.
  std::int32_t differing = -1;    // A node that has others than node 0; -1: there is none.
  std::int32_t its_channels = 0;  // How many it has.
};

Transfer transfer_of(bool is_send, Vote* vote, int peer) {
  return {is_send, vote, sizeof *vote, DType::kInt8, peer};
}

/// Node 0 hears all votes and makes one of them.
Status hear_votes(Communicator* communicator, Vote* vote) {
  std::vector<Vote> votes(static_cast<std::size_t>(communicator->size()));
  std::vector<Transfer> transfers;
  for (int node = 1; node < communicator->size(); ++node) {
    transfers.push_back(transfer_of(false, &votes[static_cast<std::size_t>(node)], node));
  }
  RINGPRESS_RETURN_IF_ERROR(communicator->exchange(transfers));
  votes[0] = *vote;
  for (std::size_t node = 0; node < votes.size(); ++node) {
    const Vote& heard = votes[node];
    if (vote->refusing < 0) vote->refusing = heard.refusing;
    vote->part = std::min(vote->part, heard.part);
    if (heard.channels == vote->channels || vote->differing >= 0) continue;
    vote->differing = static_cast<std::int32_t>(node);
    vote->its_channels = heard.channels;
  }
  return Status::ok();
}

Status tell_all(Communicator* communicator, Vote* vote) {
  std::vector<Transfer> transfers;
  for (int node = 1; node < communicator->size(); ++node) {
    transfers.push_back(transfer_of(true, vote, node));
  }
  return communicator->exchange(transfers);
}

/// On return `vote` is what node 0 has made of all nodes' votes; the same everywhere.
Status hold_vote(Communicator* communicator, const SharedDeadline& deadline, Vote* vote) {
  communicator->set_timeout(deadline.left());
  if (communicator->rank() == 0) {
    RINGPRESS_RETURN_IF_ERROR(hear_votes(communicator, vote));
    vote->is_too_late = deadline.is_over() ? 1 : 0;
    return tell_all(communicator, vote);
  }
  const Transfer own = transfer_of(true, vote, 0);
  RINGPRESS_RETURN_IF_ERROR(communicator->exchange({&own, 1}));
  communicator->set_timeout(deadline.left() + kDecisionTravel);
  const Transfer decision = transfer_of(false, vote, 0);
  return communicator->exchange({&decision, 1});
}

Status different_channels(const Vote& vote) {
  return Status(Code::kMismatch,
                "NCCL_MIN_NCHANNELS, NCCL_MIN_CTAS or NCCL_MAX_CTAS: those of node 0 guarantee " +
                    std::to_string(vote.channels) + " channels, those of node " +
                    std::to_string(vote.differing) + " " + std::to_string(vote.its_channels));
}

/// Ok if all nodes take part. The first vote opens all connections that the second, which decides,
/// goes through.
Status agree(Communicator* communicator, const SharedDeadline& deadline, Vote* vote) {
  for (int round = 0; round < 2; ++round) {
    RINGPRESS_RETURN_IF_ERROR(hold_vote(communicator, deadline, vote));
    if (vote->refusing >= 0) {
      return Status(Code::kAborted, "node " + std::to_string(vote->refusing) +
                                        " cannot take part; its own log says why");
    }
    if (vote->differing >= 0) return different_channels(*vote);
    if (vote->is_too_late != 0) {
      return Status(Code::kTimeout, "not all nodes were ready within the time-out");
    }
  }
  // Who had given up while this node was stopped has told it.
  return communicator->check();
}

/// That the worker works.
Status try_worker(Communicator* communicator, const SharedDeadline& deadline) {
  std::vector<std::uint8_t> heard(static_cast<std::size_t>(communicator->size()));
  const std::uint8_t own = 1;
  communicator->set_timeout(deadline.left());
  return communicator->all_gather(&own, heard.data(), 1, DType::kUint8);
}

/// Automatic mode compresses gradients, which it knows by the tensors that come. The same on all
/// nodes: NCCL then makes all calls itself.
Status check_known_tensors(const Settings& settings, TensorPart part) {
  const bool needs_tensors = takes_gradients_alone(settings) && settings.rule_list.empty();
  if (part != TensorPart::kNothing || !needs_tensors) return Status::ok();
  return Status(
      Code::kUnsupported,
      "NCCL tells no profiler of this library which tensors come, so gradients cannot be "
      "told from other sums, and RINGPRESS_CODEC=auto compresses nothing else; "
      "RINGPRESS_GRADIENTS=all or a codec by name, such as RINGPRESS_CODEC=q4, compresses "
      "all large sums");
}

void announce(int nodes, const Settings& settings, TensorPart part) {
  static std::once_flag once;
  std::call_once(once, [&] {
    log(abi::LogLevel::kInfo, abi::kLogInit | abi::kLogNet,
        RINGPRESS_VERSION
        ": CollNet among %d nodes: RINGPRESS=%s, codec %s, %s, over its own transports",
        nodes, to_text(settings.mode).c_str(), to_text(settings.codec).c_str(),
        part != TensorPart::kNothing ? "error feedback by tensor"
                                     : "no profiler slot: unbiased, no error feedback");
    if (settings.warm_up_steps.steps.value_or(0) != 0) {
      log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet,
          "RINGPRESS_WARMUP_STEPS does nothing here: CollNet gets pieces of tensors, not steps");
    }
    if (settings.lazy == 0) return;
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet,
        "RINGPRESS_LAZY puts nothing off here: CollNet gets pieces of tensors");
  });
}

/// All nodes see the same handles.
Status check_handles(std::span<const UniqueId> handles) {
  for (std::size_t node = 0; node < handles.size(); ++node) {
    if (handles[node] != UniqueId{}) continue;
    return Status(Code::kSystem,
                  "node " + std::to_string(node) + " could not listen: no CollNet on any node");
  }
  return Status::ok();
}

/// Before anything is opened: a node that runs out in the middle holds up the others.
Status check_descriptors(std::size_t nodes, int sockets) {
  const std::size_t needed = collnet_descriptors(nodes, static_cast<std::size_t>(sockets));
  const DescriptorCount count = count_descriptors();
  if (count.has_room_for(needed)) return Status::ok();
  return Status(Code::kSystem, "CollNet among " + std::to_string(nodes) + " nodes needs " +
                                   std::to_string(needed) + " open files, and this process has " +
                                   describe(count));
}

/// NCCL gives every node all handles in the order of the ranks.
Status check_own_place(std::span<const UniqueId> handles, int rank, const UniqueId& own) {
  if (handles[static_cast<std::size_t>(rank)] == own) return Status::ok();
  const auto found = std::find(handles.begin(), handles.end(), own);
  const std::string where = found == handles.end()
                                ? "is not among the handles"
                                : "stands at place " + std::to_string(found - handles.begin());
  return Status(Code::kInvalidArgument, "node " + std::to_string(rank) +
                                            " was given the handles in another order than that "
                                            "of the ranks: its own " +
                                            where);
}

}  // namespace

Result<std::unique_ptr<CollComm>> connect_nodes(std::span<const UniqueId> handles, int rank,
                                                const CollConnectOptions& options) {
  RINGPRESS_RETURN_IF_ERROR(check_handles(handles));
  RINGPRESS_RETURN_IF_ERROR(check_own_place(handles, rank, options.rendezvous->id()));
  RINGPRESS_RETURN_IF_ERROR(check_descriptors(handles.size(), options.settings.sockets_per_peer));
  const Settings& settings = options.settings;
  const SharedDeadline deadline(std::min(settings.timeout, kConnectTimeout));
  if (rank == 0) {
    const auto left = deadline.left();
    RINGPRESS_RETURN_IF_ERROR(options.rendezvous->serve({left, left, handles}));
  }
  RINGPRESS_ASSIGN_OR_RETURN(CollComm::Communicators made,
                             make_lanes(handles, rank, settings, deadline));
  std::array<Communicator*, kCollWorkers> workers;
  std::transform(made.begin(), made.end(), workers.begin(),
                 [](auto& worker) { return worker.get(); });
  auto comm = std::make_unique<CollComm>(std::move(made), settings);
  for (std::size_t worker = 1; worker < kCollWorkers; ++worker) {
    RINGPRESS_RETURN_IF_ERROR(try_worker(workers[worker], deadline));
  }
  warn_of_shortcomings(settings, rank);
  Vote vote;
  vote.part = static_cast<std::int32_t>(profiled_part(options.comm_id, workers[0]->size()));
  vote.channels = guaranteed_channels();
  const Status started = comm->start();
  if (!started.is_ok()) vote.refusing = rank;
  const Status agreed = agree(workers[0], deadline, &vote);
  RINGPRESS_RETURN_IF_ERROR(started);
  RINGPRESS_RETURN_IF_ERROR(agreed);
  for (Communicator* worker : workers) worker->set_timeout(settings.timeout);
  const auto part = static_cast<TensorPart>(vote.part);
  RINGPRESS_RETURN_IF_ERROR(check_known_tensors(settings, part));
  comm->begin(part);
  announce(comm->nodes(), settings, part);
  return comm;
}

}  // namespace ringpress::nccl_plugin::plugin
