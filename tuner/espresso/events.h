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
inline constexpr std::size_t kQueues = 3;  // Lanes but kCompute.
inline constexpr std::size_t kWire = static_cast<std::size_t>(Lane::kWire);
inline constexpr std::size_t kGpu = static_cast<std::size_t>(Lane::kGpu);
inline constexpr std::size_t kCpu = static_cast<std::size_t>(Lane::kCpu);

struct Entry {
  const Task* task;
  std::size_t tensor;
  double begin;
};

/// All that was handed in to each lane, in order.
using Logs = std::array<std::vector<Entry>, kQueues>;

/// A moment of the step. What lanes do and what waits for them is in logs that go with it.
struct Moment {
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

/// One run through the events, from a moment on.
class Runner {
 public:
  /// Gives up when the step is bound to take more than `limit`.
  Runner(const StepParts& parts, const Moment& moment, Logs* logs, double limit)
      : chains_(parts.chains),
        compute_(parts.compute),
        least_after_(parts.least_after),
        moment_(moment),
        logs_{(*logs)[0].data(), (*logs)[1].data(), (*logs)[2].data()},
        limit_(limit) {}

  const Moment& moment() const { return moment_; }
  std::uint64_t events() const { return events_; }
  bool has_given_up() const { return at_least_ * (1 - kRounding) > limit_; }

  /// Goes on until the backward of a tensor has ended; false if there is none to come, and all is
  /// done.
  bool run_to_moment() {
    while (!has_given_up()) {
      const bool computes = moment_.computing < compute_.size() && moment_.ends[kGpu] == kNever;
      double next = computes ? moment_.now + moment_.compute_left : kNever;
      std::size_t ending = kQueues;
      for (std::size_t lane = 0; lane < kQueues; ++lane) {
        if (moment_.ends[lane] < next) {
          next = moment_.ends[lane];
          ending = lane;
        }
      }
      if (next == kNever) return false;
      ++events_;
      if (computes) {
        moment_.compute_left = std::max(0.0, moment_.compute_left - (next - moment_.now));
      }
      moment_.now = next;
      if (ending == kQueues) return true;
      end_task(ending);
    }
    return false;
  }

  void leave_moment() {
    const std::size_t tensor = moment_.computing++;
    const bool is_last = moment_.computing == compute_.size();
    moment_.compute_left = is_last ? 0 : compute_[moment_.computing];
    moment_.compute_to_come -= moment_.compute_left;
    raise_bound(moment_.now + least_after_[moment_.computing]);
    hand_in(tensor, chains_[tensor]->tasks.data());
  }

 private:
  void end_task(std::size_t lane) {
    const Entry& ended = logs_[lane][moment_.begun[lane] - 1];
    moment_.ends[lane] = kNever;
    // What waits for the lane is before the tensor's next task.
    const bool waits = moment_.begun[lane] < moment_.handed_in[lane];
    if (waits) begin(lane);
    hand_in(ended.tensor, ended.task + 1);
  }

  void hand_in(std::size_t tensor, const Task* task) {
    if (task->lane == Lane::kCompute) return;
    const auto lane = static_cast<std::size_t>(task->lane);
    logs_[lane][moment_.handed_in[lane]++] = {task, tensor, 0};
    if (moment_.ends[lane] == kNever) begin(lane);
  }

  /// Each lane has to do all that it has not yet begun.
  void begin(std::size_t lane) {
    Entry& entry = logs_[lane][moment_.begun[lane]++];
    entry.begin = moment_.now;
    const double end = moment_.now + entry.task->seconds;
    moment_.ends[lane] = end;
    moment_.not_begun[lane] -= entry.task->seconds;
    raise_bound(end + moment_.not_begun[lane]);
    if (lane != kGpu) return;
    raise_bound(end + moment_.not_begun[lane] + moment_.compute_left + moment_.compute_to_come);
    raise_bound(end + moment_.compute_left + least_after_[moment_.computing + 1]);
  }

  void raise_bound(double seconds) { at_least_ = std::max(at_least_, seconds); }

  const Chain* const* chains_;
  const std::vector<double>& compute_;
  const double* least_after_;
  Moment moment_;
  Entry* logs_[kQueues];
  double limit_;
  double at_least_ = 0;  // The step takes at least so long.
  std::uint64_t events_ = 0;
};

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_EVENTS_H_
