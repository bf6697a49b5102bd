// Which of a communicator's calls are gradients, found out from what it is asked for:
// RINGPRESS_CODEC=auto compresses nothing else.
//
// The shapes of large calls (kind, count, type, operation), in the order in which they repeat, say
// some of it, and the communicator's name may say the rest. Both are equal on all ranks. Data
// parallel training scatters sums of shards in an order of its own. Layers that are split between
// ranks sum activations, forward and backward, and take maxima.
//
// The shapes of a step's all-reduces leave open what they are. Each rank looks at its own buffers,
// pauses and values (call_evidence.h), and the ranks vote: one no is a no. They vote at calls that
// all of them count alike, ever more seldom.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_CLASSES_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "nccl_plugin/session/calls/call_evidence.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/class_vote.h"
#include "nccl_plugin/session/calls/known_classes.h"
#include "nccl_plugin/session/calls/recurrences.h"
#include "nccl_plugin/session/calls/step_shapes.h"
#include "nccl_plugin/session/settings/comm_name.h"
#include "ringpress/internal/call_class.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// Whether automatic mode compresses what is known to be a gradient, and no other call.
bool takes_gradients_alone(const CallSettings& settings);

/// What the shapes of a step's large calls and the name say of its all-reduces and
/// reduce-scatters. `is_open`: the ranks' vote decides on its all-reduces, shape by shape.
struct StepClasses {
  CallClass all_reduces = CallClass::kGradient;
  CallClass reduce_scatters = CallClass::kGradient;
  bool is_open = false;
};
StepClasses classify_step(std::span<const TensorCall> step, NamedFor name);

/// Of one communicator. One thread at a time. All but vote() is equal on all ranks.
class CallClasses {
 public:
  /// `name`: of the communicator. `settings` outlives this. `steps_until_heard`: as of a ClassVote.
  CallClasses(const CallSettings& settings, std::string_view name,
              std::shared_ptr<CallSequence> sequence, std::size_t steps_until_heard = 0);

  /// The program makes this all-reduce, reduce-scatter or all-gather. `seen`, `values`: by this
  /// rank; values where next_vote().wants_values().
  void observe(const PlanRequest& request, const CallEvidence::Seen& seen,
               const ValueSample& values = {});
  /// Whether anything comes of observe(), and of what this rank has seen.
  bool is_of_interest(const PlanRequest& request) const {
    return is_asked_ && !is_too_small(request, settings_.minimum_bytes);
  }
  bool wants_times() const { return is_asked_ && !takes_all_ && !settings_.deterministic; }

  /// True if the ranks vote before the call that was observed last is decided on.
  bool is_vote_due() const { return vote_.is_due(); }
  /// What this rank says. Before it has seen enough: what all have said before.
  ClassBallot vote() const { return vote_.answer(shapes_.ballot()); }
  /// `of_all`: the ranks' ballots, added up.
  void apply(const ClassBallot& of_all);

  /// As far as is known by now. Of what is compressed whatever it is: kUnknown.
  CallClass class_of(const PlanRequest& request) const;
  /// Of a call that is captured, and comes again and again from then on.
  CallClass class_of_captured(const PlanRequest& request) const {
    return takes_all_ ? CallClass::kGradient : class_of(request);
  }

  ClassVote& next_vote() { return vote_; }
  // What all ranks know, to be saved and loaded.
  KnownClasses& known() { return known_; }
  Recurrences& recurrences() { return recurrences_; }

 private:
  void begin_step(const CallPattern& shapes);
  void note_step();

  const CallSettings& settings_;
  const std::shared_ptr<CallSequence> sequence_;
  const NamedFor name_;
  const bool is_asked_;   // Automatic mode.
  const bool takes_all_;  // RINGPRESS_GRADIENTS=all.
  Recurrences recurrences_;
  KnownClasses known_;
  std::vector<TensorCall> step_;  // The last that was classified.
  std::uint64_t step_id_ = 0;
  StepClasses found_;
  StepShapes shapes_;
  ClassVote vote_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_CLASSES_H_
