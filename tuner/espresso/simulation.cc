#include "tuner/espresso/simulation.h"

#include <algorithm>
#include <utility>

namespace ringpress::espresso {
namespace {

constexpr std::size_t kWire = static_cast<std::size_t>(Lane::kWire);
constexpr std::size_t kGpu = static_cast<std::size_t>(Lane::kGpu);

}  // namespace

/// One run through the events, from a state on.
class Simulation::Runner {
 public:
  /// Gives up when the step is bound to take more than `limit`.
  Runner(Simulation* simulation, const State& state, Logs* logs, double limit)
      : chains_(simulation->chains_.data()),
        compute_(simulation->compute_),
        least_after_(simulation->least_after_.data()),
        state_(state),
        logs_{(*logs)[0].data(), (*logs)[1].data(), (*logs)[2].data()},
        limit_(limit) {}

  State* state() { return &state_; }
  std::uint64_t events() const { return events_; }
  bool has_given_up() const { return at_least_ * (1 - kRounding) > limit_; }

  /// Goes on until the backward of a tensor has ended; false if there is none to come, and all is
  /// done.
  bool run_to_moment() {
    while (!has_given_up()) {
      const bool computes = state_.computing < compute_.size() && state_.ends[kGpu] == kNever;
      double next = computes ? state_.now + state_.compute_left : kNever;
      std::size_t ending = kQueues;
      for (std::size_t lane = 0; lane < kQueues; ++lane) {
        if (state_.ends[lane] < next) {
          next = state_.ends[lane];
          ending = lane;
        }
      }
      if (next == kNever) return false;
      ++events_;
      if (computes) state_.compute_left = std::max(0.0, state_.compute_left - (next - state_.now));
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
  void end_task(std::size_t lane) {
    const Entry& ended = logs_[lane][state_.begun[lane] - 1];
    state_.ends[lane] = kNever;
    // What waits for the lane is before the tensor's next task.
    const bool waits = state_.begun[lane] < state_.handed_in[lane];
    if (waits) begin(lane);
    hand_in(ended.tensor, ended.task + 1);
  }

  void hand_in(std::size_t tensor, const Task* task) {
    if (task->lane == Lane::kCompute) return;
    const auto lane = static_cast<std::size_t>(task->lane);
    logs_[lane][state_.handed_in[lane]++] = {task, tensor, 0};
    if (state_.ends[lane] == kNever) begin(lane);
  }

  /// Each lane has to do all that it has not yet begun.
  void begin(std::size_t lane) {
    Entry& entry = logs_[lane][state_.begun[lane]++];
    entry.begin = state_.now;
    const double end = state_.now + entry.task->seconds;
    state_.ends[lane] = end;
    state_.not_begun[lane] -= entry.task->seconds;
    raise_bound(end + state_.not_begun[lane]);
    if (lane != kGpu) return;
    raise_bound(end + state_.not_begun[lane] + state_.compute_left + state_.compute_to_come);
    raise_bound(end + state_.compute_left + least_after_[state_.computing + 1]);
  }

  void raise_bound(double seconds) { at_least_ = std::max(at_least_, seconds); }

  const Chain* const* chains_;
  const std::vector<double>& compute_;
  const double* least_after_;
  State state_;
  Entry* logs_[kQueues];
  double limit_;
  double at_least_ = 0;  // The step takes at least so long.
  std::uint64_t events_ = 0;
};

Simulation::Simulation(std::vector<double> compute_seconds, double begin_seconds)
    : compute_(std::move(compute_seconds)),
      begin_(begin_seconds),
      moments_(compute_.size()),
      least_after_(compute_.size() + 2, 0),
      least_wire_after_(compute_.size() + 1, 0),
      wire_after_(compute_.size() + 1, 0) {}

double Simulation::set(std::vector<const Chain*> chains) {
  RINGPRESS_EXPECTS(chains.size() == compute_.size(), "one chain a tensor");
  chains_ = std::move(chains);
  tasks_ = 0;
  for (const Chain* chain : chains_) tasks_ += chain->tasks.size();
  for (auto& log : logs_) log.resize(std::max(log.size(), tasks_));
  if (!chains_.empty()) find_least_after(chains_.size() - 1);
  Runner runner(this, beginning(), &logs_, kNever);
  while (runner.run_to_moment()) {
    moments_[runner.state()->computing] = *runner.state();
    runner.leave_moment();
  }
  events_ += runner.events();
  return seconds_ = runner.state()->now;
}

double Simulation::set(std::size_t tensor, const Chain* chain) {
  const Chain& old = *chains_[tensor];
  tasks_ += chain->tasks.size() - old.tasks.size();
  for (auto& log : logs_) log.resize(std::max(log.size(), tasks_));
  for (std::size_t i = 0; i <= tensor; ++i) {
    for (std::size_t lane = 0; lane < kQueues; ++lane) {
      moments_[i].not_begun[lane] += chain->seconds[lane] - old.seconds[lane];
    }
  }
  chains_[tensor] = chain;
  find_least_after(tensor);
  Runner runner(this, moments_[tensor], &logs_, kNever);
  runner.leave_moment();
  while (runner.run_to_moment()) {
    moments_[runner.state()->computing] = *runner.state();
    runner.leave_moment();
  }
  events_ += runner.events();
  return seconds_ = runner.state()->now;
}

double Simulation::attempt(std::size_t tensor, const Chain* chain, double limit) {
  const Chain* const old = std::exchange(chains_[tensor], chain);
  State state = moments_[tensor];
  for (std::size_t lane = 0; lane < kQueues; ++lane) {
    state.not_begun[lane] += chain->seconds[lane] - old->seconds[lane];
    auto& log = attempt_logs_[lane];
    log.resize(std::max(log.size(), logs_[lane].size() + chain->tasks.size()));
    // What waits, and what is under way.
    const std::size_t from = state.begun[lane] > 0 ? state.begun[lane] - 1 : 0;
    std::copy(&logs_[lane][from], &logs_[lane][0] + state.handed_in[lane], &log[from]);
  }
  Runner runner(this, state, &attempt_logs_, limit);
  runner.leave_moment();
  double later = kNever;  // Than without the change.
  while (later == kNever && runner.run_to_moment()) {
    const State& before = moments_[runner.state()->computing];
    if (runner.state()->is_idle() && before.is_idle()) {
      later = runner.state()->now - before.now;
    } else {
      runner.leave_moment();
    }
  }
  events_ += runner.events();
  chains_[tensor] = old;
  if (runner.has_given_up()) return kNever;
  const double seconds = later == kNever ? runner.state()->now : seconds_ + later;
  return seconds > limit ? kNever : seconds;
}

Simulation::State Simulation::beginning() const {
  State state;
  state.now = begin_;
  state.ends.fill(kNever);
  state.not_begun.fill(0);
  state.begun.fill(0);
  state.handed_in.fill(0);
  for (const Chain* chain : chains_) {
    for (std::size_t lane = 0; lane < kQueues; ++lane) {
      state.not_begun[lane] += chain->seconds[lane];
    }
  }
  for (std::size_t i = 1; i < compute_.size(); ++i) state.compute_to_come += compute_[i];
  if (!compute_.empty()) state.compute_left = compute_[0];
  return state;
}

/// Backward goes on, and the wire has to carry what comes of it. Up to the tensor `last`.
void Simulation::find_least_after(std::size_t last) {
  for (std::size_t i = last + 1; i-- > 0;) {
    wire_after_[i] = wire_after_[i + 1] + chains_[i]->seconds[kWire];
    const double wire = wire_after_[i];
    least_after_[i] = compute_[i] + std::max({wire, chains_[i]->total(), least_after_[i + 1]});
    least_wire_after_[i] = compute_[i] + std::max(wire, least_wire_after_[i + 1]);
  }
}

double Simulation::at_least_from(std::size_t tensor) const {
  const State& state = moments_[tensor];
  const double wire_ends = state.ends[kWire] == kNever ? state.now : state.ends[kWire];
  return (1 - kRounding) * std::max(state.now + least_wire_after_[tensor] - compute_[tensor],
                                    wire_ends + state.not_begun[kWire]);
}

std::vector<bool> Simulation::before_a_bubble() const {
  const std::vector<Entry>& log = logs_[kWire];
  std::size_t sends = 0;
  for (const Chain* chain : chains_) {
    for (const Task& task : chain->tasks) sends += task.lane == Lane::kWire ? 1 : 0;
  }
  std::vector<std::size_t> last_send(compute_.size(), 0);
  for (std::size_t i = 0; i < sends; ++i) last_send[log[i].tensor] = i;
  std::size_t open_until = 0;  // The last send of those tensors that have sent.
  std::size_t after = 0;       // The first send after the last bubble.
  for (std::size_t i = 1; i < sends; ++i) {
    open_until = std::max(open_until, last_send[log[i - 1].tensor]);
    const double end = log[i - 1].begin + log[i - 1].task->seconds;
    if (open_until < i && log[i].begin > end + kRounding * seconds_) after = i;
  }
  std::vector<bool> before(compute_.size(), false);
  for (std::size_t i = 0; i < after; ++i) before[log[i].tensor] = true;
  return before;
}

std::vector<Box> Simulation::boxes() const {
  std::vector<Box> all;
  std::vector<Box> stops;  // Of backward, by codecs on the GPU.
  std::array<std::size_t, kLaneCount> counts = {};
  for (const Chain* chain : chains_) {
    for (const Task& task : chain->tasks) ++counts[static_cast<std::size_t>(task.lane)];
  }
  for (std::size_t lane = 0; lane < kQueues; ++lane) {
    for (std::size_t i = 0; i < counts[lane]; ++i) {
      const Entry& entry = logs_[lane][i];
      all.push_back({entry.task->lane, entry.tensor, entry.task->step, entry.begin,
                     entry.begin + entry.task->seconds});
      if (lane == kGpu) stops.push_back(all.back());
    }
  }
  double from = begin_;
  auto stop = stops.begin();
  for (std::size_t tensor = 0; tensor < compute_.size(); ++tensor) {
    const double end = moments_[tensor].now;
    for (; stop != stops.end() && stop->begin_seconds < end; ++stop) {
      if (stop->begin_seconds > from) {
        all.push_back({Lane::kCompute, tensor, 0, from, stop->begin_seconds});
      }
      from = stop->end_seconds;
    }
    if (end > from) all.push_back({Lane::kCompute, tensor, 0, from, end});
    from = std::max(from, end);
  }
  return all;
}

}  // namespace ringpress::espresso
