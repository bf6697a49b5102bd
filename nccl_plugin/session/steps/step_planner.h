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

#include "nccl_plugin/session/steps/step_recorder.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// A call of the step, as ranks tell it each other.
struct PlannedStepCall {
  std::uint64_t count = 0;
  std::uint8_t dtype = 0;
  std::uint8_t op = 0;
  std::uint8_t stays_exact = 0;
  // By which collective, where it stays exact and whoever follows the plan has a choice: Algorithm,
  // of which a plan has those that run on a mesh.
  std::uint8_t algorithm = static_cast<std::uint8_t>(Algorithm::kSra);
  std::uint32_t chunk_bytes = 0;  // 0: the collective chooses.
};
static_assert(sizeof(PlannedStepCall) == 16);

/// What rank 0 says: keep on as before, or follow this plan; one without calls ends the present
/// one.
struct StepMessage {
  /// To plan steps of more takes longer than they are worth.
  static constexpr std::uint32_t kMostCalls = 1024;
  struct Header {
    std::uint32_t is_news = 0;
    std::uint32_t calls = 0;     // That follow, kMostCalls at most.
    std::uint32_t next = 0;      // Which of them the coming call is.
    std::uint32_t looks_on = 0;  // 0: this is the last message of the search.
  };
  Header header;
  std::vector<PlannedStepCall> calls;
};

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
  bool is_recording() const { return recorder_ != nullptr; }

  bool has_plan() const { return !plan_.empty(); }

 private:
  static constexpr std::uint64_t kNoMessage = UINT64_MAX;

  void start_anew();
  void start_recording();
  StepMessage find_message(std::span<const TensorCall> under_way);
  StepMessage plan_step(const RecordedStep& step, std::span<const TensorCall> under_way);
  StepMessage judge_plan(const RecordedStep& step);
  /// Whether it took clearly less at an earlier look: the machine is busy.
  bool takes_long(const RecordedStep& step);

  struct SeenStep {
    std::size_t calls = 0, bytes = 0;
    double seconds = 0;
  };

  const bool is_root_;
  const int world_;
  const std::size_t minimum_bytes_;
  const std::shared_ptr<CallSequence> sequence_;
  std::uint64_t first_message_;     // Of a search.
  std::uint64_t calls_ = 0;         // Since the search began.
  std::uint64_t next_message_ = 0;  // Before which call it comes.
  std::vector<PlannedStepCall> plan_;
  std::size_t cursor_ = 0;
  // Rank 0 alone.
  std::unique_ptr<StepRecorder> recorder_;
  std::uint64_t calls_in_vain_ = 0;  // Of `calls_`, up to the last one that was skipped.
  int fruitless_looks_ = 0;
  SeenStep shortest_;                        // Without a plan, of the step that was looked at last.
  bool has_doubted_ = false;                 // A plan of this search, as the step got much shorter.
  int judgements_ = 0;                       // Of the plan that is followed.
  std::optional<double> unplanned_seconds_;  // Of the step, before there was a plan.
};

/// Which calls of a recorded step may as well be exact, by its own times: compressed ones of at
/// least `minimum_bytes`, of no rule, that the best plan does not compress, whichever of the long
/// pauses it is that comes between steps. None where calls do not overlap with the rest.
std::vector<bool> calls_to_leave_exact(const RecordedStep& step, int world,
                                       std::size_t minimum_bytes);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_PLANNER_H_
