// A training step as its all-reduces show it: which tensors, in what order, and when each is ready.
//
// Pure: times are passed in. A step is what the calls repeat (CallSequence), and it begins after
// the longest pause. Until whole steps have come one after the other there is none, and a call that
// does not fit (an odd last batch, buckets that are cut anew, another model in between) begins a
// new search: steps on its two sides are never mixed.
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEP_RECORDER_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEP_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/call_issue.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/espresso.h"

namespace ringpress::nccl_plugin {

/// A call that begins so soon after the one before was waiting for it; threads that wake each other
/// take less.
inline constexpr double kAtOnceSeconds = 50e-6;

/// Where a call stands in the sequence of calls, as it was when the program made it.
struct CallStanding {
  std::uint64_t buffer_breaks = 0;  // Of the sequences, so far.
  std::uint64_t shape_breaks = 0;
  std::optional<CallsBy> by;  // Nothing: its place is not known.
  std::size_t position = 0;
  std::size_t period = 0;
};

/// An all-reduce that has returned. Times are in seconds of one clock.
struct RecordedCall {
  TensorCall call;
  std::optional<CallStanding> standing;  // None: no other call has been made since.
  double begin_seconds = 0;        // Its entry, or the return of the one before if that was later.
  double end_seconds = 0;          // Its return.
  double busy_before_seconds = 0;  // That the calling thread was on a core since the call before.
                                   // All of that time if it waited for nothing.
  std::size_t sent_bytes = 0;      // By this rank.
  bool is_by_rule = false;         // How it is made is not for a plan to say.
  bool is_trial = false;           // It was made in a way that is tried.
  std::optional<CallIssue> issue;  // None: it was issued as it began.
};

/// What a program did between two calls, where that is known for certain.
struct KnownWait {
  double before_seconds = 0;  // From the issue of the one until the program waited for it.
  double after_seconds = 0;   // From its end, or that moment if it was later, to the other's issue.
};

/// A call that sent less than this part of what it sends exactly was compressed: frames have
/// headers, and values that do not compress are sent as they are.
inline constexpr double kCompressedShare = 0.9;

/// A call of a step: medians over steps.
struct StepCall {
  TensorCall call;
  double gap_seconds = 0;   // From the return of the call before to its entry.
  double busy_seconds = 0;  // Of that, spent by the calling thread on a core.
  double call_seconds = 0;
  double call_error_seconds = 0;  // By which that is off by chance, about.
  double late_seconds = 0;        // Of it, what a tenth of the calls did without: this rank came
                                  // last then. 0 where calls do not show that it waits for others.
  std::size_t sent_bytes = 0;
  bool is_by_rule = false;
  bool is_with_the_one_before = false;             // Issued at once, in one group.
  std::optional<KnownWait> wait;                   // For the call before.
  std::optional<double> since_ready_seconds = {};  // From the entry of the last call before it that
                                                   // began after a pause; none: not known.

  std::size_t bytes() const { return call.count * dtype_size(call.dtype); }
};

/// What the pauses between a step's calls show.
enum class PausesShow {
  kNothing,             // There are none, or they vary too little to tell.
  kWaitsForCalls,       // The program waits for each call before it computes on.
  kComputesBesideCalls  // Compute goes on while calls are under way.
};

struct RecordedStep {
  std::vector<StepCall> calls;  // In order; the gap of the first is the longest.
  std::size_t next = 0;         // Which of them comes next, if it goes on so.
  std::size_t steps = 0;        // That were seen, whole and one after the other.

  /// Of one step.
  double seconds() const;
  std::size_t bytes() const;
  /// False if the program waits for each call before it computes on: the pauses show it, or the
  /// thread that makes the calls is on a core in them.
  bool overlaps() const;
  /// Whether overlaps() is no more than taken to be so: there are pauses, and neither shows it.
  bool is_overlap_guessed() const;

