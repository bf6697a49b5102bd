// What the engine keeps of a communicator of the real NCCL whose ranks have agreed to compress.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_COMM_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_COMM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/comm/call_planner.h"
#include "nccl_plugin/interposer/comm/call_starter.h"
#include "nccl_plugin/interposer/comm/parts.h"
#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/live/live_report.h"

namespace ringpress::nccl_plugin::interposer {

/// Which rank of which communicator of the real library this is.
struct CommRank {
  ncclComm_t handle = nullptr;
  int rank = 0;
  int size = 0;
};

/// What tells a communicator from others.
struct CommIdentity {
  std::uint64_t clique = 0;  // All its ranks, and no other communicator, have this number.
  std::string name;          // That the program has given it; empty: none.
  /// By which ranks join those of it: this rank has made it, and none has joined yet.
  std::optional<ncclUniqueId> grow_id = std::nullopt;
};

class Comm {
 public:
  /// Makes what every rank needs to take part in the agreement: a device, if none is given, a
  /// stream, a little memory.
  static Result<std::unique_ptr<Comm>> make(const ringpressRealNccl& real, const Settings& settings,
                                            ncclComm_t handle, CommIdentity identity,
                                            std::shared_ptr<Device> device = nullptr);
  ~Comm() { reports_.end.write(); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  ncclComm_t handle() const { return parts_.handle; }
  int rank() const { return parts_.rank; }
  int size() const { return parts_.size; }
  /// A child's clique is known only when its ranks have talked.
  CommIdentity& identity() { return identity_; }

  CommLifetime& lifetime() { return parts_.lifetime; }
  CommPolicy& policy() { return parts_.policy; }
  /// For the agreement.
  ExchangeMemory& exchange() { return *parts_.exchange; }
  CallPlanner& planner() { return planner_; }
  CallStarter& starter() { return starter_; }
  const CommParts& parts() const { return parts_; }

  /// It is in use from now on, whether any of its calls are compressed or not: its line of
  /// statistics is written when it goes, or the process exits, and its step, where RINGPRESS_TRACE
  /// wants it.
  void open();
  /// Takes over what the communicator was split into.
  void set_groups(const HostGroups& groups);
  /// Makes the rest: codecs and memory for chunks. After hosts and groups are set.
  Status prepare_to_compress();

  /// RINGPRESS_TRACE wants to know of its calls.
  bool is_traced() const { return parts_.trace != nullptr; }
  /// Then, around a call that was not accepted, and which the real library makes. True: end_exact()
  /// is to come, after the end of the group that it is part of, if it is.
  bool begin_exact(const Call& call);
  void end_exact() noexcept;

  /// What has been put off is sent with the next call of each tensor. As a call, by one thread at a
  /// time.
  void flush_lazy();

 private:
  friend class Inheritance;

  Comm(CommIdentity identity, const ringpressRealNccl& real, const Settings& settings,
       const CommRank& rank, std::shared_ptr<Device> device,
       std::unique_ptr<ExchangeMemory> exchange);
  void write_report(ReportTime time);
  Status prepare_codecs();

  CommIdentity identity_;
  CommParts parts_;
  CallPlanner planner_{parts_};
  CallStarter starter_{parts_, planner_};
  RunReports reports_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_COMM_H_
