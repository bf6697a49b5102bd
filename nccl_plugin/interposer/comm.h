// What the engine keeps of a communicator of the real NCCL whose ranks have agreed to compress.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "nccl_plugin/interposer/calls/workspace.h"
#include "nccl_plugin/interposer/host_groups.h"
#include "nccl_plugin/interposer/stream/stream_guard.h"
#include "nccl_plugin/interposer/stream/stream_lazy.h"
#include "nccl_plugin/interposer/stream/stream_steps.h"
#include "nccl_plugin/interposer/stream/stream_trace.h"
#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/session/calls/codec_key.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/error_feedback.h"
#include "nccl_plugin/session/calls/exact_calls.h"
#include "nccl_plugin/session/calls/recurrences.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/end_report.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// What the planner is told of a call that will surely come again.
inline constexpr std::uint64_t kRecursAlways = 1000;

/// A call of the program, as it was made.
struct Call {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t dtype = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  const void* tensor = nullptr;  // What it is known by from step to step; null: `send`.
};

/// What error feedback and sums know a call by; `count`: elements that are kept of it.
TensorCall tensor_of(const Call& call, std::size_t count);

/// A call that Comm::plan() has accepted.
struct PlannedCall {
  Call call;
  Decision decision{};  // By rules, settings and streams.
  // Whether it is compressed is known when it begins:
  bool takes_turn = false;      // of a StreamGuard;
  bool gains_nothing = false;   // or no, it has told, but it is one
  bool is_new = false;          // or no, automatic mode waits for it to recur, but it is one
  bool is_of_step = false;      // for a StreamSteps.
  bool may_be_put_off = false;  // Whether it is sent at all is known after its first step.
};

class Comm;

/// The call as it came, by the real library.
ncclResult_t run_exactly(const ringpressRealNccl& real, const Call& call);
/// As a call of ours, which takes its turn among them.
StreamCallPointer make_exact_call(const ringpressRealNccl& real, const Call& call);
/// After votes on it. `comm`, of the call, outlives it.
StreamCallPointer make_lazy_call(const ringpressRealNccl& real, Comm& comm, const Call& call);

/// Residuals on a device.
class DeviceResiduals final : public ResidualMemory {
 public:
  explicit DeviceResiduals(Device& device) : device_(device) {}
  /// The stream in which new ones are zeroed and used.
  void use(Stream stream) { stream_ = stream; }
  float* allocate(std::size_t count) override;
  void free(float* memory) override { device_.free(memory); }

 private:
  Device& device_;
  Stream stream_ = nullptr;
};

/// That of a communicator of such a name; no value: its ranks call it differently.
std::unique_ptr<Planner> planner_for(const Settings& settings,
                                     const std::optional<std::string>& name);

/// What tells a communicator from others.
struct CommIdentity {
  std::uint64_t clique = 0;  // All its ranks, and no other communicator, have this number.
  std::string name;          // That the program has given it; empty: none.
};

