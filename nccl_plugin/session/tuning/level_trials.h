// What levels of compression would lose of a part of a tensor, call by call, if they had been used
// all along: tried on a sample of the values of some steps.
//
// One encoding does not say. With error feedback a level adds to each call what it left out before,
// and comes to keep far more than one call's loss: top-k at a density d sends a value each time
// that it has added up to a threshold, which is about the mean magnitude over d. So what is kept is
// proportional to 1 / d, and what a call is wrong by to the square root of that, while what a
// first encoding leaves out is all but the same for any small d.
//
// So each level is tried with error feedback of its own until what it keeps is what it comes to.
// The steps of the sample are repeated for that: as they are for a quantiser, which keeps less than
// a step of its grid. Top-k keeps the sum of hundreds of steps. There chance would add up as if it
// were the same each time. So a value's deviation from its mean over all steps seen has a sign at
// random in each repetition: the mean adds up, deviations do so as far as they do in the steps.
//
// A quantiser's bytes are summed on one rank and encoded again, and that loses something of the
// sum, and of what the first encodings have made of it. A few ranks are tried for that, with values
// of this one's law that lie to each other as the ranks' do (RanksSum). It takes several: a block
// of the sum has the large values of all, and what the first encodings have rounded to 0 is no part
// of it.
#ifndef NCCL_PLUGIN_SESSION_TUNING_LEVEL_TRIALS_H_
#define NCCL_PLUGIN_SESSION_TUNING_LEVEL_TRIALS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/error_tables.h"

namespace ringpress::nccl_plugin::tuning {

/// Their sum.
double squares_of(std::span<const float> values);

/// A part of a tensor over some steps: runs of kTileElements of its values, or all of them.
class SampledPart {
 public:
  /// `wanted`: values, about; `count`, which is not 0: of the part.
  SampledPart(std::size_t count, std::size_t wanted);

  /// One step. `keeps`: its values are kept, and not only added to the mean. False: what is not
  /// finite is left out.
  bool add(const MeasuredTensor& part, bool keeps);

  std::size_t count() const { return count_; }
  std::size_t size() const { return size_; }
  bool has_feedback() const { return has_feedback_; }
  /// Oldest first. Of each, size() values.
  const std::vector<std::vector<float>>& steps() const { return steps_; }
  /// Of all steps, without what chance makes of it where steps are few.
  std::vector<float> mean() const;
  /// What the last `steps` have beside `mean`, added up with signs at random, the same on all
  /// ranks.
  std::vector<float> mixed_deviations(std::span<const float> mean, std::size_t steps) const;

 private:
  std::vector<float> load(const MeasuredTensor& part) const;

  std::size_t count_;
  std::size_t runs_;
  std::size_t size_ = 0;
  std::size_t added_ = 0;
  bool has_feedback_ = false;
  std::vector<float> sums_;
  std::vector<std::vector<float>> steps_;
};

/// Squares, of the whole part.
struct TrialLoss {
  double of_call = 0;
  // What the mean over calls is wrong by: with error feedback, in proportion to what is kept.
  double of_mean = 0;
};

/// How large the sum over ranks is: its squares, over the sum of the ranks' own.
struct RanksSum {
  double of_mean = 1;  // Of the values' mean over steps,
  double of_rest = 1;  // and of their deviations from it.
  std::size_t ranks = 2;
};

/// Its share of the loss of all ranks, who lose something of their values, and again of the sum.
/// With a codec of fixed size for float32 values. At least one step.
TrialLoss try_codec(const SampledPart& part, const Codec& codec, const RanksSum& sum);
/// With the largest values of each call, for each share of them. What is left out of the sum has
/// the values' own direction: it is as much larger than the ranks' own as the sum of their values.
std::vector<TrialLoss> try_densities(const SampledPart& part, std::span<const double> densities,
                                     const RanksSum& sum);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_LEVEL_TRIALS_H_
