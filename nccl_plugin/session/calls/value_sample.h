// A few values of a call's data, and what they say against its being a gradient.
//
// A gradient's values have both signs, and a new batch changes them. Counts, losses and histograms
// have one sign; parameters, centroids and running statistics hardly change from call to call.
#ifndef NCCL_PLUGIN_SESSION_CALLS_VALUE_SAMPLE_H_
#define NCCL_PLUGIN_SESSION_CALLS_VALUE_SAMPLE_H_

#include <array>
#include <cstddef>
#include <deque>
#include <functional>

#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// All zero: nothing is known.
using ValueSample = std::array<float, 64>;

/// Evenly over `count` values at `values`, always the same ones of a count.
ValueSample sample_values(const void* values, std::size_t count, DType dtype);

/// Of one rank's own data, of the last calls of one communicator. Pure.
class ValueEvidence {
 public:
  void note(const ValueSample& sample) { samples_.push_back(sample); }
  /// The last was not known yet when it was noted. After clear() nothing happens.
  void complete_last(const ValueSample& sample) {
    if (!samples_.empty()) samples_.back() = sample;
  }
  void clear() { samples_.clear(); }

  std::size_t size() const { return samples_.size(); }
  /// Of the calls for whose numbers, from 0 on, `is_of_them` is true. `period`: the calls of a
  /// step. Of fewer calls than two steps have: false.
  bool speak_against_gradients(std::size_t period,
                               const std::function<bool(std::size_t)>& is_of_them) const;

 private:
  std::deque<ValueSample> samples_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_VALUE_SAMPLE_H_
