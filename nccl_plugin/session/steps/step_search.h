// Rank 0's part in planning a step: looks for a plan of the step that its calls show, and judges
// the one that is followed.
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEP_SEARCH_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEP_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nccl_plugin/session/steps/step_recorder.h"

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

PlannedStepCall plan_of(const TensorCall& call, bool stays_exact);
/// Whether the call is the one that was planned.
bool fits(const PlannedStepCall& plan, const TensorCall& call);

/// After so many calls without a step a search ends: to search among calls that repeat nothing
/// takes some 6 us in each of them, to follow a step 0.8.
inline constexpr std::uint64_t kMostCallsWithoutStep = std::uint64_t{1} << 13;

class StepSearch {
 public:
  StepSearch(int world, std::size_t minimum_bytes, std::shared_ptr<CallSequence> sequence)
      : world_(world), minimum_bytes_(minimum_bytes), sequence_(std::move(sequence)) {}

  /// Nothing is known, and no plan is followed.
  void begin();
  /// The same for one that is under way and has found no plan.
  void go_on();
  /// It has not ended.
  bool is_recording() const { return recorder_ != nullptr; }
  /// What the steps have shown so far is nothing to it from now on.
  void record_anew();

  /// What it says now. `calls`: since it began; it ends some time after `late` of them.
  StepMessage message(std::span<const TensorCall> under_way, std::uint64_t calls,
                      std::uint64_t late);
  /// As StepPlanner has them.
  std::optional<CallStanding> stand(const TensorCall& call);
  void note(const RecordedCall& call);
  void skip(std::uint64_t calls);

 private:
  struct SeenStep {
    std::size_t calls = 0, bytes = 0;
    double seconds = 0;
  };

  StepMessage plan_step(const RecordedStep& step, std::span<const TensorCall> under_way);
  StepMessage judge_plan(const RecordedStep& step, std::uint64_t calls);
  /// Whether it took clearly less at an earlier look: the machine is busy.
  bool takes_long(const RecordedStep& step);

  const int world_;
  const std::size_t minimum_bytes_;
  const std::shared_ptr<CallSequence> sequence_;
  std::unique_ptr<StepRecorder> recorder_;
  std::uint64_t calls_in_vain_ = 0;  // Up to the last one that was skipped.
  int fruitless_looks_ = 0;
  SeenStep shortest_;                        // Without a plan, of the step that was looked at last.
  bool has_doubted_ = false;                 // A plan, as the step got much shorter.
  int judgements_ = 0;                       // Of the plan that is followed.
  std::optional<double> unplanned_seconds_;  // Of the step, before there was a plan.
};

/// Which calls of a recorded step may as well be exact, by its own times: compressed ones of at
/// least `minimum_bytes`, of no rule, that the best plan does not compress, whichever of the long
/// pauses it is that comes between steps. None where calls do not overlap with the rest.
std::vector<bool> calls_to_leave_exact(const RecordedStep& step, int world,
                                       std::size_t minimum_bytes);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_SEARCH_H_
