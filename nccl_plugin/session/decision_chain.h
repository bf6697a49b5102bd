// How each call is decided on: one stage after the other, each a function of the call, of the
// decision so far, and of a small value from whoever knows. No stage measures, sends or keeps
// anything, so ranks that know the same decide alike.
//
//   Planner::plan()   the rules, what the call is, the settings
//   follow_step()     the plan for the training step
//   follow_warm_up()  the first steps of a training
//   follow_tuned()    what is tried, or has proved best
//   follow_level()    levels of compression
//   follow_guard()    what samples of earlier calls have lost
//   follow_codec()    what the codec can do with such values
//
// Behind a library on a device (decide_in_stream()):
//
//   Planner::plan()    as above
//   follow_stream()    what streams have room for
//   follow_warm_up()   as above
//   follow_verdict()   what times of earlier calls have shown
//   follow_step()      when the call begins
//
// Of pieces of a tensor (decide_tensor(), decide_piece()), follow_extent() says what is certain.
#ifndef NCCL_PLUGIN_SESSION_DECISION_CHAIN_H_
#define NCCL_PLUGIN_SESSION_DECISION_CHAIN_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "nccl_plugin/session/steps/step_planner.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// How calls like this one are made, as the ranks have agreed.
struct TunedChoice {
  std::string_view codec = kNoCodec;  // Lives as long as Decision asks for.
  Algorithm algorithm = Algorithm::kSra;
  std::size_t chunk_bytes = 0;  // 0: as it was.
  bool is_settled = false;      // Else it is a trial.
  bool has_scales = false;      // They are predicted to cost hardly any time.
};

/// What a call of the first steps has instead of its codec.
struct WarmUpCall {
  std::string_view codec = kNoCodec;  // Lives as long as Decision asks for.
  std::size_t steps = 0;              // Of the whole warm-up.
};

/// What a codec does with a call's values.
struct CodecLimits {
  bool takes_error_feedback = true;
  bool saves_nothing = false;
  bool projects = false;                   // Whole tensors, so pieces of one are exact.
  bool can_scatter_with_feedback = false;  // What a reduce-scatter loses is in its residuals.
  bool scatters_keep_residuals = false;    // On host memory, with error feedback.
  std::string_view unbiased;               // Its variant without bias; empty: there is none.
  bool needs_error_feedback = true;        // Or is better with it.
};

/// What streams and devices say of a call that has a codec. The same on all ranks.
struct StreamLimits {
  bool has_no_kernels = false;  // All else is unknown then.
  bool takes_error_feedback = true;
  bool saves_nothing = false;   // As CodecLimits.
  bool agrees_on_sums = false;  // Of an all-gather, which has none.
  bool lacks_memory = false;    // For a tensor of that size.
  bool is_captured = false;
  bool may_be_captured = false;
  bool has_random_bits = false;
  bool lacks_memory_for_graph = false;
};

/// What times of earlier calls in streams say of a call like them.
struct StreamVerdict {
  bool is_exact = false;
  bool has_scales = false;  // If it has error feedback: they cost hardly any time.
};

/// Who knows something of a call from those before it; one who knows nothing. An error ends the
/// communicator.
class CallAdvisers {
 public:
  virtual ~CallAdvisers() = default;
  /// The call's place in the step's plan, if that leaves it exact. Asked first, of each call.
  /// `planned`: what rules and settings say.
  virtual std::optional<PlannedStepCall> step_of(const PlanRequest&, const Decision& planned) {
    static_cast<void>(planned);
    return std::nullopt;
  }
  /// Of each call, once its step has been asked about. `planned`: as above. No value: its warm-up
  /// is over, or it has none.
  virtual Result<std::optional<WarmUpCall>> warm_up_of(const PlanRequest&,
                                                       const Decision& planned) {
    static_cast<void>(planned);
    return std::optional<WarmUpCall>();
  }
  /// Of each call, whatever has been decided on it.
  virtual Result<std::optional<TunedChoice>> tuned_for(const PlanRequest&, const Decision&) {
    return std::optional<TunedChoice>();
  }
  /// Of each call that may have a level. Empty: it has the codec that was decided on.
  virtual Result<std::string_view> level_of(const PlanRequest&, const Decision&) {
    return std::string_view();
  }
  /// Of each call that has a codec, on a whole tensor or a piece of one: the one that it has for
  /// what earlier ones have lost, or the same; empty: none. Lives as long as Decision asks for.
  virtual std::string_view guarded_codec(const PlanRequest&, const Decision& decision) {
    return decision.codec;
  }
  virtual Result<CodecLimits> limits_of(const PlanRequest&, const Decision&) {
    return CodecLimits();
  }
};

/// The same of a call in a stream.
class StreamAdvisers {
 public:
  virtual ~StreamAdvisers() = default;
  /// Of each call that has a codec.
  virtual StreamLimits limits_of(const PlanRequest& request, const Decision& decision) = 0;
  /// Of each call that streams have room for. Its codec is kNoCodec: what streams warm up with.
  virtual std::optional<WarmUpCall> warm_up_of(const PlanRequest&, const Decision&) {
    return std::nullopt;
  }
  /// Of each call that does not warm up.
  virtual StreamVerdict verdict_on(const PlanRequest&, const Decision&) { return {}; }
};

/// What the step's plan and levels are about, by what rules and settings say.
bool is_usual_compressed_all_reduce(const PlanRequest& request, const Decision& planned);

/// The whole chain, for a call on a whole tensor.
Result<Decision> decide_call(const Planner& planner, const PlanRequest& request,
                             CallAdvisers& advisers);
/// The same for a call in a stream, as far as it is decided before it begins. What warms up or
/// gains nothing names its codec all the same.
Decision decide_in_stream(const Planner& planner, const PlanRequest& request,
                          StreamAdvisers& advisers);
/// The same for a tensor whose pieces come one after the other, by what is certain of it.
Result<Decision> decide_tensor(const Planner& planner, const PlanRequest& request,
                               PiecewiseTensor::Known known, CallAdvisers& advisers);
/// For a piece of that tensor.
Result<Decision> decide_piece(const Decision& tensor, const PlanRequest& piece,
                              CallAdvisers& advisers);

/// `found`: what becomes of the call that `planned` says is made, or only observed. That is as far
/// as the latter goes.
Decision as_planned(const Decision& planned, const Decision& found);

Decision follow_step(const std::optional<PlannedStepCall>& step, const PlanRequest& request,
                     Decision decision);
Decision follow_warm_up(const std::optional<WarmUpCall>& warm_up, Decision decision);
Decision follow_tuned(const std::optional<TunedChoice>& choice, const PlanRequest& request,
                      Decision decision);
Decision follow_level(std::string_view level, Decision decision);
Decision follow_guard(std::string_view codec, Decision decision);
Decision follow_codec(const CodecLimits& limits, const PlanRequest& request, Decision decision);
Decision follow_stream(const StreamLimits& limits, const PlanRequest& request, Decision decision);
Decision follow_verdict(const StreamVerdict& verdict, Decision decision);
Decision follow_extent(PiecewiseTensor::Known known, const CodecLimits& limits, Decision decision);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_DECISION_CHAIN_H_
