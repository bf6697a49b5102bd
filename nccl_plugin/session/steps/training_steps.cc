#include "nccl_plugin/session/steps/training_steps.h"

#include <algorithm>
#include <limits>

namespace ringpress::nccl_plugin {

std::size_t TrainingSteps::of_next(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(CallUser::kWarmUp, call);
  const bool is_in_step = places.by_shape && places.shapes.has_landmark();
  const std::uint64_t cycle = is_in_step ? places.shapes.cycle_id() : 0;
  if (std::exchange(cycle_, cycle) != cycle) {
    if (is_in_step) enter(places.shapes.cycle());
  } else if (is_in_step && *places.by_shape == 0) {
    ++steps_;
  }
  Calls& like = calls_like(call);
  const std::uint64_t before = like.made++;
  if (is_in_step) return steps_;
  return std::max(steps_, static_cast<std::size_t>(before / like.in_step));
}

TrainingSteps::Calls& TrainingSteps::calls_like(const TensorCall& call) {
  const Shape shape = shape_of(call);
  if (calls_.size() == kMostShapes && calls_.find(shape) == calls_.end()) calls_.clear();
  return calls_[shape];
}

/// It repeats from now on. So often have all its calls come before.
void TrainingSteps::enter(std::span<const TensorCall> step) {
  std::map<Shape, std::uint64_t> in_step;
  for (const TensorCall& call : step) ++in_step[shape_of(call)];
  std::uint64_t whole = std::numeric_limits<std::uint64_t>::max();
  for (const TensorCall& call : step) {
    Calls& like = calls_like(call);
    like.in_step = in_step[shape_of(call)];
    whole = std::min(whole, like.made / like.in_step);
  }
  steps_ = std::max(steps_, static_cast<std::size_t>(whole));
}

void TrainingSteps::save(StateWriter& to) const {
  to.put(cycle_);
  to.put<std::uint64_t>(steps_);
  to.put<std::uint64_t>(calls_.size());
  for (const auto& [shape, calls] : calls_) {
    const auto& [kind, count, dtype, op] = shape;
    to.put(kind);
    to.put<std::uint64_t>(count);
    to.put(dtype);
    to.put(op);
    to.put(calls.made);
    to.put(calls.in_step);
  }
}

void TrainingSteps::load(StateReader& from) {
  cycle_ = from.get<std::uint64_t>();
  steps_ = static_cast<std::size_t>(from.get<std::uint64_t>());
  const std::size_t shapes = from.get_count(kSavedBytes, kMostShapes);
  for (std::size_t i = 0; i < shapes; ++i) {
    const auto kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
    const auto count = static_cast<std::size_t>(from.get<std::uint64_t>());
    const auto dtype = static_cast<DType>(from.get_below(kDTypeCount));
    const auto op = static_cast<ReduceOp>(from.get_below(kReduceOpCount));
    Calls& calls = calls_[Shape{kind, count, dtype, op}];
    calls.made = from.get<std::uint64_t>();
    calls.in_step = from.get<std::uint64_t>();
    from.require(calls.in_step != 0);
  }
}

}  // namespace ringpress::nccl_plugin
