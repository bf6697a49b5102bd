// Depth first through the tensors in the order of backward: what is chosen for one changes nothing
// before its gradient is there. A branch is left as soon as it is certain that no step in it is
// shorter than the best one found so far.
//
// What makes it certain: each resource has to do its work, and so has any mix of the resources. If
// a part w of the wire's work, a part g of the GPU's and a part c of the CPU's are added up, w + g
// + c = 1, the step takes no less than the sum. Of a tensor that is not decided, the candidate
// counts that adds least to that sum: where it saves the wire work it costs a codec some, which a
// bound of one resource alone does not see.
#include "tuner/espresso/enumeration.h"

#include <algorithm>
#include <array>

#include "tuner/espresso/search.h"

namespace ringpress::espresso {
namespace {

/// Parts of wire, GPU and CPU.
constexpr std::array<std::array<double, kQueues>, 12> kMixes = {{{1, 0, 0},
                                                                 {0, 1, 0},
                                                                 {0, 0, 1},
                                                                 {0.85, 0.15, 0},
                                                                 {0.65, 0.35, 0},
                                                                 {0.5, 0.5, 0},
                                                                 {0.3, 0.7, 0},
                                                                 {0.8, 0, 0.2},
                                                                 {0.5, 0, 0.5},
                                                                 {0, 0.5, 0.5},
                                                                 {0.6, 0.2, 0.2},
                                                                 {0.34, 0.33, 0.33}}};
using Sums = std::array<double, kMixes.size()>;  // One a mix.

/// A node of the search is as much work as so many events.
constexpr std::uint64_t kEventsOfNode = 3;

double mixed(std::size_t mix, const std::array<double, kQueues>& resources) {
  return kMixes[mix][0] * resources[0] + kMixes[mix][1] * resources[1] +
         kMixes[mix][2] * resources[2];
}

std::array<double, kQueues> lanes_of(const Chain& chain) {
  return {chain.seconds[0], chain.seconds[1], chain.seconds[2]};
}

void change_work(StepState* state, const Chain& from, const Chain& to) {
  for (std::size_t resource = 0; resource < kQueues; ++resource) {
    state->not_begun[resource] += to.seconds[resource] - from.seconds[resource];
  }
}

/// What a step takes at least, whatever is chosen at the sites that are not decided yet.
class LeastTimes {
 public:
  LeastTimes(const std::vector<Site>& sites, const Trial& trial)
      : trial_(trial),
        sites_(sites),
        chains_(trial.simulation().chains()),
        least_(sites.size()),
        totals_(chains_.size()),
        costs_(sites.size()),
        undecided_(sites.size() + 1),
        after_(sites.size()) {
    for (std::size_t i = 0; i < chains_.size(); ++i) totals_[i] = chains_[i]->total();
    for (std::size_t depth = sites_.size(); depth-- > 0;) find_least(depth);
    find_least_after();
  }

  /// Of a site's tensor, with a candidate of the site.
  const Chain& chain(std::size_t depth, std::size_t candidate) const {
    return trial_.menu(sites_[depth].tensor).candidates[candidate].chain;
  }
  /// Without tasks: what the site's tensor takes at least of each resource.
  const Chain& chain(std::size_t depth) const { return least_[depth]; }
  /// Of all tensors: such ones at the sites.
  const std::vector<const Chain*>& chains() const { return chains_; }
  /// What a candidate takes above that.
  const Sums& cost(std::size_t depth, std::size_t candidate) const {
    return costs_[depth][candidate];
  }
  /// Of what comes after a site, from its state on.
  const Sums& after(std::size_t depth) const { return after_[depth]; }
  /// StepParts has them.
  const double* after_backward() const { return after_backward_.data(); }
  /// Entries of logs that candidates may need.
  std::size_t spare() const { return spare_; }

