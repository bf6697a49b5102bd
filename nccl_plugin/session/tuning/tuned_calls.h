// Automatic mode: how each of a communicator's large calls is made, from what is measured of it.
//
// Calls are tuned by kind, type and size (from a power of two up to the next). Rank 0 alone watches
// their times and decides; all ranks know, from the number of calls, before which one the next
// announcement comes, take part in a broadcast of it there, and make that call as it says. So no
// rank ever does something else than the others, however different their clocks.
#ifndef NCCL_PLUGIN_SESSION_TUNING_TUNED_CALLS_H_
#define NCCL_PLUGIN_SESSION_TUNING_TUNED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "nccl_plugin/session/tuning/known_calibrations.h"
#include "nccl_plugin/session/tuning/peers.h"
#include "nccl_plugin/session/tuning/scale_trial.h"
#include "nccl_plugin/session/tuning/tuning_log.h"
#include "ringpress/internal/call_tuner.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::tuning {

/// Of one communicator. One thread at a time.
class TunedCalls {
 public:
  /// `settings` and `peers` outlive this. Nothing is measured before the first call that is worth
  /// it: then some tenths of a second, unless the cache has it.
  TunedCalls(const Settings& settings, Peers& peers, const TuningLimits& limits);
  /// As much may be tried as the settings say.
  TunedCalls(const Settings& settings, Peers& peers);

  /// True if the settings leave something to be chosen.
  static bool has_choice(const CallSettings& settings);

  /// What is best for a call, where that is not what was decided on before; no value: it is not for
  /// this to say. Collective now and then. An error ends the communicator, for the others may not
  /// have it.
  Result<std::optional<TunedChoice>> choose(const PlanRequest& request, const Decision& decision);
  /// The call that choose() was asked about last took so long.
  void note(double seconds);

  /// On rank 0: the quickest way to make such a call without a codec, as far as is known of calls
  /// of its class.
  std::optional<Choice> quickest_exact(const PlanRequest& request, const Decision& decision) const;

  /// True if it is not settled how the call is made that choose() was asked about last.
  bool is_trying() const { return current_ != nullptr && !current_->trial.is_settled; }

  /// What was measured of links and codecs, and what is settled: equal on all ranks. What is being
  /// tried is tried anew where it is loaded.
  void save(StateWriter& to) const;
  /// For one that no call was shown. Of what `from` fails at, nothing is to be used.
  void load(StateReader& from);
  /// Between two calls: goes on with what `loaded` has.
  void adopt(TunedCalls&& loaded);

  /// Announcements so far.
  std::uint64_t epoch() const { return epoch_; }

  /// What this rank has sent to find out how quick links and codecs are, once that is known. From
  /// any thread.
  std::uint64_t calibration_bytes() const { return calibrations_.sent_bytes(); }

 private:
  struct Class {
    TunedClass calls;
    std::optional<Algorithm> by;       // What a rule says.
    std::unique_ptr<CallTuner> tuner;  // On rank 0.
    Trial trial;
    std::uint32_t made = 0;           // Calls of the trial.
    bool has_scales = false;          // They have coordinate scales.
    ScaleTrial scales;                // On rank 0.
    std::vector<double> early_times;  // On rank 0, of exact calls before the first trial.

    /// On rank 0: the walk over what may be chosen.
    Status begin_walk(const CallSettings& settings, const TuningLimits& limits,
                      const KnownCalibrations& calibrations);
    /// On rank 0, once a trial is announced: whether its calls are to have scales. `may_have`: by
    /// the settings and the model.
    bool wants_scales(const Trial& announced, bool may_have, bool is_measured);
  };
  using Key = std::tuple<CollectiveKind, DType, int, std::optional<Algorithm>>;

  static Key key_of(const PlanRequest& request, const Decision& decision);
  void find_class(const PlanRequest& request, const Decision& decision);
  void load_class(StateReader& from);
  Status announce(Class* calls);
  void write_log(const Class& calls, const std::vector<TuningNote>& notes);
  TunedChoice choice_of(const Class& calls) const;

  const CallSettings& settings_;
  Peers& peers_;
  const TuningLimits limits_;
  KnownCalibrations calibrations_;
  std::map<Key, Class> classes_;
  // Of the last call: null if it is not tuned.
  Class* current_ = nullptr;
  double current_share_ = 0;  // Of its class's size.
  bool is_before_trials_ = false;
  std::uint64_t epoch_ = 0;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_TUNED_CALLS_H_
