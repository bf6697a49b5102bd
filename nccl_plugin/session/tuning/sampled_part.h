// A sample of the values of a part of a tensor over some steps, from which levels are tried
// (level_trials.h).
#ifndef NCCL_PLUGIN_SESSION_TUNING_SAMPLED_PART_H_
#define NCCL_PLUGIN_SESSION_TUNING_SAMPLED_PART_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringpress/internal/error_tables.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::tuning {

/// A sign for each value, the same on all ranks.
template <typename Take>
void for_each_sign(std::uint64_t seed, std::size_t count, Take&& take) {
  constexpr std::size_t kBits = 32;  // Of a hash: the upper ones are the better ones.
  for (std::size_t first = 0; first < count; first += kBits) {
    const std::uint64_t bits = combine_hash(combine_hash(seed, first), kBits) >> kBits;
    const std::size_t end = std::min(first + kBits, count);
    for (std::size_t i = first; i < end; ++i) {
      take(i, (bits >> (i - first) & 1) != 0 ? 1.0f : -1.0f);
    }
  }
}

/// Their sum.
double squares_of(std::span<const float> values);

/// Sums of values with signs at random, the same on all ranks: norms of sums of vectors can be told
/// from sums of these, which are far shorter.
std::vector<float> sketch_of(std::span<const float> values, std::size_t length);

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
  /// How many times as large values will be after so many more steps, if they go on as over all
  /// steps so far; 1 where these do not clearly tell. A quarter to four.
  double growth(std::size_t steps) const;
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
  std::vector<double> sizes_;  // Logarithms of norms, by step.
  std::vector<std::vector<float>> steps_;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_SAMPLED_PART_H_
