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
#ifndef NCCL_PLUGIN_STEP_PLANNER_H_
#define NCCL_PLUGIN_STEP_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/step_recorder.h"

namespace ringpress::nccl_plugin {

/// A call of the step, as ranks tell it each other.
struct PlannedCall {
  std::uint64_t count = 0;
  std::uint8_t dtype = 0;
  std::uint8_t op = 0;
  std::uint8_t stays_exact = 0;
  std::uint8_t unused[5] = {};
};
static_assert(sizeof(PlannedCall) == 16);

/// What rank 0 says: keep on as before, or follow this plan; one without calls ends the present
/// one.
struct StepWord {
  static constexpr std::uint32_t kMostCalls = 4096;
  struct Header {
    std::uint32_t is_news = 0;
    std::uint32_t calls = 0;  // That follow, kMostCalls at most.
    std::uint32_t next = 0;   // Which of them the coming call is.
  };
  Header header;
  std::vector<PlannedCall> calls;
};

class StepPlanner {
 public:
  /// `minimum_bytes`: smaller calls are exact in any case.
  StepPlanner(int rank, int world, std::size_t minimum_bytes);

  /// Before a call: true if rank 0's word is to be heard now.
  bool is_due() const { return calls_ == next_word_; }
  /// On rank 0, when it is due.
  StepWord word();
  /// On every rank, rank 0 too. kMismatch: it makes no sense.
  Status hear(const StepWord& word);

  /// The coming call; true if the plan leaves it exact.
  bool begin_call(const TensorCall& call);
  /// What calls send has changed: a plan that was made before is given up, and looked for anew; a
  /// search goes on, as medians follow by themselves. At the same call on all ranks.
  void start_over();
  /// On rank 0, after the call: how it went.
  void note(const RecordedCall& call);
  /// On rank 0, instead: it was made otherwise than it will be, so steps can be learnt only after
  /// it.
  void skip();
  /// Rank 0 wants to know.
  bool is_recording() const { return recorder_ != nullptr; }

  bool has_plan() const { return !plan_.empty(); }

 private:
  void start_anew();
  StepWord plan_step(const RecordedStep& step);
  StepWord judge_plan(const RecordedStep& step);

  const bool is_root_;
  const int world_;
  const std::size_t minimum_bytes_;
  std::uint64_t first_word_;     // Of a search.
  std::uint64_t calls_ = 0;      // Since the search began.
  std::uint64_t next_word_ = 0;  // Before which call it comes.
  std::vector<PlannedCall> plan_;
  std::size_t cursor_ = 0;
  // Rank 0 alone.
  std::unique_ptr<StepRecorder> recorder_;
  std::uint64_t calls_in_vain_ = 0;  // Of `calls_`, up to the last one that was skipped.
  int fruitless_looks_ = 0;
  std::optional<double> unplanned_seconds_;  // Of the step, before there was a plan.
};

/// Which calls of a recorded step may as well be exact, by its own times: compressed ones of at
/// least `minimum_bytes` that the best plan does not compress, whichever of the long pauses it is
/// that comes between steps. None where calls do not overlap with the rest.
std::vector<bool> calls_to_leave_exact(const RecordedStep& step, int world,
                                       std::size_t minimum_bytes);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_STEP_PLANNER_H_
