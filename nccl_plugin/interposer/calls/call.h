// A call of the program on a communicator of the real NCCL.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_CALL_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/session/calls/error_feedback.h"
#include "ringpress/internal/call_class.h"
#include "ringpress/internal/call_options.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

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
  CallClass call_class = CallClass::kUnknown;  // When it was made.
  CallOptions options{};
  const ncclCollConfig_t* config = nullptr;  // For the real library; null: none.
};

/// Whether it may be looked into: it starts as NCCL's initializer does.
bool is_configuration(const ncclCollConfig_t* config);
/// What it says to this library (ringpress.h). kInvalidArgument: an option of ours is wrong.
Result<CallOptions> call_options_of(const ncclCollConfig_t& config);

/// What error feedback and sums know a call by; `count`: elements that are kept of it.
TensorCall tensor_of(const Call& call, std::size_t count);

/// Of a stream that does not say whether it is captured.
inline constexpr std::uint64_t kUnknownCapture = UINT64_MAX;
/// The graph that a call is captured for; 0: its stream is not being captured.
std::uint64_t capture_of(Device& device, const Call& call);

/// A call and what CallPlanner::plan() makes of it.
struct PlannedCall {
  Call call;
  /// By rules, settings and streams.
  Decision decision{};
  /// Nothing is decided before its turn, as a vote counts from it on, or from one before it.
  bool is_undecided = false;
  /// With it the ranks vote on what such calls are.
  bool votes = false;
  /// It is made exactly, and was accepted because it votes or was undecided.
  bool stays_exact = false;
  /// When it begins, the StreamGuard says whether it is compressed.
  bool takes_turn = false;
  /// When it begins, StreamSteps is told of it, and says whether it is compressed.
  bool is_of_step = false;
  /// Whether it is sent at all is known after its first step.
  bool may_be_put_off = false;
  /// capture_of() it, once that was asked.
  std::optional<std::uint64_t> capture = {};

  /// The StreamGuard has said so. If it was accepted, that was for is_of_step.
  bool gains_nothing() const { return decision.why.reason == ExactReason::kNothingGained; }
  /// Automatic mode waits until it recurs. If it was accepted, that was for is_of_step.
  bool is_new() const { return decision.waits_for_recurrence(); }
};

/// As capture_of(), of the device that is asked once a call.
std::uint64_t find_capture(Device& device, PlannedCall* planned);

/// The call as it came, by the real library.
ncclResult_t run_exactly(const ringpressRealNccl& real, const Call& call);
/// As a call of ours, which takes its turn among them.
StreamCallPointer make_exact_call(const ringpressRealNccl& real, const Call& call);

class CallStarter;
/// After votes on it. `starter`, of its communicator, outlives it.
StreamCallPointer make_lazy_call(const ringpressRealNccl& real, CallStarter& starter,
                                 const Call& call);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_CALL_H_
