// What a communicator knows of one of its calls that may be compressed: for decide_in_stream().
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_STREAM_ADVICE_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_STREAM_ADVICE_H_

#include <optional>

#include "nccl_plugin/interposer/comm/parts.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/steps/training_steps.h"
#include "nccl_plugin/session/steps/warm_up.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one call. One thread at a time.
class StreamAdvice final : public StreamAdvisers {
 public:
  /// All of it outlives this. `steps`: of the communicator; they are told of calls that may warm
  /// up. Whether `planned` is captured is found out when that is needed.
  StreamAdvice(CommParts& parts, const WarmUp& warm_up, TrainingSteps& steps, PlannedCall* planned)
      : parts_(parts), warm_up_(warm_up), steps_(steps), planned_(planned) {}

  StreamLimits limits_of(const PlanRequest& request, const Decision& decision) override;
  /// Captured calls do not count: a graph would repeat for ever what is decided on them.
  std::optional<WarmUpCall> warm_up_of(const PlanRequest& request,
                                       const Decision& decision) override;
  StreamVerdict verdict_on(const PlanRequest& request, const Decision& decision) override;
  /// Once that was asked: the StreamGuard says when the call begins.
  bool is_verdict_due() const { return is_verdict_due_; }

 private:
  bool is_captured() const { return find_capture(*parts_.device, planned_) != 0; }

  CommParts& parts_;
  const WarmUp& warm_up_;
  TrainingSteps& steps_;
  PlannedCall* const planned_;
  bool is_verdict_due_ = false;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_STREAM_ADVICE_H_