  /// For each mix, no step from this state on ends earlier, but for what the tensor itself adds.
  Sums ends_at(const StepState& state, std::size_t depth) const {
    std::array<double, kQueues> work = state.not_begun;
    for (std::size_t resource = 0; resource < kQueues; ++resource) {
      if (state.ends[resource] != kNever) work[resource] += state.ends[resource] - state.now;
    }
    work[kGpu] += state.compute_to_come;
    Sums ends;
    for (std::size_t mix = 0; mix < kMixes.size(); ++mix) {
      ends[mix] = state.now + mixed(mix, work) + undecided_[depth + 1][mix];
    }
    return ends;
  }

 private:
  /// What the tensor takes at least of each resource and of each mix of them.
  void find_least(std::size_t depth) {
    Chain& least = least_[depth];
    least.seconds.fill(kNever);
    least.seconds[static_cast<std::size_t>(Resource::kCompute)] = 0;
    std::size_t tasks = 0;
    double& least_total = totals_[sites_[depth].tensor];
    least_total = kNever;
    for (const std::size_t candidate : sites_[depth].candidates) {
      const Chain& own = chain(depth, candidate);
      tasks = std::max(tasks, own.tasks.size());
      least_total = std::min(least_total, own.total());
      for (std::size_t resource = 0; resource < kQueues; ++resource) {
        least.seconds[resource] = std::min(least.seconds[resource], own.seconds[resource]);
      }
    }
    spare_ += tasks;
    chains_[sites_[depth].tensor] = &least;
    Sums smallest;
    smallest.fill(kNever);
    for (const std::size_t candidate : sites_[depth].candidates) {
      Sums& cost = costs_[depth].emplace_back();
      for (std::size_t mix = 0; mix < kMixes.size(); ++mix) {
        cost[mix] = mixed(mix, lanes_of(chain(depth, candidate))) - mixed(mix, lanes_of(least));
        smallest[mix] = std::min(smallest[mix], cost[mix]);
      }
    }
    for (std::size_t mix = 0; mix < kMixes.size(); ++mix) {
      undecided_[depth][mix] = undecided_[depth + 1][mix] + smallest[mix];
    }
  }

  /// From the end of each tensor's backward on, at least so long to the end of the step.
  void find_least_after() {
    const std::vector<double>& compute = trial_.simulation().compute();
    const std::size_t first = sites_[0].tensor;
    after_backward_.assign(compute.size() + 2, 0);
    std::array<double, kQueues> work = {};
    Sums longest = {};
    double backward = 0;
    std::size_t depth = sites_.size();
    for (std::size_t i = compute.size(); i-- > first;) {
      if (depth > 0 && sites_[depth - 1].tensor == i) after_[--depth] = longest;
      for (std::size_t resource = 0; resource < kQueues; ++resource)
        work[resource] += chains_[i]->seconds[resource];
      after_backward_[i] = compute[i] + std::max({work[kWire], totals_[i], after_backward_[i + 1]});
      for (std::size_t mix = 0; mix < kMixes.size(); ++mix) {
        const double own = mixed(mix, work) + kMixes[mix][kGpu] * backward + undecided_[depth][mix];
        longest[mix] = compute[i] + std::max({own, longest[mix], totals_[i]});
      }
      backward += compute[i];
    }
  }

  const Trial& trial_;
  const std::vector<Site>& sites_;
  std::vector<const Chain*> chains_;
  std::vector<Chain> least_;              // One a site.
  std::vector<double> totals_;            // What each tensor's own work takes at least in all.
  std::vector<std::vector<Sums>> costs_;  // Of each site's candidates.
  std::vector<Sums> undecided_;           // Of a site and those after it at least.
  std::vector<Sums> after_;
  std::vector<double> after_backward_;
  std::size_t spare_ = 0;
};

class Enumeration {
 public:
  Enumeration(const std::vector<Site>& sites, std::uint64_t most_events, Trial* trial)
      : trial_(trial),
        base_(trial->simulation()),
        sites_(sites),
        most_events_(most_events),
        least_(sites, *trial),
        chains_(least_.chains()),
        strategy_(trial->strategy()),
        best_(strategy_),
        limit_(trial->seconds() * (1 - kNoGain)),
        events_(chains_.size() - sites[0].tensor) {}

