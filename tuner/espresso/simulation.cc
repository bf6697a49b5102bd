#include "tuner/espresso/simulation.h"

#include <algorithm>
#include <utility>

namespace ringpress::espresso {

/// Backward goes on, and the wire has to carry what comes of it.
void LeastTimeLeft::find(const std::vector<double>& compute,
                         const std::vector<const Chain*>& chains, std::size_t last) {
  for (std::size_t i = last + 1; i-- > 0;) {
    wire_work_[i] = wire_work_[i + 1] + chains[i]->seconds[kWire];
    const double wire = wire_work_[i];
    seconds_[i] = compute[i] + std::max({wire, chains[i]->total(), seconds_[i + 1]});
    of_wire_[i] = compute[i] + std::max(wire, of_wire_[i + 1]);
  }
}

Simulation::Simulation(std::vector<double> compute_seconds, double begin_seconds)
    : compute_(std::move(compute_seconds)),
      begin_(begin_seconds),
      states_(compute_.size()),
      least_left_(compute_.size()) {}

double Simulation::set(std::vector<const Chain*> chains) {
  RINGPRESS_EXPECTS(chains.size() == compute_.size(), "one chain a tensor");
  chains_ = std::move(chains);
  tasks_ = 0;
  for (const Chain* chain : chains_) tasks_ += chain->tasks.size();
  for (auto& log : logs_) log.resize(std::max(log.size(), tasks_));
  if (!chains_.empty()) least_left_.find(compute_, chains_, chains_.size() - 1);
  Runner runner(parts(), beginning(), &logs_, kNever);
  while (runner.run_to_state()) {
    states_[runner.state().computing] = runner.state();
    runner.leave_moment();
  }
  events_ += runner.events();
  return seconds_ = runner.state().now;
}

double Simulation::set(std::size_t tensor, const Chain* chain) {
  const Chain& old = *chains_[tensor];
  tasks_ += chain->tasks.size() - old.tasks.size();
  for (auto& log : logs_) log.resize(std::max(log.size(), tasks_));
  for (std::size_t i = 0; i <= tensor; ++i) {
    for (std::size_t resource = 0; resource < kQueues; ++resource) {
      states_[i].not_begun[resource] += chain->seconds[resource] - old.seconds[resource];
    }
  }
  chains_[tensor] = chain;
  least_left_.find(compute_, chains_, tensor);
  Runner runner(parts(), states_[tensor], &logs_, kNever);
  runner.leave_moment();
  while (runner.run_to_state()) {
    states_[runner.state().computing] = runner.state();
    runner.leave_moment();
  }
  events_ += runner.events();
  return seconds_ = runner.state().now;
}

double Simulation::attempt(std::size_t tensor, const Chain* chain, double limit) {
  const Chain* const old = std::exchange(chains_[tensor], chain);
  StepState state = states_[tensor];
  for (std::size_t resource = 0; resource < kQueues; ++resource) {
    state.not_begun[resource] += chain->seconds[resource] - old->seconds[resource];
  }
  copy_logs(state, chain->tasks.size(), &attempt_logs_);
  Runner runner(parts(), state, &attempt_logs_, limit);
  runner.leave_moment();
  const double seconds = run_to_end(&runner);
  events_ += runner.events();
  chains_[tensor] = old;
  return seconds > limit ? kNever : seconds;
}

double Simulation::run_to_end(Runner* runner) const {
  while (runner->run_to_state()) {
    const StepState& before = states_[runner->state().computing];
    if (runner->state().is_idle() && before.is_idle()) {
      return seconds_ + (runner->state().now - before.now);
    }
    runner->leave_moment();
  }
  return runner->has_given_up() ? kNever : runner->state().now;
}

void Simulation::copy_logs(const StepState& state, std::size_t spare, Logs* logs) const {
  for (std::size_t resource = 0; resource < kQueues; ++resource) {
    auto& log = (*logs)[resource];
    log.resize(std::max(log.size(), logs_[resource].size() + spare));
    const std::size_t from = state.begun[resource] > 0 ? state.begun[resource] - 1 : 0;
    std::copy(&logs_[resource][from], &logs_[resource][0] + state.handed_in[resource], &log[from]);
  }
}

StepState Simulation::beginning() const {
  StepState state;
  state.now = begin_;
  state.ends.fill(kNever);
  state.not_begun.fill(0);
  state.begun.fill(0);
  state.handed_in.fill(0);
  for (const Chain* chain : chains_) {
    for (std::size_t resource = 0; resource < kQueues; ++resource) {
      state.not_begun[resource] += chain->seconds[resource];
    }
  }
  for (std::size_t i = 1; i < compute_.size(); ++i) state.compute_to_come += compute_[i];
  if (!compute_.empty()) state.compute_left = compute_[0];
  return state;
}

double Simulation::at_least_from(std::size_t tensor) const {
  const StepState& state = states_[tensor];
  const double wire_ends = state.ends[kWire] == kNever ? state.now : state.ends[kWire];
  return (1 - kRounding) * std::max(state.now + least_left_.of_wire(tensor) - compute_[tensor],
                                    wire_ends + state.not_begun[kWire]);
}

std::vector<bool> Simulation::before_a_bubble() const {
  const std::vector<Entry>& log = logs_[kWire];
  std::size_t sends = 0;
  for (const Chain* chain : chains_) {
    for (const Task& task : chain->tasks) sends += task.resource == Resource::kWire ? 1 : 0;
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
    for (const Task& task : chain->tasks) ++counts[static_cast<std::size_t>(task.resource)];
  }
  for (std::size_t resource = 0; resource < kQueues; ++resource) {
    for (std::size_t i = 0; i < counts[resource]; ++i) {
      const Entry& entry = logs_[resource][i];
      all.push_back({entry.task->resource, entry.tensor, entry.task->step, entry.begin,
                     entry.begin + entry.task->seconds});
      if (resource == kGpu) stops.push_back(all.back());
    }
  }
  double from = begin_;
  auto stop = stops.begin();
  for (std::size_t tensor = 0; tensor < compute_.size(); ++tensor) {
    const double end = states_[tensor].now;
    for (; stop != stops.end() && stop->begin_seconds < end; ++stop) {
      if (stop->begin_seconds > from) {
        all.push_back({Resource::kCompute, tensor, 0, from, stop->begin_seconds});
      }
      from = stop->end_seconds;
    }
    if (end > from) all.push_back({Resource::kCompute, tensor, 0, from, end});
    from = std::max(from, end);
  }
  return all;
}

}  // namespace ringpress::espresso
