#include "nccl_plugin/session/calls/slice_turns.h"

#include <algorithm>
#include <numeric>

#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {
namespace {

std::uint64_t number_of_shape(const TensorCall& call) {
  const auto what = static_cast<std::uint64_t>(call.kind) << 16 |
                    static_cast<std::uint64_t>(call.dtype) << 8 |
                    static_cast<std::uint64_t>(call.op);
  return combine_hash(what, call.count);
}

// Of a state that was loaded: no step has more calls of a shape, and no tensor more parts.
constexpr std::uint64_t kMostInStep = SequenceFromStart::kMostCalls;
constexpr std::uint64_t kLongestCycle = std::uint64_t{1} << 40;

/// While it is not known how many tensors take turns: one more turn in the second cycle of two, if
/// two tensors would take other parts each else, and where two cycles begin is spread evenly.
std::uint64_t usual_shift(std::uint64_t call, std::size_t cycle) {
  const std::uint64_t pair = call / (2 * cycle), of_pair = call % (2 * cycle);
  const std::uint64_t begin = (pair * 0x9E3779B97F4A7C15U >> 32) % cycle;
  return begin + (of_pair >= cycle && cycle % 2 == 0 ? 1 : 0);
}

}  // namespace

void SequenceFromStart::add(std::uint64_t call) {
  if (calls_.size() == kMostCalls) {
    *this = SequenceFromStart();
    is_too_long_ = true;
  }
  if (is_too_long_) return;
  if (calls_.capacity() == 0) {
    // At once: calls allocate nothing later on.
    calls_.reserve(kMostCalls);
    borders_.reserve(kMostCalls);
  }
  std::size_t border = borders_.empty() ? 0 : borders_.back();
  while (border > 0 && calls_[border] != call) border = borders_[border - 1];
  if (!calls_.empty() && calls_[border] == call) ++border;
  calls_.push_back(call);
  borders_.push_back(border);
}

std::size_t SequenceFromStart::period() const {
  if (borders_.empty() || borders_.back() == 0) return 0;
  return calls_.size() - borders_.back();
}

void SequenceFromStart::save(StateWriter& to) const {
  to.put_list(calls_);
  to.put(is_too_long_);
}

void SequenceFromStart::load(StateReader& from) {
  *this = SequenceFromStart();
  for (const std::uint64_t call : from.get_list<std::uint64_t>(kMostCalls)) add(call);
  is_too_long_ = from.get<bool>();
}

SliceTurn SliceTurns::next(const TensorCall& call, std::size_t cycle) {
  if (cycle == 1) return {0, true};
  const std::uint64_t number = number_of_shape(call);
  learn(call, number);
  if (seen_.known.size() == kMostShapes && seen_.known.count(number) == 0) seen_.known.clear();
  Shape& shape = seen_.known[number];
  if (shape.cycle != cycle) shape = Shape{0, 0, cycle};
  go_on(number, &shape);
  // Two buffers by turns may as well be one tensor's, and for that two turns do.
  const std::size_t buffers = seen_.buffers.period();
  const bool are_told_apart = buffers == 0 || buffers > 2;
  return {shape.calls++ + shape.shift, seen_.in_step.empty() && are_told_apart};
}

/// Begins another cycle of the shape, if one is over.
void SliceTurns::go_on(std::uint64_t number, Shape* shape) const {
  const std::size_t cycle = shape->cycle;
  if (shape->calls == 0 || shape->calls % cycle != 0) return;
  const auto known = seen_.in_step.find(number);
  if (known == seen_.in_step.end()) {
    shape->shift += cycle + usual_shift(shape->calls, cycle) - usual_shift(shape->calls - 1, cycle);
    return;
  }
  const std::size_t tensors = std::max<std::size_t>(2, known->second);  // It may be two of one.
  const bool is_shared = std::gcd(cycle, tensors) > 1;
  if (is_shared && shape->calls % std::lcm(cycle, tensors) == 0) ++shape->shift;
}

