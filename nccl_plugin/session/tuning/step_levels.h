// Levels of compression of its own for each call of a training step, and for each part of a call:
// L-GreCo's (ringpress/internal/levels.h), at no more error than one level for all.
//
// Each rank keeps a sample of the values of each part of each call: of the last ten of every
// RINGPRESS_ADJUST_STEPS steps, or thirty without error feedback, all values of the sample, of the
// others their mean. Of the last ten it also measures what one encoding at each level would lose of
// all values: a few rows of an embedding may hold most of a part, and the sample none of them.
// After these steps the ranks add up how their values lie to each other, and each tries what each
// level would lose of them, call by call and of the mean of all calls, now and when levels are
// found again, if it had been used all along (level_trials.h). At the first call of the next step
// the ranks add up what they have found, and each works out the same levels from that: neither a
// call nor the mean over calls may lose more than with one level for all. That is to hold as well
// if values go on growing or falling as they did, and if they turn back. The first levels come
// after a hundred steps, if that is sooner.
//
// What ranks lose of their values adds up as their values do. What is lost when a sum is encoded
// again counts too. Parts are the layers that the program has told of when the steps began, or
// segments (tensor_cut.h); a call that the ranks have not cut alike, as they know of different
// layers, is one part.
//
// Levels belong to a sequence of calls (CallSequence). They are kept while other calls come
// between, and where the sequence becomes a part of a longer one (steps and then an evaluation,
// again and again).
//
// RINGPRESS_ACCORDION (Agarwal, Wang, Lee, Venkataraman and Papailiopoulos, MLSys 2021): a call
// whose norm differs by half or more from when it was measured before, or that is measured for the
// first time, is in a critical regime and counts with the error of two bits more.
#ifndef NCCL_PLUGIN_SESSION_TUNING_STEP_LEVELS_H_
#define NCCL_PLUGIN_SESSION_TUNING_STEP_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "nccl_plugin/session/calls/error_feedback.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "nccl_plugin/session/tuning/level_family.h"
#include "nccl_plugin/session/tuning/peers.h"
#include "nccl_plugin/session/tuning/step_measurer.h"
#include "ringpress/internal/levels.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::tuning {

/// Elements of a call up to `end`, from where the part before it ends.
struct LeveledPart {
  std::size_t end = 0;
  std::size_t level = 0;  // Of the family.

  bool operator==(const LeveledPart&) const = default;
};
using LeveledCall = std::vector<LeveledPart>;  // Neighbours differ in their levels.

/// A step's calls: what is known of them, also while other calls come between.
struct LeveledStep : MeasuredStep {
  std::vector<double> earlier_norms;  // Of the calls measured before; empty if there were none.
  std::vector<LeveledCall> levels;
};

/// Of one communicator. One thread at a time.
class StepLevels {
 public:
  /// `settings` and `peers` outlive this.
  StepLevels(const CallSettings& settings, Peers& peers, std::unique_ptr<LevelFamily> family,
             std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>());

  /// The next call of those that may be compressed, the same on all ranks, whatever becomes of it.
  /// Where its codec would be that of all (usual_codec()), it gets the levels of its place in
  /// the step: one level is codec(), several are parts(). Collective now and then; an error ends
  /// the communicator.
  Status choose(const PlanRequest& request, const Decision& decision);
  /// Of that call, until the next one: empty where that is the codec that was decided on.
  std::string_view codec() const { return chosen_.codec; }
  /// Of that call, until the next one: empty where it has one codec.
  std::span<const LeveledPart> parts() const { return chosen_.parts; }
  /// That call is the first one after levels that make calls clearly larger or smaller.
  bool has_changed_sizes() const { return chosen_.has_changed_sizes; }
  /// True if take() is to have the values of that call, before it is made.
  bool wants_values() const { return chosen_.wants_values; }
  /// `layers`: what is known of the tensor; may differ between ranks.
  void take(const MeasuredTensor& tensor, std::span<const Layer> layers) {
    measurer_.take(tensor, layers, position_, step_);
  }

  const LevelFamily& family() const { return *family_; }

  /// Levels, and when they are looked for again: what is equal on all ranks. What is measured for
  /// the next ones begins anew where they are loaded.
  void save(StateWriter& to) const;
  /// For one that has seen no call, with the sequence of that state. Of what `from` fails at,
  /// nothing is to be used.
  void load(StateReader& from);
  /// By place in the step; empty while all calls have the default.
  const std::vector<LeveledCall>& levels() const {
    static const std::vector<LeveledCall> none;
    return step_ == nullptr ? none : step_->levels;
  }

 private:
  void inherit_levels();
  Status start_step(const CallPattern& pattern);
  Status find_levels();
  void set_levels(const std::vector<std::size_t>& by_part);

  const CallSettings& settings_;
  const std::unique_ptr<LevelFamily> family_;
  const StepMeasurer measurer_;
  const std::shared_ptr<CallSequence> sequence_;
  std::uint64_t breaks_ = 0;
  std::map<std::uint64_t, LeveledStep> known_;  // By CallCycle::id.
  LeveledStep* step_ = nullptr;                 // That the last call is of, if it is known.
  std::uint64_t last_leveled_ = 0;              // The last one that had levels; 0: none had.
  std::size_t position_ = 0;                    // Of that call.
  struct {
    std::string_view codec;
    std::span<const LeveledPart> parts;
    bool has_changed_sizes = false;
    bool wants_values = false;
  } chosen_;  // For that call.
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_STEP_LEVELS_H_
