// What a communicator does about training steps: records them (RINGPRESS_TRACE) and follows the
// plan for them (RINGPRESS_CODEC=auto). One thread at a time, but for close().
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEPS_OF_CALLS_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEPS_OF_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/steps/step_planner.h"
#include "nccl_plugin/session/steps/step_trace.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

class StepsOfCalls {
 public:
  /// Plans where StepPlanner::is_wanted().
  void open(const Settings& settings, int rank, int world, bool crosses_hosts,
            const std::shared_ptr<CallSequence>& sequence);
  /// As all ranks have measured it.
  void set_link(const LinkSpeed& link);
  /// Writes the trace. `codec`: of the last call.
  void close(const std::string& codec, ReportTime time) const;

  // Each all-reduce on a whole tensor, in this order.
  bool is_due() const { return planner_ != nullptr && planner_->is_due(); }
  /// Never throws: the other ranks wait for it.
  StepMessage message() noexcept;
  Status apply(const StepMessage& message) { return planner_->apply(message); }
  /// From the coming call on calls are compressed otherwise. All ranks at the same call.
  void start_over() {
    if (planner_ != nullptr) planner_->start_over();
  }
  void begin_call(const TensorCall& call);
  /// Whose the coming call is, of those in here who ask the sequence.
  CallUsers users(const TensorCall& call) const;
  /// How the call that began last is made, if the step's plan leaves it exact.
  const std::optional<PlannedStepCall>& stays_exact() const { return stays_exact_; }
  /// At the entry of a call, before anything is decided on it. `sent_bytes()` is asked for what was
  /// sent since the communicator was made, if the call is timed.
  template <typename SentBytes>
  void begin_timing(const TensorCall& call, SentBytes&& sent_bytes) {
    is_timed_ = !users(call).is_empty();
    if (is_timed_) clock_.begin_call(sent_bytes());
  }
  bool is_timing() const { return is_timed_; }
  /// After it, if it was timed.
  struct Made {
    std::uint64_t sent_bytes = 0;  // Since the communicator was made.
    bool is_by_rule = false;
    bool is_trial = false;  // In a way that is tried: no plan is learnt from that.
  };
  void end_timing(const TensorCall& call, const Made& made);

 private:
  /// Calls that are too small to be compressed are pauses for the plan, and cost nothing.
  bool is_planned(const TensorCall& call) const;

  bool is_root_ = false;
  int world_ = 1;
  std::size_t minimum_bytes_ = 0;
  std::string trace_file_;
  CallClock clock_;
  bool is_timed_ = false;           // The call under way.
  mutable std::mutex trace_mutex_;  // Guards *trace_ and link_.
  std::optional<LinkSpeed> link_;   // As it was measured.
  std::unique_ptr<StepRecorder> trace_;
  std::unique_ptr<StepPlanner> planner_;
  std::optional<PlannedStepCall> stays_exact_;  // The coming call, if the plan says so.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEPS_OF_CALLS_H_