void SliceTurns::learn(const TensorCall& call, std::uint64_t shape) {
  const CallPlaces places = sequence_->ask(CallUser::kSlices, call);
  const CallCycle& cycle = places.shapes.cycle();
  if (places.by_shape && cycle.is_proven && cycle.has_landmark()) {
    seen_.is_proven = true;
    if (cycle.id == seen_.cycle_id) return;
    seen_.cycle_id = cycle.id;
    Counts step;
    for (const TensorCall& of_step : cycle.calls) ++step[number_of_shape(of_step)];
    return learn_step(step);
  }
  if (seen_.is_proven) return;
  seen_.shapes.add(shape);
  seen_.buffers.add(combine_hash(shape, reinterpret_cast<std::uintptr_t>(call.address)));
  const std::size_t period = seen_.shapes.period();
  if (period == seen_.period) return;
  seen_.period = period;
  if (period == 0) return;
  Counts step;
  for (std::size_t i = seen_.shapes.size() - period; i < seen_.shapes.size(); ++i)
    ++step[seen_.shapes[i]];
  if (step.size() > 1) learn_step(step);
}

/// A longer sequence may be that of several steps, with calls of other shapes between them: the
/// step is what it was.
void SliceTurns::learn_step(const Counts& step) {
  std::size_t times = 0;
  const bool is_repeated =
      std::all_of(seen_.in_step.begin(), seen_.in_step.end(), [&](const auto& known) {
        const auto now = step.find(known.first);
        if (now == step.end() || now->second % known.second != 0) return false;
        if (times == 0) times = now->second / known.second;
        return times == now->second / known.second;
      });
  const bool has_others = step.size() > seen_.in_step.size();
  if (seen_.in_step.empty() || !is_repeated || !has_others || times < 2) seen_.in_step = step;
}

void SliceTurns::save(StateWriter& to) const {
  to.put(seen_.cycle_id);
  to.put(seen_.is_proven);
  seen_.shapes.save(to);
  to.put<std::uint64_t>(seen_.period);
  to.put<std::uint64_t>(seen_.in_step.size());
  for (const auto& [shape, times] : seen_.in_step) {
    to.put(shape);
    to.put<std::uint64_t>(times);
  }
  to.put<std::uint64_t>(seen_.known.size());
  for (const auto& [number, shape] : seen_.known) {
    for (const std::uint64_t field : {number, shape.calls, shape.shift}) to.put(field);
    to.put<std::uint64_t>(shape.cycle);
  }
}

void SliceTurns::load(StateReader& from) {
  seen_ = {};
  seen_.cycle_id = from.get<std::uint64_t>();
  seen_.is_proven = from.get<bool>();
  seen_.shapes.load(from);
  seen_.period = static_cast<std::size_t>(from.get<std::uint64_t>());
  const std::size_t in_step = from.get_count(2 * sizeof(std::uint64_t), kMostInStep);
  for (std::size_t i = 0; i < in_step; ++i) {
    const auto shape = from.get<std::uint64_t>();
    seen_.in_step[shape] = static_cast<std::size_t>(from.get<std::uint64_t>());
    from.require(seen_.in_step[shape] - 1 < kMostInStep);
  }
  const std::size_t known = from.get_count(4 * sizeof(std::uint64_t), kMostShapes);
  for (std::size_t i = 0; i < known; ++i) {
    Shape& shape = seen_.known[from.get<std::uint64_t>()];
    shape.calls = from.get<std::uint64_t>();
    shape.shift = from.get<std::uint64_t>();
    shape.cycle = static_cast<std::size_t>(from.get<std::uint64_t>());
    from.require(shape.cycle - 1 < kLongestCycle);
  }
  if (!from.is_ok()) seen_ = {};
}

void SliceTurns::adopt(SliceTurns&& other) {
  seen_ = std::move(other.seen_);
}

}  // namespace ringpress::nccl_plugin
