#include "nccl_plugin/session/lazy/lazy_places.h"

#include <algorithm>

namespace ringpress::nccl_plugin {

LazyPlace LazySteps::observe(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(CallUser::kLazy, call);
  const std::size_t period = places.buffers.cycle().period();
  LazyPlace at;
  at.place = places.by_shape;
  at.position = places.by_buffer;
  at.have_places_changed = has_changed(&shape_breaks_, places.shapes.breaks());
  at.have_positions_changed = has_changed(&buffer_breaks_, places.buffers.breaks());
  // Two tensors that differ in their addresses alone have one place.
  if (at.position && places.shapes.cycle().period() == period) at.own_place = at.place;
  ++calls_;
  // While the sequence is not known, steps are taken to be as long as before.
  at.is_end_of_step = at.position ? *at.position + 1 == period : calls_ >= step_calls_;
  if (at.is_end_of_step) {
    if (at.position) step_calls_ = period;
    calls_ = 0;
  }
  return at;
}

/// Its place is not believed at once: the sequence may have been a mistake.
void LazyTensors::see(const TensorCall& call, const LazyPlace& at) {
  const auto [seen, is_new] = seen_.try_emplace(*at.position, Seen{call, std::nullopt});
  if (!is_new) seen->second.place = at.own_place;
}

void LazyTensors::forget_places() {
  for (Seen& former : formers_) former.place.reset();
  for (auto& [position, seen] : seen_) seen.place.reset();
}

void LazyTensors::end_sequence(bool keep_formers) {
  if (!keep_formers) formers_.clear();
  for (const auto& [position, seen] : seen_) {
    if (std::find(formers_.begin(), formers_.end(), seen) == formers_.end()) {
      formers_.push_back(seen);
    }
  }
  seen_.clear();
}

bool LazyTensors::stood_elsewhere(const TensorCall& call, std::optional<std::size_t> place) const {
  return std::any_of(formers_.begin(), formers_.end(), [&](const Seen& former) {
    return former.call == call && former.place != place;
  });
}

bool LazyTensors::has_likeness(const TensorCall& call) const {
  return std::any_of(formers_.begin(), formers_.end(), [&call](const Seen& former) {
    TensorCall moved = former.call;
    moved.address = call.address;
    return moved == call && former.call.address != call.address;
  });
}

}  // namespace ringpress::nccl_plugin