  /// Where compute goes on during calls, a pause is shorter by what the call before it took longer:
  /// the time from call to call stays as it is. If the pauses stay as they are instead, the program
  /// waits for each call before it computes. By ranks of such differences, of which a few late
  /// steps make no more than a few.
  PausesShow pauses_show = PausesShow::kNothing;
};

/// How one call of a step went.
struct StepSample {
  double gap_seconds, busy_seconds, call_seconds;
  double since_ready_seconds;     // As StepCall has it.
  std::size_t calls_since_ready;  // How many calls before is the call that it is counted from.
  std::size_t sent_bytes;
  bool is_trial, is_with_the_one_before;
  std::optional<KnownWait> wait;
};
/// A call of the step, as it went in the last steps.
struct StepPosition {
  TensorCall call;
  std::vector<StepSample> samples;  // The newest, in no order.
  bool is_by_rule = false;
};

class StepRecorder {
 public:
  /// `user`: by whose calls it goes.
  explicit StepRecorder(CallUser user = CallUser::kTrace,
                        std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>())
      : user_(user), sequence_(std::move(sequence)) {}

  /// The program makes this call, and others before it returns: where it stands now is part of what
  /// note() is to be told of it.
  CallStanding stand(const TensorCall& call);
  /// Takes note of the call that returned next.
  void note(const RecordedCall& call);
  /// The next call is not shown: what comes after it begins a new search, as without it steps would
  /// lack a call.
  void skip();

  /// Of the steps that were found the one that most calls were part of; nothing if there was none
  /// of which kWantedSteps came in a row. Where addresses change from step to step, equal layers
  /// look like steps until the last of them: there, kCertainCalls must have come in a row.
  std::optional<RecordedStep> step() const;
  /// That of the calls that are being made now, or nothing.
  std::optional<RecordedStep> current() const;
  /// Whether any call was shown.
  bool has_calls() const { return has_calls_; }

  static constexpr std::size_t kWantedSteps = 4;
  static constexpr std::size_t kCertainCalls = 4096;

 private:
  std::optional<std::size_t> locate(const CallStanding& standing);
  void restart(std::optional<CallsBy> by = {}, std::size_t period = 0);
  void add(std::size_t position, const RecordedCall& call);
  StepSample sample_of(const RecordedCall& call) const;
  void remember(const RecordedCall& call);

  const CallUser user_;
  const std::shared_ptr<CallSequence> sequence_;
  std::uint64_t breaks_ = 0;             // Those of the sequence of buffers that were seen.
  std::uint64_t shape_breaks_ = 0;       // The same for the sequence of shapes.
  std::optional<CallsBy> by_;            // Nothing while there is no sequence.
  std::vector<StepPosition> positions_;  // Of the sequence, wherever that begins.
  std::size_t noted_ = 0;                // Calls that positions_ has been shown.
  std::optional<double> last_end_;
  double last_issue_ = 0;              // When the call before was issued.
  double last_pause_ = 0;              // The entry of the last call that began after a pause.
  std::size_t calls_since_pause_ = 0;  // Calls since then, that one included.
  bool has_calls_ = false;
  RecordedStep best_;
};

/// Whether such a call began as soon as the one before had ended, so that it does not show when its
/// tensor was ready: by then.
bool is_ready_unseen(const StepCall& call);

/// What calls that were waited for took because other ranks came later is no time of the link, but
/// compute of those ranks: so it is in this step.
RecordedStep without_lateness(const RecordedStep& step);

/// The step as Espresso takes it: one GPU a machine, `world` of them, and `link` between them.
///
/// Where calls overlap with the rest, a call that was waited for was ready when it began, and one
/// that began as soon as the one before had ended is taken to be ready with that one: it was, or
/// later. Else the program waits for each call, and then computes as long as the pause lasts. What
/// is known for certain (StepCall::wait, is_with_the_one_before) is taken as it is. What comes
/// before the first is forward.
espresso::Job job_of(const RecordedStep& step, std::size_t world, const LinkSpeed& link);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_RECORDER_H_