class Comm {
 public:
  /// Makes what every rank needs to take part in the agreement: a device, a stream, a little
  /// memory.
  static Result<std::unique_ptr<Comm>> make(const ringpressRealNccl& real, const Settings& settings,
                                            ncclComm_t handle, CommIdentity identity);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  ncclComm_t handle() const { return handle_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t clique() const { return clique_; }
  const std::string& name() const { return name_; }
  /// A child's is known only when its ranks have talked.
  void set_clique(std::uint64_t clique) { clique_ = clique; }
  /// By rank, the host that it is on. Set once, by the agreement.
  const std::vector<int>& hosts() const { return hosts_; }
  void set_hosts(std::vector<int> hosts);
  /// Instead of host by host.
  void set_ring_order(std::vector<int> order) { ring_order_ = std::move(order); }

  /// It is in use from now on, whether any of its calls are compressed or not: its line of
  /// statistics is written when it goes, or the process exits, and its step, where RINGPRESS_TRACE
  /// wants it.
  void open();

  /// What the settings say of a communicator whose ranks are on these hosts and call it so (no
  /// value: not all of them do), whatever its own are: false if every call is left exact, and none
  /// put off; whether it is to be split for `hier`.
  bool may_compress(const std::vector<int>& hosts, const std::optional<std::string>& name) const;
  bool wants_groups(const std::vector<int>& hosts) const;
  /// Makes the rest: codecs and memory for chunks. After set_hosts() and set_groups().
  Status prepare_to_compress();
  /// Takes over what the communicator was split into.
  void set_groups(const HostGroups& groups);
  /// Ends them, before the communicator itself is ended.
  void end_groups(bool is_abort) noexcept;

  /// For the agreement: room for size() + 1 numbers, and a stream.
  Device& device() { return *device_; }
  Stream stream() { return stream_; }
  void* exchange_memory() { return exchange_memory_; }

  /// Decides on the next call. True: it is ours to make, and to be given to start(). Counts it in
  /// any case.
  bool plan(PlannedCall* planned);
  /// True if what an accepted call needs is not there yet, on any rank: then start() makes it, and
  /// all ranks tell each other whether it could before they go on. The same on all ranks.
  bool needs_agreement(const PlannedCall& planned) const;
  /// What a call that plan() has accepted needs. Fails for want of memory only if it
  /// needs_agreement(); any other error ends the communicator.
  Result<StreamCallPointer> start(const PlannedCall& planned);
  /// What the ranks have told each other: all have what the call needs, or calls like it are left
  /// to the real library from now on.
  void note_agreement(const Call& call, bool all_can);
  /// Counts an accepted call that was left to the real library in the end.
  void count_exact(const WhyExact& why);
  /// That a call could not begin, as this error says: lives as long as this.
  WhyExact why_not_begun(const Status& error);
  /// Of the call that start() began last, once it has ended: why it was made exactly, or put off.
  const WhyExact& exact_because() const { return exact_because_; }
  /// After its last step. `nanoseconds`: since its first began.
  void finish(const StreamCall& call, std::uint64_t nanoseconds);

  /// RINGPRESS_TRACE wants to know of its calls.
  bool is_traced() const { return trace_ != nullptr; }
  /// Then, around a call that plan() did not accept, and which the real library makes. True:
  /// end_exact() is to come, after the end of the group that it is part of, if it is.
  bool begin_exact(const Call& call);
  void end_exact() noexcept;

  /// Of calls that may be put off, which there are only where this is.
  StreamLazy& lazy() { return *lazy_; }
  /// Such a call is sent after all: begins what it comes to. `call`: as it is sent. An error ends
  /// the communicator.
  Result<StreamCallPointer> start_sent(const Call& call);
  /// Such a call is not sent.
  void pass_put_off(const Call& call);
  /// What has been put off is sent with the next call of each tensor. As a call, by one thread at a
  /// time.
  void flush_lazy();

  /// A call of it failed in here, so that no later one can be trusted to fit those of other ranks.
  /// They fail too, where the real library can be told (ncclCommRevoke()), and do not wait.
  void give_up(ncclResult_t failure) noexcept;
  /// That error; ncclSuccess if there was none. Any thread.
  ncclResult_t failure() const { return failure_.load(); }

  /// Between enter() and leave() the handle is in use by a call of ours. enter() is false once
  /// retire() was called; that waits a little for those who are inside.
  bool enter();
  void leave() { inside_.fetch_sub(1); }
  void retire();

 private:
  struct NamedCodec {
    std::string specification;                     // As the plan names it.
    std::unique_ptr<DeviceProjection> projection;  // Null: the tensor itself is encoded.
    // Where the tensor is projected, that of the sums; null: they are exact.
    std::unique_ptr<DeviceCodec> codec;
    bool takes_error_feedback = true;

    const Codec& of_tensor() const { return projection ? projection->codec() : codec->codec(); }
    /// True if a graph would repeat them. (What is random in a projection follows from its state.)
    bool has_random_bits() const { return codec && !codec->codec().traits().deterministic; }
    ToKeep to_keep(const Decision& decision, std::size_t count) const;
  };
  /// Which of the algorithms there is memory for; or projections.
  enum class Way { kSra, kRing, kHier, kProjection, kGather };
  struct Place {
    Workspace* workspace = nullptr;
    Lane* lane = nullptr;
  };

  Comm(const ringpressRealNccl& real, const Settings& settings, ncclComm_t handle,
       CommIdentity identity);
  PlanRequest make_request(const Call& call) const;
  PlanRequest largest_request(const std::vector<int>& hosts) const;
  bool is_ring() const { return settings_.algorithm == "ring"; }
  Status check_forms(const DeviceCodec& codec, std::size_t world) const;
  Status prepare_codec(DType dtype, ReduceOp op, const std::string& specification);
  std::string usual_codec(DType dtype, ReduceOp op) const;
  Status make_projection(DType dtype, ReduceOp op, NamedCodec* named);
  std::size_t most_rounds() const;
  void size_lane(LaneShape* shape, std::size_t world) const;
  const NamedCodec* codec_for(const Call& call, std::string_view specification) const;
  std::uint64_t capture_of(const Call& call) const;
  bool is_of_step(const Call& call, const PlanRequest& request, std::uint64_t capture) const;
  void ask_guard(const PlanRequest& request, std::uint64_t capture, PlannedCall* planned);
  bool choose_plan(PlannedCall* planned);
  Status prepare_to_put_off();
  bool may_be_put_off(const Call& call) const;
  Result<StreamCallPointer> start_lazily(const PlannedCall& planned);
  Result<StreamCallPointer> start_planned(const PlannedCall& planned);
  StreamCallPointer trace(const PlannedCall& planned, StreamCallPointer call);
  Result<StreamCallPointer> start_of_step(const PlannedCall& planned);
  Result<StreamCallPointer> start_in_turn(const PlannedCall& planned);
  FramedParts framed_parts(const Call& call) const;
  Status find_failure(Stream stream);
  void keep_place(const Call& call);
  std::size_t kept_bytes() const;
  void write_report(ReportTime time);
  Result<StreamCallPointer> start_compressed(const PlannedCall& planned);
  StreamCallPointer start_exactly(const PlannedCall& planned, ExactReason reason);
  void note_codec(const Call& call, const Decision& decision, Way way);
  void pass_over(const Call& call, const Decision& decision);
  std::size_t residual_count(const Call& call, Way way) const;
  std::size_t projected_bytes(const Call& call) const;
  StreamLimits limits_of(const Call& call, const PlanRequest& request, const NamedCodec& named,
                         std::uint64_t capture) const;
  std::uint64_t raw_bytes(const PlanRequest& request) const;
  Way choose_way(const Decision& decision, const Call& call) const;
  const char* name_of(Way way) const;
  Result<Place> find_place_for(const Call& call, Way way);
  Status find_place_and_memory(const Call& call, const Decision& decision, Way way,
                               StreamCallParts* parts, ProjectionParts* projection);
  StreamCallParts make_parts(const Call& call, const Decision& decision, Way way);
  Kept find_kept(const Call& call, std::size_t count, const ToKeep& wanted, Place place);
  Kept find_captured(std::size_t count, const ToKeep& wanted, Workspace* workspace);

  const ringpressRealNccl& real_;
  const Settings& settings_;
  const ncclComm_t handle_;
  std::uint64_t clique_;
  const std::string name_;
  int rank_ = 0;
  int size_ = 0;
  std::vector<int> hosts_;
  CommShape comm_shape_;         // Of the hosts and groups.
  std::vector<int> ring_order_;  // Host by host; empty: by number.
  HostGroups groups_;
  std::atomic<bool> groups_ended_{false};
  std::shared_ptr<Device> device_;  // Graphs may outlive this, and what they keep is freed by it.
  Stream stream_ = nullptr;
  void* exchange_memory_ = nullptr;
  std::unique_ptr<Planner> planner_;
  WorkspaceShape shape_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<CapturedWorkspaces> captured_;
  std::unique_ptr<DeviceResiduals> residual_memory_;
  std::unique_ptr<ErrorFeedback> feedback_;
  std::unique_ptr<StreamGuard> guard_;  // Null: nothing is left to be chosen.
  std::unique_ptr<StreamSteps> steps_;  // Null: nothing is planned.
  std::unique_ptr<StreamTrace> trace_;  // Null: nobody asks.
  std::unique_ptr<StreamLazy> lazy_;    // Null: no call is put off.
  bool has_place_ = false;  // The call that is sent now, among those whose residuals are kept.
  WhyExact exact_because_;
  std::map<CodecKey, NamedCodec, CodecKeyLess> codecs_;
  // Of one projected call, for which all ranks have memory; and the least for which one had none.
  std::size_t agreed_projected_bytes_ = 0;
  std::size_t refused_projected_bytes_ = SIZE_MAX;
  // Graphs that all ranks have a workspace for, and the last one that a rank had none for.
  std::set<std::uint64_t> agreed_captures_;
  std::uint64_t refused_capture_ = 0;
  std::uint64_t sequence_ = 0;
  Recurrences recurrences_;
  Recurrences projected_;  // Of calls that are projected alone.
  std::mutex statistics_mutex_;
  Statistics statistics_;   // But for what is exact, and why:
  ExactCalls exact_calls_;  // these, and what errors said.
  std::set<std::string> errors_;
  const Watch watch_{[this] { return failure() != ncclSuccess || is_retired_.load(); },
                     [this](Stream stream) { return find_failure(stream); }};
  std::atomic<int> inside_{0};
  std::atomic<bool> is_retired_{false};
  std::atomic<ncclResult_t> failure_{ncclSuccess};
  EndReport report_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_H_
