// Espresso's plan for the training step that a communicator is part of, found and applied while it
// runs: calls that are compressed but need not be, as the step is no shorter for it, are left
// exact.
//
// Every rank has one and shows it the same all-reduces in the same order. Rank 0 records the steps
// and plans; at calls whose numbers all ranks know (is_due) it tells the others what it has found.
// From then on each rank follows the step by the shapes of its calls, which are equal everywhere. A
// call that does not fit ends the plan, on all ranks at once, and the search begins anew.
//
// Pure but for log lines: times are passed in, words are carried by the caller.
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEP_PLANNER_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEP_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nccl_plugin/session/steps/step_search.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

class StepPlanner {
 public:
  /// True where codecs are chosen automatically and calls cross hosts, unless all is to be
  /// deterministic; the same on all ranks.
  static bool is_wanted(const Settings& settings, int world, bool crosses_hosts);

  /// `minimum_bytes`: smaller calls are exact in any case.
  StepPlanner(int rank, int world, std::size_t minimum_bytes,
              std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>());

  /// Before a call: true if rank 0's message is to be received now, or to be on its way from now
  /// on.
  bool is_due() const { return calls_ == next_message_; }
  /// On rank 0, when it is due. `under_way`: the last calls, in order, that note() has yet to be
  /// told of.
  StepMessage message(std::span<const TensorCall> under_way = {});
  /// On every rank, rank 0 too, before the call at which it was due or so many calls later.
  /// kMismatch: it makes no sense.
  Status apply(const StepMessage& message, std::size_t calls_since = 0);
  /// True if no message is due any more and no plan is followed: calls need not be shown.
  bool is_over() const { return next_message_ == kNoMessage && plan_.empty(); }

  /// The coming call. How it is made if the plan leaves it exact; else
  /// null. Valid until the plan changes.
  const PlannedStepCall* begin_call(const TensorCall& call);
  /// What calls send has changed: a plan that was made before is given up, and looked for anew; a
  /// search goes on, as medians follow by themselves. At the same call on all ranks.
  void start_over();
  /// On rank 0, where others are made before it returns: RecordedCall::standing.
  std::optional<CallStanding> stand(const TensorCall& call);
  /// On rank 0, after the call: how it went.
  void note(const RecordedCall& call);
  /// On rank 0, instead: it was made otherwise than it will be, so steps can be learnt only after
  /// it.
  void skip();
  /// Rank 0 wants to know.
  bool is_recording() const { return search_ && search_->is_recording(); }

  bool has_plan() const { return !plan_.empty(); }

 private:
  static constexpr std::uint64_t kNoMessage = UINT64_MAX;

  void start_anew();

  std::uint64_t first_message_;     // Of a search.
  std::uint64_t calls_ = 0;         // Since the search began.
  std::uint64_t next_message_ = 0;  // Before which call it comes.
  std::vector<PlannedStepCall> plan_;
  std::size_t cursor_ = 0;
  std::optional<StepSearch> search_;  // Rank 0 alone.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_PLANNER_H_
