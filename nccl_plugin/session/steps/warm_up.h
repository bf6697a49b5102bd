// What calls have instead of their codec in the first steps of a training: RINGPRESS_WARMUP_STEPS.
#ifndef NCCL_PLUGIN_SESSION_STEPS_WARM_UP_H_
#define NCCL_PLUGIN_SESSION_STEPS_WARM_UP_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/steps/training_steps.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// Of calls that would have one codec.
struct WarmUpPlan {
  std::size_t steps = 0;            // 0: they have it at once.
  std::vector<std::string> codecs;  // One after the other, evenly over the steps.
  // Nobody asked for it: only for calls of a step that is known to repeat. Others may be no
  // training.
  bool is_by_codec = false;
};
/// What the first steps of a training need by default: more the fewer bits a value gets. 0 from 4
/// bits on.
std::size_t warm_up_steps_of(const Codec& codec);
/// What RINGPRESS_WARMUP_CODECS says, in its order.
std::vector<std::string> warm_up_codecs(const CallSettings& settings);
/// Whether all of them are codecs.
Status check_warm_up(const CallSettings& settings);

/// Empty for what loses nothing, and for what is no specification.
WarmUpPlan plan_warm_up(const CallSettings& settings, const std::string& codec);

/// Of each codec that rules and settings give. The same on all ranks; never changes.
class WarmUp {
 public:
  explicit WarmUp(const CallSettings& settings);

  /// After so many steps it is over for every codec. 0: there is none.
  std::size_t steps() const { return steps_; }
  /// Of a call of this step that would have this codec.
  std::optional<WarmUpCall> at(const TrainingStep& step, std::string_view codec) const;

 private:
  std::map<std::string, WarmUpPlan, std::less<>> plans_;  // Decisions have names in it.
  std::size_t steps_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_WARM_UP_H_
