// What trials of a sample (level_trials.h) say of a part whose values are not spread evenly.
//
// A few rows of an embedding may hold most of a part's squares, and its sample none of them. How
// much larger the part's loss is than that of the sample is seen from one encoding of all values,
// which takes far less time than trials of them.
#ifndef NCCL_PLUGIN_SESSION_TUNING_PART_ENCODINGS_H_
#define NCCL_PLUGIN_SESSION_TUNING_PART_ENCODINGS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "nccl_plugin/session/tuning/level_family.h"
#include "ringpress/internal/error_tables.h"

namespace ringpress::nccl_plugin::tuning {

/// What one encoding loses of values of some steps, by level, without error feedback.
class PartEncodings {
 public:
  /// One step, whose values are finite; `sampled`: those of the part's sample.
  void add(const LevelFamily& family, const MeasuredTensor& part, std::span<const float> sampled);

  /// False: nothing was added that a sample does not have.
  bool is_known() const { return steps_ > 0; }
  /// Of the part, squares of a step.
  double squares(std::size_t level) const { return of_part_[level] / static_cast<double>(steps_); }
  /// The part's squares, each value's, over those of the sample; 0: the sample's are 0.
  double over_sample(std::size_t level) const;

 private:
  std::size_t steps_ = 0;
  double sampled_share_ = 1;     // Of the part's values.
  std::vector<double> of_part_;  // Sums over steps; by level.
  std::vector<double> of_sample_;
};

/// Makes `errors`, by part and then level, those of the parts. `encodings`: by part. Where a sample
/// has nothing that could be lost, what other parts lose beside one encoding holds for it, too.
void correct_errors(std::span<const PartEncodings> encodings, std::size_t levels,
                    std::span<double> errors);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_PART_ENCODINGS_H_
