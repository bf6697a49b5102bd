// The best plan of all, by trying every one of them: a second implementation of the timeline that
// shares nothing with the planner but what each piece of work takes.
#ifndef PERF_ESPRESSO_BRUTE_FORCE_H_
#define PERF_ESPRESSO_BRUTE_FORCE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tuner/espresso/cost.h"

namespace ringpress::perf {

/// Goes through backward, and where the gradient of a tensor is there, through every chain that the
/// tensor may take; what has happened until then is the same for all of them.
///
/// A branch is left only where a lane's work alone, with the least that tensors to come may add to
/// it, would not end before the shortest step found so far. No step of that branch is shorter.
class BruteForce {
 public:
  using Chains = std::vector<espresso::Chain>;

  /// `chains`: of each tensor, one or more.
  BruteForce(const espresso::Job& job, std::vector<Chains> chains) : chains_(std::move(chains)) {
    for (const espresso::Tensor& tensor : job.tensors) {
      backward_.push_back(tensor.backward_seconds);
    }
    least_.resize(backward_.size() + 1);
    for (std::size_t i = backward_.size(); i-- > 0;) least_[i] = least_from(i);
    begin_.now = job.forward_seconds;
    if (!backward_.empty()) begin_.backward_left = backward_[0];
  }

  /// The seconds of the shortest step.
  double run() {
    taken_.assign(backward_.size(), 0);
    visit(begin_, 0);
    return best_;
  }

  /// Of the shortest step: for each tensor, the index of the chain that it takes.
  const std::vector<std::size_t>& best() const { return best_taken_; }
  /// Steps that were gone through to their end.
  std::uint64_t steps() const { return steps_; }

  /// What the step takes with one chain a tensor.
  double seconds(const std::vector<std::size_t>& taken) {
    State state = begin_;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      run_until_gradient(&state, i);
      hand_in(&state, chains_[i][taken[i]].tasks.data());
    }
    run_until_gradient(&state, taken.size());
    return state.now;
  }

 private:
  static constexpr std::size_t kLanes = 3;  // Wire, GPU codecs, CPU codecs.
  static constexpr std::size_t kGpu = static_cast<std::size_t>(espresso::Resource::kGpu);
  static constexpr std::size_t kMostWaiting = 16;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// What is being done, and what waits for its turn.
  struct Queue {
    std::array<const espresso::Task*, kMostWaiting> tasks;
    std::size_t count = 0;  // The first is being done.
    double end = kNever;    // Of the first.

    double work(double now) const {
      double seconds = count > 0 ? end - now : 0;
      for (std::size_t i = 1; i < count; ++i) seconds += tasks[i]->seconds;
      return seconds;
    }
  };

  struct State {
    double now = 0;
    double backward_left = 0;  // Of the tensor whose gradient comes next.
    std::array<Queue, kLanes> lanes;
  };

  std::array<double, kLanes + 1> least_from(std::size_t tensor) const {
    std::array<double, kLanes + 1> least = least_[tensor + 1];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      double own = kNever;
      for (const espresso::Chain& chain : chains_[tensor]) own = std::min(own, chain.seconds[lane]);
      least[lane] += own;
    }
    least[kLanes] += backward_[tensor];
    return least;
  }

  static void hand_in(State* state, const espresso::Task* task) {
    if (task->resource == espresso::Resource::kCompute) return;  // Behind the last of a chain.
    Queue& queue = state->lanes[static_cast<std::size_t>(task->resource)];
    RINGPRESS_EXPECTS(queue.count < kMostWaiting, "too many tensors");
    queue.tasks[queue.count++] = task;
    if (queue.count == 1) queue.end = state->now + task->seconds;
  }

  /// The first in a lane has been done: the next one's turn comes, then its own next task is handed
  /// in.
  static void end_first(State* state, std::size_t lane) {
    Queue& queue = state->lanes[lane];
    const espresso::Task* const done = queue.tasks[0];
    std::move(queue.tasks.begin() + 1, queue.tasks.begin() + queue.count, queue.tasks.begin());
    --queue.count;
    queue.end = queue.count > 0 ? state->now + queue.tasks[0]->seconds : kNever;
    hand_in(state, done + 1);
  }

  /// Until backward of `tensor` ends, or, with none to come, until nothing is left to do. Backward
  /// stands still while a codec runs on the GPU.
  void run_until_gradient(State* state, std::size_t tensor) const {
    while (true) {
      const bool computes = tensor < backward_.size() && state->lanes[kGpu].count == 0;
      double next = computes ? state->now + state->backward_left : kNever;
      std::size_t ending = kLanes;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (state->lanes[lane].end >= next) continue;
        next = state->lanes[lane].end;
        ending = lane;
      }
      if (next == kNever) return;
      if (computes) {
        state->backward_left = std::max(0.0, state->backward_left - (next - state->now));
      }
      state->now = next;
      if (ending < kLanes) {
        end_first(state, ending);
        continue;
      }
      state->backward_left = tensor + 1 < backward_.size() ? backward_[tensor + 1] : 0;
      return;
    }
  }

  bool may_be_shorter(const State& state, std::size_t tensor) const {
    const auto& least = least_[tensor];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      double work = state.lanes[lane].work(state.now) + least[lane];
      // Backward and codecs share the GPU; backward of `tensor` is in `backward_left`.
      if (lane == kGpu && tensor < backward_.size()) {
        work += state.backward_left + least[kLanes] - backward_[tensor];
      }
      if (state.now + work >= best_) return false;
    }
    return true;
  }

  void visit(const State& before, std::size_t tensor) {
    State state = before;
    run_until_gradient(&state, tensor);
    if (tensor == backward_.size()) {
      ++steps_;
      if (state.now >= best_) return;
      best_ = state.now;
      best_taken_ = taken_;
      return;
    }
    for (std::size_t i = 0; i < chains_[tensor].size(); ++i) {
      State with = state;
      hand_in(&with, chains_[tensor][i].tasks.data());
      taken_[tensor] = i;
      if (may_be_shorter(with, tensor + 1)) visit(with, tensor + 1);
    }
  }

  std::vector<Chains> chains_;
  std::vector<double> backward_;
  std::vector<std::array<double, kLanes + 1>> least_;  // Of all tensors from one on.
  State begin_;
  std::vector<std::size_t> taken_, best_taken_;
  double best_ = kNever;
  std::uint64_t steps_ = 0;
};

/// Every option for every tensor, on the GPU and, if it compresses, on the CPU.
inline std::vector<espresso::Choice> all_choices(const espresso::Job& job,
                                                 const std::vector<espresso::Option>& options) {
  std::vector<espresso::Choice> all;
  for (std::size_t i = 0; i < options.size(); ++i) {
    all.push_back({i, espresso::Device::kGpu});
    if (job.compressor.cpu && options[i].compresses()) all.push_back({i, espresso::Device::kCpu});
  }
  return all;
}

/// The chains of all choices of each tensor.
inline std::vector<BruteForce::Chains> all_chains(const espresso::Job& job,
                                                  const std::vector<espresso::Option>& options) {
  std::vector<BruteForce::Chains> chains;
  for (const espresso::Tensor& tensor : job.tensors) {
    auto& own = chains.emplace_back();
    for (const espresso::Choice& choice : all_choices(job, options)) {
      own.push_back(espresso::price(options[choice.option], choice.device, tensor, job));
    }
  }
  return chains;
}

inline double best_of_all(const espresso::Job& job, const std::vector<espresso::Option>& options) {
  return BruteForce(job, all_chains(job, options)).run();
}

}  // namespace ringpress::perf

#endif  // PERF_ESPRESSO_BRUTE_FORCE_H_
