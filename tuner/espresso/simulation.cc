#include "tuner/espresso/simulation.h"

#include <algorithm>
#include <utility>

namespace ringpress::espresso {
namespace {

constexpr std::size_t kWire = static_cast<std::size_t>(Lane::kWire);
constexpr std::size_t kGpu = static_cast<std::size_t>(Lane::kGpu);
/// What sums of times may be off by, as a part of the step.
constexpr double kRounding = 1e-11;

}  // namespace

Simulation::Simulation(std::vector<double> compute_seconds, double begin_seconds)
    : compute_(std::move(compute_seconds)), begin_(begin_seconds), moments_(compute_.size()) {}

double Simulation::set(std::vector<const Chain*> chains) {
  RINGPRESS_EXPECTS(chains.size() == compute_.size(), "one chain a tensor");
  chains_ = std::move(chains);
  tasks_ = 0;
  for (const Chain* chain : chains_) tasks_ += chain->tasks.size();
  for (auto& log : logs_) log.resize(tasks_);
  seconds_ = run(beginning(), &logs_, kNever, true);
  return seconds_;
}

double Simulation::set(std::size_t tensor, const Chain* chain) {
  const Chain& old = *chains_[tensor];
  tasks_ += chain->tasks.size() - old.tasks.size();
  for (auto& log : logs_) log.resize(std::max(log.size(), tasks_));
  for (std::size_t i = 0; i <= tensor; ++i) {
    for (std::size_t lane = 0; lane < kCodecLanes; ++lane) {
      moments_[i].not_begun[lane] += chain->seconds[lane] - old.seconds[lane];
    }
  }
  chains_[tensor] = chain;
  State state = moments_[tensor];
  end_compute(&state, &logs_);
  seconds_ = run(state, &logs_, kNever, true);
  return seconds_;
}

double Simulation::attempt(std::size_t tensor, const Chain* chain, double limit) {
  const Chain* const old = std::exchange(chains_[tensor], chain);
  State state = moments_[tensor];
  for (std::size_t lane = 0; lane < kCodecLanes; ++lane) {
    state.not_begun[lane] += chain->seconds[lane] - old->seconds[lane];
    auto& log = attempt_logs_[lane];
    log.resize(std::max(log.size(), logs_[lane].size() + chain->tasks.size()));
    // What waits, and what is under way.
    const std::uint32_t from = state.begun[lane] > 0 ? state.begun[lane] - 1 : 0;
    std::copy(logs_[lane].begin() + from, logs_[lane].begin() + state.handed_in[lane],
              log.begin() + from);
  }
  end_compute(&state, &attempt_logs_);
  const double seconds = run(state, &attempt_logs_, limit, false);
  chains_[tensor] = old;
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
    for (std::size_t lane = 0; lane < kCodecLanes; ++lane) {
      state.not_begun[lane] += chain->seconds[lane];
    }
  }
  for (std::size_t i = 1; i < compute_.size(); ++i) state.compute_to_come += compute_[i];
  if (!compute_.empty()) state.compute_left = compute_[0];
  return state;
}

double Simulation::run(State state, Logs* logs, double limit, bool keep) {
  for (;;) {
    if (!begin_tasks(&state, logs, limit)) return kNever;
    const bool computes = state.computing < compute_.size() && state.ends[kGpu] == kNever;
    double next = computes ? state.now + state.compute_left : kNever;
    std::size_t ending = kCodecLanes;
    for (std::size_t lane = 0; lane < kCodecLanes; ++lane) {
      if (state.ends[lane] < next) {
        next = state.ends[lane];
        ending = lane;
      }
    }
    if (next == kNever) return state.now;
    ++events_;
    if (computes) state.compute_left = std::max(0.0, state.compute_left - (next - state.now));
    state.now = next;
    if (ending < kCodecLanes) {
      end_task(&state, logs, ending);
    } else {
      if (keep) moments_[state.computing] = state;
      end_compute(&state, logs);
    }
  }
}

