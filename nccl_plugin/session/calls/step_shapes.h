// The all-reduces of a step by their shapes, and what the ranks have said of each.
#ifndef NCCL_PLUGIN_SESSION_CALLS_STEP_SHAPES_H_
#define NCCL_PLUGIN_SESSION_CALLS_STEP_SHAPES_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/class_ballot.h"
#include "nccl_plugin/session/calls/known_classes.h"
#include "nccl_plugin/session/calls/tensor_call.h"

namespace ringpress::nccl_plugin {

class StepShapes {
 public:
  /// Of this step. What was known of a shape holds until the ranks have voted.
  void begin(std::span<const TensorCall> step, const KnownClasses& known) {
    shapes_.clear();
    ballot_ = {};
    for (const TensorCall& call : step) {
      if (call.kind != CollectiveKind::kAllReduce || number_of(call) < shapes_.size()) continue;
      shapes_.push_back(call);
      if (known.of(call) == CallClass::kGradient) continue;
      ballot_.add(shapes_.size() - 1, Verdict::kUnsaid);
    }
  }

  const std::vector<TensorCall>& all() const { return shapes_; }
  /// How many there are if it is none of them.
  std::size_t number_of(const TensorCall& call) const {
    const auto found = std::find_if(shapes_.begin(), shapes_.end(), [&](const TensorCall& known) {
      return known.count == call.count && known.dtype == call.dtype && known.op == call.op &&
             known.layout == call.layout;
    });
    return static_cast<std::size_t>(found - shapes_.begin());
  }

  const ClassBallot& ballot() const { return ballot_; }
  void set_ballot(const ClassBallot& of_all) { ballot_ = of_all; }

 private:
  std::vector<TensorCall> shapes_;
  ClassBallot ballot_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_STEP_SHAPES_H_
