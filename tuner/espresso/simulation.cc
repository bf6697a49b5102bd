#include "tuner/espresso/simulation.h"

#include <algorithm>
#include <utility>

namespace ringpress::espresso {

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
  Runner runner(parts(), beginning(), &logs_, kNever);
  while (runner.run_to_moment()) {
    moments_[runner.moment().computing] = runner.moment();
    runner.leave_moment();
  }
  events_ += runner.events();
  return seconds_ = runner.moment().now;
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
  Runner runner(parts(), moments_[tensor], &logs_, kNever);
  runner.leave_moment();
  while (runner.run_to_moment()) {
    moments_[runner.moment().computing] = runner.moment();
    runner.leave_moment();
  }
  events_ += runner.events();
  return seconds_ = runner.moment().now;
}

double Simulation::attempt(std::size_t tensor, const Chain* chain, double limit) {
  const Chain* const old = std::exchange(chains_[tensor], chain);
  Moment moment = moments_[tensor];
  for (std::size_t lane = 0; lane < kQueues; ++lane) {
    moment.not_begun[lane] += chain->seconds[lane] - old->seconds[lane];
  }
  copy_logs(moment, chain->tasks.size(), &attempt_logs_);
  Runner runner(parts(), moment, &attempt_logs_, limit);
  runner.leave_moment();
  const double seconds = run_to_end(&runner);
  events_ += runner.events();
  chains_[tensor] = old;
  return seconds > limit ? kNever : seconds;
}

double Simulation::run_to_end(Runner* runner) const {
  while (runner->run_to_moment()) {
    const Moment& before = moments_[runner->moment().computing];
    if (runner->moment().is_idle() && before.is_idle()) {
      return seconds_ + (runner->moment().now - before.now);
    }
    runner->leave_moment();
  }
  return runner->has_given_up() ? kNever : runner->moment().now;
}

void Simulation::copy_logs(const Moment& moment, std::size_t spare, Logs* logs) const {
  for (std::size_t lane = 0; lane < kQueues; ++lane) {
    auto& log = (*logs)[lane];
    log.resize(std::max(log.size(), logs_[lane].size() + spare));
    const std::size_t from = moment.begun[lane] > 0 ? moment.begun[lane] - 1 : 0;
    std::copy(&logs_[lane][from], &logs_[lane][0] + moment.handed_in[lane], &log[from]);
  }
}

Moment Simulation::beginning() const {
  Moment moment;
  moment.now = begin_;
  moment.ends.fill(kNever);
  moment.not_begun.fill(0);
  moment.begun.fill(0);
  moment.handed_in.fill(0);
  for (const Chain* chain : chains_) {
    for (std::size_t lane = 0; lane < kQueues; ++lane) {
      moment.not_begun[lane] += chain->seconds[lane];
    }
  }
  for (std::size_t i = 1; i < compute_.size(); ++i) moment.compute_to_come += compute_[i];
  if (!compute_.empty()) moment.compute_left = compute_[0];
  return moment;
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
  const Moment& moment = moments_[tensor];
  const double wire_ends = moment.ends[kWire] == kNever ? moment.now : moment.ends[kWire];
  return (1 - kRounding) * std::max(moment.now + least_wire_after_[tensor] - compute_[tensor],
                                    wire_ends + moment.not_begun[kWire]);
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