/// False if the step is bound to take more than `limit`: each lane has to do all that it has not yet
/// begun.
bool Simulation::begin_tasks(State* state, Logs* logs, double limit) const {
  for (std::size_t lane = 0; lane < kCodecLanes; ++lane) {
    if (state->ends[lane] != kNever || state->begun[lane] == state->handed_in[lane]) continue;
    Entry& entry = (*logs)[lane][state->begun[lane]++];
    const double seconds = chains_[entry.tensor]->tasks[entry.task].seconds;
    entry.begin = state->now;
    entry.end = state->now + seconds;
    state->ends[lane] = entry.end;
    state->not_begun[lane] -= seconds;
    double at_least = entry.end + state->not_begun[lane];
    if (lane == kGpu) at_least += state->compute_left + state->compute_to_come;
    if (at_least * (1 - kRounding) > limit) return false;
  }
  return true;
}

void Simulation::hand_in(State* state, Logs* logs, std::uint32_t tensor, std::uint32_t task) const {
  const std::vector<Task>& tasks = chains_[tensor]->tasks;
  if (task >= tasks.size()) return;
  const auto lane = static_cast<std::size_t>(tasks[task].lane);
  (*logs)[lane][state->handed_in[lane]++] = {tensor, task, 0, 0};
}

void Simulation::end_compute(State* state, Logs* logs) const {
  hand_in(state, logs, static_cast<std::uint32_t>(state->computing), 0);
  state->compute_left = 0;
  if (++state->computing == compute_.size()) return;
  state->compute_left = compute_[state->computing];
  state->compute_to_come -= state->compute_left;
}

void Simulation::end_task(State* state, Logs* logs, std::size_t lane) const {
  const Entry ended = (*logs)[lane][state->begun[lane] - 1];
  state->ends[lane] = kNever;
  hand_in(state, logs, ended.tensor, ended.task + 1);
}

std::vector<bool> Simulation::before_a_bubble() const {
  std::vector<bool> before(compute_.size(), false);
  const std::vector<Entry>& log = logs_[kWire];
  std::size_t sends = 0;
  for (const Chain* chain : chains_) {
    for (const Task& task : chain->tasks) sends += task.lane == Lane::kWire ? 1 : 0;
  }
  std::size_t last = 0;  // The first task after the last bubble.
  for (std::size_t i = 1; i < sends; ++i) {
    if (log[i].begin > log[i - 1].end + kRounding * seconds_) last = i;
  }
  for (std::size_t i = 0; i < last; ++i) before[log[i].tensor] = true;
  return before;
}

std::vector<Box> Simulation::boxes() const {
  std::vector<Box> all;
  std::array<std::size_t, kCodecLanes> counts = {};
  for (const Chain* chain : chains_) {
    for (const Task& task : chain->tasks) ++counts[static_cast<std::size_t>(task.lane)];
  }
  for (std::size_t lane = 0; lane < kCodecLanes; ++lane) {
    for (std::size_t i = 0; i < counts[lane]; ++i) {
      const Entry& entry = logs_[lane][i];
      const std::size_t step = chains_[entry.tensor]->tasks[entry.task].step;
      all.push_back({static_cast<Lane>(lane), entry.tensor, step, entry.begin, entry.end});
    }
  }
  // Backward runs wherever no codec runs on the GPU.
  double from = begin_;
  std::size_t codec = 0;
  for (std::size_t tensor = 0; tensor < compute_.size(); ++tensor) {
    const double end = moments_[tensor].now;
    for (; codec < counts[kGpu] && logs_[kGpu][codec].begin < end; ++codec) {
      const Entry& stop = logs_[kGpu][codec];
      if (stop.begin > from) all.push_back({Lane::kCompute, tensor, 0, from, stop.begin});
      from = stop.end;
    }
    if (end > from) all.push_back({Lane::kCompute, tensor, 0, from, end});
    from = std::max(from, end);
  }
  return all;
}

}  // namespace ringpress::espresso
