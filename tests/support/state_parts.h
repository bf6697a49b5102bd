// What a communicator keeps of tensors, and a program's calls that it is kept of: for tests that
// save it, change bytes and load it.
#ifndef TESTS_SUPPORT_STATE_PARTS_H_
#define TESTS_SUPPORT_STATE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <vector>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/calls/error_feedback.h"
#include "nccl_plugin/session/calls/error_guard.h"
#include "nccl_plugin/session/calls/recurrences.h"
#include "nccl_plugin/session/calls/slice_turns.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::testing {

/// What came of a call: where it stands, and what is kept of it.
struct PlaceInState {
  std::optional<std::size_t> by_buffer, by_shape;
  std::optional<float> residual;
  float state = -1;
  std::uint64_t recurrences = 0;
  std::uint64_t turn = 0;

  bool operator==(const PlaceInState&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const PlaceInState& place) {
    const auto number = [](const auto& from) { return from ? static_cast<double>(*from) : -1; };
    return out << "at " << number(place.by_buffer) << " and " << number(place.by_shape)
               << ", residual " << number(place.residual) << ", state " << place.state << ", "
               << place.recurrences << " times, turn " << place.turn;
  }
};

class StateParts {
 public:
  /// `number`: of the program's calls, which is what it leaves in its residual.
  PlaceInState call(const nccl_plugin::TensorCall& call, float number) {
    using nccl_plugin::CallUser;
    calls_->begin_call();
    calls_->tell(call, {CallUser::kFeedback, CallUser::kLevels, CallUser::kScales});
    PlaceInState place;
    const nccl_plugin::Kept kept = feedback_.find(call, {true, 2, 0});
    const nccl_plugin::CallPlaces places = calls_->ask(CallUser::kLevels, call);
    place.by_buffer = places.by_buffer;
    place.by_shape = places.by_shape;
    if (kept.residual != nullptr && call.count > 0) {
      place.residual = kept.residual[call.count - 1];
      kept.residual[call.count - 1] = number;
    }
    if (kept.state != nullptr) {
      place.state = kept.state->values[1];
      kept.state->values[1] = number;
    }
    PlanRequest request;
    request.count = call.count;
    request.world = 2;
    place.recurrences = recurrences_.count(request);
    place.turn = turns_.next(call, 4).turn;
    learn_scales(call, number);
    guard_.codec_for(call, "q4");
    guard_.is_due(call);
    return place;
  }

  std::vector<std::byte> save() const {
    nccl_plugin::StateBytes to;
    recurrences_.save(to);
    turns_.save(to);
    calls_->save_shapes(to);
    calls_->save_buffers(to);
    feedback_.save(to);
    scales_.save(to);
    guard_.save(to);
    return to.bytes();
  }
  /// For one that has made no calls. False: it is not to be used.
  bool load(std::span<const std::byte> bytes) {
    nccl_plugin::StateView from(bytes);
    recurrences_.load(from);
    turns_.load(from);
    calls_->load_shapes(from);
    calls_->load_buffers(from, nccl_plugin::StateFrom::kAnother);
    if (from.is_ok()) feedback_.load(from);
    if (from.is_ok()) scales_.load(from);
    if (from.is_ok()) guard_.load(from);
    return from.is_ok() && from.left() == 0;
  }
  std::size_t residual_bytes() const { return feedback_.bytes(); }

 private:
  void learn_scales(const nccl_plugin::TensorCall& call, float number) {
    std::vector<float> result(call.count, number);
    nccl_plugin::CoordinateScales::learn(scales_.choose(call, 128), result.data());
  }

  const std::shared_ptr<nccl_plugin::CallSequence> calls_ =
      std::make_shared<nccl_plugin::CallSequence>();
  nccl_plugin::ErrorFeedback feedback_{0, nccl_plugin::host_residual_memory(), calls_};
  nccl_plugin::CoordinateScales scales_{calls_, 0};
  nccl_plugin::ErrorGuard guard_{0.5};
  nccl_plugin::Recurrences recurrences_;
  nccl_plugin::SliceTurns turns_{calls_};
};

inline nccl_plugin::TensorCall call_in_state(std::size_t count, std::uintptr_t address) {
  nccl_plugin::TensorCall call;
  call.count = count;
  call.address = reinterpret_cast<const void*>(address);
  return call;
}

/// Steps of three calls, with a stray in every third of them.
inline void make_state_steps(StateParts* parts, int steps, std::uintptr_t memory) {
  float number = 1;
  for (int step = 0; step < steps; ++step) {
    parts->call(call_in_state(40, memory), number++);
    parts->call(call_in_state(60, memory + 1000), number++);
    if (step % 3 == 2) parts->call(call_in_state(3, memory + 7000), number++);
    parts->call(call_in_state(40, memory + 2000), number++);
  }
}

/// Loads bytes, which may be anybody's; what they are taken for must be of use.
inline void load_state_bytes(std::span<const std::byte> bytes) {
  StateParts parts;
  if (!parts.load(bytes)) return;
  make_state_steps(&parts, 6, 100000);
  make_state_steps(&parts, 6, 900000);
  StateParts again;
  if (!again.load(parts.save())) throw std::logic_error("what was loaded is not loaded again");
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_STATE_PARTS_H_
