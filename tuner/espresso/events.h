// What happens in a step, one event after the other.
#ifndef TUNER_ESPRESSO_EVENTS_H_
#define TUNER_ESPRESSO_EVENTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "tuner/espresso/cost.h"

namespace ringpress::espresso {

/// What sums of times may be off by, as a part of the step; as many as there are tensors are less
/// than a gain.
inline constexpr double kRounding = 1e-11;

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr std::size_t kQueues = 3;  // Resources but kCompute.
inline constexpr std::size_t kWire = static_cast<std::size_t>(Resource::kWire);
inline constexpr std::size_t kGpu = static_cast<std::size_t>(Resource::kGpu);
inline constexpr std::size_t kCpu = static_cast<std::size_t>(Resource::kCpu);

struct Entry {
  const Task* task;
  std::size_t tensor;
  double begin;
};

/// All that was handed in to each resource, in order.
using Logs = std::array<std::vector<Entry>, kQueues>;

/// A state of the step. What resources do and what waits for them is in logs that go with it.
struct StepState {
  double now = 0;
  double compute_left = 0;     // Of the tensor `computing`.
  double compute_to_come = 0;  // Of those after it.
  std::size_t computing = 0;
  std::array<double, kQueues> ends;            // kNever: idle.
  std::array<double, kQueues> not_begun;       // Seconds of work.
  std::array<std::size_t, kQueues> begun;      // Entries of the log.
  std::array<std::size_t, kQueues> handed_in;  // Entries of the log.

  bool is_idle() const { return ends[0] == kNever && ends[1] == kNever && ends[2] == kNever; }
};

/// What does not change while a step goes on.
struct StepParts {
  const std::vector<double>& compute;  // Seconds of backward, one a tensor.
  const Chain* const* chains;
  /// From the end of the backward of the tensor before, at least so long to the end of the step;
  /// two more than there are tensors.
  const double* least_after;
};

/// One run through the events, from a state on.
class Runner {
 public:
  /// Gives up when the step is bound to take more than `limit`.
  Runner(const StepParts& parts, const StepState& state, Logs* logs, double limit)
      : chains_(parts.chains),
        compute_(parts.compute),
        least_after_(parts.least_after),
        state_(state),
        logs_{(*logs)[0].data(), (*logs)[1].data(), (*logs)[2].data()},
        limit_(limit) {}

  const StepState& state() const { return state_; }
  std::uint64_t events() const { return events_; }
  bool has_given_up() const { return at_least_ * (1 - kRounding) > limit_; }

  /// Goes on until the backward of a tensor has ended; false if there is none to come, and all is
  /// done.
  bool run_to_state() {
    while (!has_given_up()) {
      const bool computes = state_.computing < compute_.size() && state_.ends[kGpu] == kNever;
      double next = computes ? state_.now + state_.compute_left : kNever;
      std::size_t ending = kQueues;
      for (std::size_t resource = 0; resource < kQueues; ++resource) {
        if (state_.ends[resource] < next) {
          next = state_.ends[resource];
          ending = resource;
        }
      }
      if (next == kNever) return false;
      ++events_;
      if (computes) {
        state_.compute_left = std::max(0.0, state_.compute_left - (next - state_.now));
      }
      state_.now = next;
      if (ending == kQueues) return true;
      end_task(ending);
    }
    return false;
  }

  void leave_moment() {
    const std::size_t tensor = state_.computing++;
    const bool is_last = state_.computing == compute_.size();
    state_.compute_left = is_last ? 0 : compute_[state_.computing];
    state_.compute_to_come -= state_.compute_left;
    raise_bound(state_.now + least_after_[state_.computing]);
    hand_in(tensor, chains_[tensor]->tasks.data());
  }

 private:
  void end_task(std::size_t resource) {
    const Entry& ended = logs_[resource][state_.begun[resource] - 1];
    state_.ends[resource] = kNever;
    // What waits for the resource is before the tensor's next task.
    const bool waits = state_.begun[resource] < state_.handed_in[resource];
    if (waits) begin(resource);
    hand_in(ended.tensor, ended.task + 1);
  }

  void hand_in(std::size_t tensor, const Task* task) {
    if (task->resource == Resource::kCompute) return;
    const auto resource = static_cast<std::size_t>(task->resource);
    logs_[resource][state_.handed_in[resource]++] = {task, tensor, 0};
    if (state_.ends[resource] == kNever) begin(resource);
  }

  /// Each resource has to do all that it has not yet begun.
  void begin(std::size_t resource) {
    Entry& entry = logs_[resource][state_.begun[resource]++];
    entry.begin = state_.now;
    const double end = state_.now + entry.task->seconds;
    state_.ends[resource] = end;
    state_.not_begun[resource] -= entry.task->seconds;
    raise_bound(end + state_.not_begun[resource]);
    if (resource != kGpu) return;
    raise_bound(end + state_.not_begun[resource] + state_.compute_left + state_.compute_to_come);
    raise_bound(end + state_.compute_left + least_after_[state_.computing + 1]);
  }

  void raise_bound(double seconds) { at_least_ = std::max(at_least_, seconds); }

  const Chain* const* chains_;
  const std::vector<double>& compute_;
  const double* least_after_;
  StepState state_;
  Entry* logs_[kQueues];
  double limit_;
  double at_least_ = 0;  // The step takes at least so long.
  std::uint64_t events_ = 0;
};

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_EVENTS_H_
