#include "nccl_plugin/session/calls/error_feedback.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin {

Kept ErrorFeedback::find(const TensorCall& as_called, const ToKeep& wanted,
                         const TensorName& name) {
  const std::optional<KeptPlace> place = place_of(as_called, name);
  const TensorCall call = sequence_->named(as_called);
  KeptTensor* const entry =
      place ? tensors_.at(*place, call, wanted) : tensors_.by_address(call, wanted);
  if (entry == nullptr) return {};
  entry->is_halved = false;
  Kept result;
  if (place) result.residual = entry->residual.get();
  if (place) result.usual = &entry->usual;
  if (wanted.state_count > 0 && !entry->state.values.empty()) result.state = &entry->state;
  const bool wants_memory = wanted.memory_count > 0;
  if (wants_memory && wanted.memory_count <= entry->kept.memory_count) {
    result.memory = entry->memory.get();
  }
  return result;
}

/// A call with a key is no part of the sequence of the others.
std::optional<KeptPlace> ErrorFeedback::place_of(const TensorCall& call, const TensorName& name) {
  if (name.is_key()) return named_place(name, call);
  const std::optional<KeptPlace> place = locate(call);
  return name.is_tag() && tags_.is_name(name, call, place) ? named_place(name, call) : place;
}

std::optional<KeptPlace> ErrorFeedback::locate(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(CallUser::kFeedback, call);
  const std::uint64_t number = calls_++;
  for (const std::uint64_t cycle : places.buffers.forgotten()) {
    tensors_.drop(CallsBy::kBuffer, cycle);
  }
  for (const std::uint64_t cycle : places.shapes.forgotten()) tensors_.drop(CallsBy::kShape, cycle);
  if (places.by_buffer) {
    // The same calls, which are now known better.
    tensors_.drop(CallsBy::kShape, places.shapes.cycle().id);
    keeps_buffers_ = true;
    calls_by_shape_ = 0;
    tensors_.follow(CallsBy::kBuffer, places.buffers, *places.by_buffer, number);
    const TensorPlace& tensor = places.buffers.cycle().tensors[*places.by_buffer];
    return KeptPlace{CallsBy::kBuffer, tensor.cycle, tensor.position};
  }
  if (!places.by_shape) calls_by_shape_ = 0;
  if (!places.by_shape || !may_go_by_shape(places)) return std::nullopt;
  tensors_.follow(CallsBy::kShape, places.shapes, *places.by_shape, number);
  return KeptPlace{CallsBy::kShape, places.shapes.cycle().id, *places.by_shape};
}

/// Whether a tensor is taken for the one that came at the same position, at whatever address.
/// Better no residual than another tensor's.
bool ErrorFeedback::may_go_by_shape(const CallPlaces& places) {
  // Without addresses, tensors of one shape in a row cannot be told apart.
  if (!places.shapes.cycle().has_landmark()) return false;
  // Where addresses begin to repeat, they will soon tell.
  if (places.buffers.repeating() >= places.shapes.cycle().period()) {
    keeps_buffers_ = true;
    calls_by_shape_ = 0;
  }
  ++calls_by_shape_;
  // Other addresses are mostly other tensors. A program that allocates anew goes on with them.
  const std::size_t proof =
      std::max(CycleRun::kProofPeriods * places.shapes.cycle().period(), CycleRun::kProofCalls);
  if (keeps_buffers_ && calls_by_shape_ <= proof) return false;
  keeps_buffers_ = false;
  return true;
}

void ErrorFeedback::save(StateWriter& to) const {
  to.put(keeps_buffers_);
  to.put<std::uint64_t>(calls_by_shape_);
  tags_.save(to);
  tensors_.save(to);
}

void ErrorFeedback::load(StateReader& from) {
  keeps_buffers_ = from.get<bool>();
  calls_by_shape_ = static_cast<std::size_t>(from.get<std::uint64_t>());
  tags_.load(from);
  tensors_.load(from);
}

void ErrorFeedback::forget_shapes() {
  tensors_.forget([](const KeptTensor& entry) { return entry.place.by == CallsBy::kShape; });
}

void ErrorFeedback::forget_projected() {
  tensors_.forget([](const KeptTensor& entry) {
    const bool has_state = entry.memory != nullptr || !entry.state.values.empty();
    return has_state || entry.kept.is_projected;
  });
}

void ErrorFeedback::adopt(ErrorFeedback&& other) {
  tags_ = std::exchange(other.tags_, {});
  tensors_ = KeptTensors(std::move(other.tensors_), memory_);
  calls_ = 0;
  keeps_buffers_ = other.keeps_buffers_;
  calls_by_shape_ = other.calls_by_shape_;
}

}  // namespace ringpress::nccl_plugin
