#include "nccl_plugin/session/steps/training_steps.h"

#include <algorithm>
#include <limits>

namespace ringpress::nccl_plugin {

TrainingStep TrainingSteps::of_next(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(CallUser::kWarmUp, call);
  const bool is_in_step = places.by_shape && places.shapes.cycle().has_landmark();
  const std::uint64_t cycle = is_in_step ? places.shapes.cycle().id : 0;
  if (std::exchange(cycle_, cycle) != cycle) {
    if (is_in_step) enter(places.shapes.cycle().calls);
  } else if (is_in_step && *places.by_shape == 0) {
    ++steps_;
  }
  Calls& like = calls_.of(call);
  const std::uint64_t before = like.made++;
  if (is_in_step) return {steps_, true};
  return {std::max(steps_, static_cast<std::size_t>(before / like.in_step)), false};
}

/// It repeats from now on. So often have all its calls come before.
void TrainingSteps::enter(std::span<const TensorCall> step) {
  ByShape<std::uint64_t> in_step;
  for (const TensorCall& call : step) ++in_step.of(call);
  std::uint64_t whole = std::numeric_limits<std::uint64_t>::max();
  for (const TensorCall& call : step) {
    Calls& like = calls_.of(call);
    like.in_step = in_step.of(call);
    whole = std::min(whole, like.made / like.in_step);
  }
  steps_ = std::max(steps_, static_cast<std::size_t>(whole));
}

void TrainingSteps::save(StateWriter& to) const {
  to.put(cycle_);
  to.put<std::uint64_t>(steps_);
  calls_.save(to, [&to](const Calls& calls) {
    to.put(calls.made);
    to.put(calls.in_step);
  });
}

void TrainingSteps::load(StateReader& from) {
  cycle_ = from.get<std::uint64_t>();
  steps_ = static_cast<std::size_t>(from.get<std::uint64_t>());
  calls_.load(from, [](StateReader& state) {
    Calls calls;
    calls.made = state.get<std::uint64_t>();
    calls.in_step = state.get<std::uint64_t>();
    state.require(calls.in_step != 0);
    return calls;
  });
}

void TrainingSteps::adopt(TrainingSteps&& other) {
  calls_ = std::move(other.calls_);
  cycle_ = other.cycle_;
  steps_ = other.steps_;
}

}  // namespace ringpress::nccl_plugin
