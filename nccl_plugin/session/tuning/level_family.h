// The levels of compression that a call may have instead of the codec that all would have: codecs
// that differ from it in how much they send and lose, and what each of them would lose of given
// values.
#ifndef NCCL_PLUGIN_SESSION_TUNING_LEVEL_FAMILY_H_
#define NCCL_PLUGIN_SESSION_TUNING_LEVEL_FAMILY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nccl_plugin/session/tuning/level_trials.h"
#include "ringpress/internal/error_tables.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::tuning {

/// What a level sends of some values, and loses.
struct LevelLoss {
  double bytes = 0;
  LossKinds errors{};  // l2 norms.

  double of_call() const { return errors[kLossOfCall]; }
};

class LevelFamily {
 public:
  virtual ~LevelFamily() = default;

  /// At least two, by index; all ranks have the same.
  virtual std::size_t levels() const = 0;
  /// For the codec factory; valid as long as this.
  virtual const std::string& specification(std::size_t level) const = 0;
  /// The codec that all would have.
  virtual std::size_t default_level() const = 0;
  /// What a call counts with that is to be compressed less (Accordion): about half of the error.
  virtual std::size_t careful_level() const = 0;
  /// True if parts of one call may have different levels (CollectiveContext::parts).
  virtual bool has_parts() const = 0;
  /// That are sent for so many values, of which no more is known.
  virtual double bytes(std::size_t level, std::size_t count) const = 0;
  /// Values of a step that try_levels() is to have, about. 0: it is measure() that says what is
  /// lost.
  virtual std::size_t sampled_values() const = 0;
  /// By level: this rank's share of what a call loses, and the mean of many, if that level is used
  /// all along.
  virtual std::vector<LevelLoss> try_levels(const SampledPart& part, const RanksSum& sum,
                                            const TrialCalls& calls) const = 0;
  /// By level, of one encoding; infinite errors where values are not finite. `layers` of the
  /// tensor, as in TensorShape.
  virtual std::vector<LevelLoss> measure(const MeasuredTensor& tensor,
                                         std::span<const Layer> layers) const = 0;
};

/// Of the codec that all calls would have (usual_codec()): bits for `q2` to `q8` rounded to
/// nearest, on the uniform grid or `lloyd`, and with RINGPRESS_ADJUST_GRIDS=both on the other one
/// too; densities for `topk`; ranks for `powersgd`. Null for all others, which have no levels.
std::unique_ptr<LevelFamily> make_level_family(const CallSettings& settings);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_LEVEL_FAMILY_H_
