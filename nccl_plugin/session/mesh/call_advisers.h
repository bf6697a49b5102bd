// What earlier calls of a communicator say of the next one, and how the ranks agree on it.
#ifndef NCCL_PLUGIN_SESSION_MESH_CALL_ADVISERS_H_
#define NCCL_PLUGIN_SESSION_MESH_CALL_ADVISERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "nccl_plugin/session/calls/call_classes.h"
#include "nccl_plugin/session/calls/error_guard.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/mesh/mesh_session.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "nccl_plugin/session/steps/steps_of_calls.h"
#include "nccl_plugin/session/steps/training_steps.h"
#include "nccl_plugin/session/steps/warm_up.h"
#include "nccl_plugin/session/tuning/step_levels.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"

namespace ringpress::nccl_plugin {

/// Of one communicator; one thread at a time, but for the last two.
class MeshAdvisers final : public CallAdvisers {
 public:
  explicit MeshAdvisers(MeshSession& session);

  /// What is kept from call to call, and saved.
  struct Kept {
    std::unique_ptr<tuning::TunedCalls> tuned;   // Null: nothing is left to be chosen.
    std::unique_ptr<tuning::StepLevels> levels;  // Null: calls have no bits of their own.
    std::unique_ptr<TrainingSteps> steps;        // Of the warm-up.
    std::unique_ptr<ErrorGuard> guard;
  };
  /// Equal on all ranks.
  void save(StateWriter& to) const;
  /// Of what `from` fails at, nothing is to be used.
  Kept load(StateReader& from) const;
  /// Between two calls: goes on with it.
  void adopt(Kept&& kept);

  /// The program makes a call: what it is for, as far as is known. `address`: of what it sends.
  Status observe(const PlanRequest& request, const void* address);
  CallClass class_of(const PlanRequest& request) const { return classes_.class_of(request); }

  CallClasses& classes() { return classes_; }
  ErrorGuard& guard() { return *kept_.guard; }

  /// A call begins; nothing of the one before is true of it.
  void begin_call();
  /// The same, of an all-reduce of a whole tensor: receives rank 0's message on the step, if it is
  /// due.
  Status begin_all_reduce(const TensorCall& call);

  std::optional<PlannedStepCall> step_of(const PlanRequest& request,
                                         const Decision& planned) override;
  Result<std::optional<WarmUpCall>> warm_up_of(const PlanRequest& request,
                                               const Decision& planned) override;
  Result<std::optional<TunedChoice>> tuned_for(const PlanRequest& request,
                                               const Decision& decision) override;
  Result<std::string_view> level_of(const PlanRequest& request, const Decision& decision) override;
  std::string_view guarded_codec(const PlanRequest& request, const Decision& decision) override;
  Result<CodecLimits> limits_of(const PlanRequest& request, const Decision& decision) override;

  // Of the call that is decided on:
  /// Parts of it that have levels of their own, and the codec of a level.
  std::span<const tuning::LeveledPart> parts() const { return parts_; }
  const std::string& codec_of(const tuning::LeveledPart& part) const {
    return kept_.levels->family().specification(part.level);
  }
  /// take_values() is to have its values.
  bool wants_values() const { return is_measured_; }
  void take_values(const MeasuredTensor& tensor, std::span<const Layer> layers) {
    kept_.levels->take(tensor, layers);
  }
  /// It is compressed: if rank 0 writes a trace, the link is measured, once, as such calls may hide
  /// it.
  Status measure_link();
  /// It has ended.
  void end_all_reduce(const TensorCall& call, bool is_by_rule);
  void note_time(double seconds) {
    if (is_tuned_) kept_.tuned->note(seconds);
    if (is_observed_ && classes_.wants_times()) last_end_ = Clock::now();
  }

  /// Sent to measure the links.
  std::uint64_t calibration_bytes() const {
    return link_bytes_ + (kept_.tuned == nullptr ? 0 : kept_.tuned->calibration_bytes());
  }
  /// Writes the trace. `codec`: of the last call.
  void close_trace(const std::string& codec, ReportTime time) const { steps_.close(codec, time); }

 private:
  Kept make_kept() const;
  Status explain(const Status& status, const PlanRequest& request) const;
  bool counts_for_warm_up(const Decision& planned) const;
  Status broadcast_plan();
  void choose_collectives(StepMessage* message) const;

  MeshSession& session_;
  CallClasses classes_;
  bool is_observed_ = false;                 // The last call.
  Clock::time_point last_begin_, last_end_;  // Of those that are, where classes_ wants to know.
  TensorCall under_way_;  // The last all-reduce; and whether nobody has been told of it yet.
  bool is_untold_ = false;
  StepsOfCalls steps_;
  const bool has_scales_;
  const WarmUp warm_up_;
  bool wants_link_ = false;  // The same on all ranks.
  std::uint64_t link_bytes_ = 0;
  Kept kept_;
  // Of the last call:
  bool is_tuned_ = false;
  bool is_measured_ = false;
  std::span<const tuning::LeveledPart> parts_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_CALL_ADVISERS_H_
