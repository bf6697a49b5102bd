// Whether calls that are settled have coordinate scales: measured, as the model knows neither what
// else runs on the processors nor how many ranks share them.
#ifndef NCCL_PLUGIN_SESSION_TUNING_SCALE_TRIAL_H_
#define NCCL_PLUGIN_SESSION_TUNING_SCALE_TRIAL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ringpress/internal/tuning.h"

namespace ringpress::nccl_plugin::tuning {

/// Of one class of calls, on rank 0. Times without scales are compared with times that follow, with
/// scales: these stay if they take at most 1.1 times as long. What is near to that is measured
/// three times. Calls with scales take longer at first, while much is learnt, which does not count.
class ScaleTrial {
 public:
  /// Whether the next calls have them, of the choice that is settled. Each time that calls are
  /// announced.
  bool next(const Choice& settled);
  /// The same of a choice that may be another one, which is tried again.
  bool has(const Choice& choice) const;
  /// A call that followed took so long.
  void note(double seconds);
  /// Calls have scales that may not stay: their times say nothing of the choice.
  bool is_trying() const { return phase_ == Phase::kWarmUp || phase_ == Phase::kWith; }

  /// Times have changed: it begins anew when something is settled.
  void forget() { settled_.reset(); }
  /// Goes on as one that has come to that.
  void resume(const Choice& settled, bool has_scales);

 private:
  enum class Phase : std::uint8_t { kWithout, kWarmUp, kWith, kDecided };

  bool judge();

  std::optional<Choice> settled_;
  Phase phase_ = Phase::kWithout;
  bool has_scales_ = false;  // Once it is decided.
  int rounds_ = 0;
  std::vector<double> without_;  // Seconds.
  std::vector<double> with_;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_SCALE_TRIAL_H_
