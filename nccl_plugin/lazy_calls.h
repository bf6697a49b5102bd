// RINGPRESS_LAZY: all-reduces of gradients that are put off until enough has come together.
//
// Each rank adds a tensor's gradients up, call by call, and votes: how long the sum has become,
// over the mean length of the single gradients in it. (Gradients that agree grow with their number,
// noise with its root.) The largest vote of all ranks decides, so that they all do the same:
//
//   below RINGPRESS_LAZY   the result of the call is zeros, and what was added up stays
//   else                   what has been added up is all-reduced in its place, and begins anew
//
// Also where a rank has no place for the sum or its values are not finite, and in every
// RINGPRESS_LAZY_CALLS-th call of a tensor. This is an algorithm of its own, near those that
// aggregate gradients lazily (Chen et al., LAG, 2018); the program's optimizer sees fewer and
// larger steps.
#ifndef NCCL_PLUGIN_LAZY_CALLS_H_
#define NCCL_PLUGIN_LAZY_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "nccl_plugin/error_feedback.h"
#include "nccl_plugin/tuning/peers.h"
#include "ringpress/communicator.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin {

/// Of one communicator. One thread at a time.
class LazyCalls {
 public:
  /// `peers` outlives this.
  LazyCalls(const Settings& settings, tuning::Peers& peers);

  static bool is_wanted(const Settings& settings) { return settings.lazy > 0; }
  /// The same on all ranks.
  bool takes(std::size_t count, DType dtype, const Reduction& reduction) const;

  struct Decision {
    bool is_put_off = false;
    float* sum = nullptr;  // What is to be sent instead; null: the values themselves.
  };
  /// Adds the values of a call to what there is of its tensor. Collective. An error ends the
  /// communicator. `sum` stays until sent() or the next call.
  Result<Decision> decide(const TensorCall& call, const void* values);
  /// The sum has been sent.
  void sent(const TensorCall& call, float* sum) const;

  /// Memory held, in bytes.
  std::size_t bytes() const { return sums_.bytes(); }

 private:
  double add(const Kept& kept, const TensorCall& call, const void* values) const;

  const double threshold_;
  const std::size_t most_calls_;
  const std::size_t minimum_bytes_;
  tuning::Peers& peers_;
  ErrorFeedback sums_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_LAZY_CALLS_H_
