// What earlier calls of a communicator say of the next one, and how the ranks agree on it.
#ifndef NCCL_PLUGIN_SESSION_MESH_CALL_ADVISERS_H_
#define NCCL_PLUGIN_SESSION_MESH_CALL_ADVISERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "nccl_plugin/session/calls/error_guard.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/mesh/mesh_session.h"
#include "nccl_plugin/session/mesh/mesh_steps.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "nccl_plugin/session/steps/training_steps.h"
#include "nccl_plugin/session/steps/warm_up.h"
#include "nccl_plugin/session/tuning/step_levels.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"

namespace ringpress::nccl_plugin {

/// What is kept from call to call, and saved: equal on all ranks.
struct KeptAdvice {
  explicit KeptAdvice(MeshSession& session);

  void save(StateWriter& to) const;
  /// For one that no call was shown. Of what `from` fails at, nothing is to be used.
  void load(StateReader& from);
  /// Between two calls: goes on with it.
  void adopt(KeptAdvice&& loaded);

  std::unique_ptr<tuning::TunedCalls> tuned;   // Null: nothing is left to be chosen. Stays where it
                                               // is: reports, from other threads, ask it.
  std::unique_ptr<tuning::StepLevels> levels;  // Null: calls have no bits of their own.
  std::unique_ptr<TrainingSteps> steps;        // Of the warm-up.
  std::unique_ptr<ErrorGuard> guard;
};

/// Whether an all-reduce gets what the guard says: a rule's codec, or that of a warm-up, is only
/// watched.
bool is_guarded(const Settings& settings, const Decision& decision);

/// Of one communicator; one thread at a time, but for the last.
class MeshAdvisers final : public CallAdvisers {
 public:
  explicit MeshAdvisers(MeshSession& session);

  KeptAdvice& kept() { return kept_; }
  MeshSteps& steps() { return steps_; }

  /// A call begins, or another state is gone on with: nothing of the call before is true any more.
  void begin_call();

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
  /// It has ended.
  void end_all_reduce(const TensorCall& call, bool is_by_rule);
  void note_time(double seconds) {
    if (is_tuned_) kept_.tuned->note(seconds);
  }

  /// Sent to measure the links.
  std::uint64_t calibration_bytes() const {
    return steps_.link_bytes() + (kept_.tuned == nullptr ? 0 : kept_.tuned->calibration_bytes());
  }

 private:
  bool counts_for_warm_up(const Decision& planned) const;

  MeshSession& session_;
  KeptAdvice kept_;
  MeshSteps steps_;
  const bool has_scales_;
  const WarmUp warm_up_;
  // Of the last call:
  bool is_tuned_ = false;
  bool is_measured_ = false;
  std::span<const tuning::LeveledPart> parts_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_CALL_ADVISERS_H_