  bool run() {
    StepState state = base_.state(sites_[0].tensor);
    for (std::size_t depth = 0; depth < sites_.size(); ++depth) {
      const std::size_t tensor = sites_[depth].tensor;
      change_work(&state, *base_.chains()[tensor], *chains_[tensor]);
    }
    base_.copy_logs(state, least_.spare(), &logs_);
    visit(state, 0);
    trial_->count(events_);
    if (best_ != trial_->strategy()) trial_->load(best_);
    return !is_spent_;
  }

 private:
  bool is_too_late(const Sums& ends, const Sums& added) const {
    double latest = 0;
    for (std::size_t mix = 0; mix < kMixes.size(); ++mix) {
      latest = std::max(latest, ends[mix] + added[mix]);
    }
    return latest * (1 - kRounding) >= limit_;
  }

  /// `state` is when the gradient of the tensor is there.
  void visit(const StepState& state, std::size_t depth) {
    Sums now;
    now.fill(state.now);
    if (is_too_late(now, least_.after(depth))) return;
    const Site& site = sites_[depth];
    const Sums ends = least_.ends_at(state, depth);
    for (std::size_t i = 0; i < site.candidates.size(); ++i) {
      events_ += kEventsOfNode;
      is_spent_ = is_spent_ || events_ > most_events_;
      if (is_spent_) return;
      const double own = state.now + least_.chain(depth, site.candidates[i]).total();
      if (own * (1 - kRounding) >= limit_ || is_too_late(ends, least_.cost(depth, i))) continue;
      go_on(state, depth, site.candidates[i]);
    }
    chains_[site.tensor] = &least_.chain(depth);
  }

  void go_on(const StepState& before, std::size_t depth, std::size_t candidate) {
    const std::size_t tensor = sites_[depth].tensor;
    strategy_[tensor] = candidate;
    chains_[tensor] = &least_.chain(depth, candidate);
    StepState state = before;
    change_work(&state, least_.chain(depth), *chains_[tensor]);
    Runner runner({base_.compute(), chains_.data(), least_.after_backward()}, state, &logs_,
                  limit_);
    runner.leave_moment();
    if (depth + 1 == sites_.size()) {
      finish(&runner);
    } else if (run_until(sites_[depth + 1].tensor, &runner)) {
      visit(runner.state(), depth + 1);
    }
  }

  /// Until the gradient of the tensor is there. False if the step is bound to take too long.
  bool run_until(std::size_t tensor, Runner* runner) {
    const std::uint64_t before = runner->events();
    bool goes_on = runner->run_to_state();
    while (goes_on && runner->state().computing != tensor) {
      runner->leave_moment();
      goes_on = runner->run_to_state();
    }
    events_ += runner->events() - before;
    return goes_on;
  }

  /// All is decided.
  void finish(Runner* runner) {
    const double seconds = base_.run_to_end(runner);
    events_ += runner->events();
    if (seconds > limit_) return;
    limit_ = seconds * (1 - kNoGain);
    best_ = strategy_;
  }

  Trial* trial_;
  const Simulation& base_;
  const std::vector<Site>& sites_;
  std::uint64_t most_events_;
  const LeastTimes least_;
  std::vector<const Chain*> chains_;  // Of tensors not yet decided: least_.
  Logs logs_;
  Strategy strategy_;
  Strategy best_;
  double limit_;
  std::uint64_t events_;
  bool is_spent_ = false;
};

}  // namespace

bool enumerate(const std::vector<Site>& sites, std::uint64_t most_events, Trial* trial) {
  return Enumeration(sites, most_events, trial).run();
}

}  // namespace ringpress::espresso
