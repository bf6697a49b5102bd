// Stage 2: which codecs run on the CPU.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tuner/espresso/search.h"

namespace ringpress::espresso {
namespace {

/// So many combinations of counts are all tried: as many as there are subsets of few tensors.
constexpr std::size_t kMostCombinations = std::size_t{1} << kFewTensors;

/// A tensor that could go to the CPU.
struct OffloadSite {
  std::size_t tensor;
  std::size_t group;
  std::size_t on_gpu;  // Its candidate.
  std::size_t on_cpu;
};

/// In the order of backward. Groups are numbered in that order too.
std::vector<OffloadSite> find_sites(const Trial& trial) {
  std::vector<OffloadSite> sites;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> groups;
  for (std::size_t i = 0; i < trial.strategy().size(); ++i) {
    const std::size_t candidate = trial.strategy()[i];
    const std::size_t twin = trial.menu(i).cpu_twin[candidate];
    if (twin == candidate) continue;
    const auto [group, is_new] =
        groups.emplace(std::pair(trial.size_class(i), candidate), groups.size());
    sites.push_back({i, group->second, candidate, twin});
  }
  return sites;
}

std::vector<std::vector<OffloadSite>> by_group(const std::vector<OffloadSite>& sites) {
  std::vector<std::vector<OffloadSite>> groups;
  for (const OffloadSite& site : sites) {
    if (site.group == groups.size()) groups.emplace_back();
    groups[site.group].push_back(site);
  }
  return groups;
}

bool is_spent(const Trial& trial, std::size_t sites) {
  return sites > kFewTensors && trial.events() >= most_events(trial) / 2;
}

/// Depth first in the order of backward: what is decided last changes fastest, and a change is
/// simulated from its tensor on.
class EveryCombination {
 public:
  EveryCombination(Trial* trial, std::vector<OffloadSite> sites)
      : trial_(trial),
        sites_(std::move(sites)),
        is_closed_(sites_.size(), false),
        best_(trial->strategy()),
        seconds_(trial->seconds()) {}

  void visit() {
    visit_from(0);
    trial_->load(best_);
  }

 private:
  void visit_from(std::size_t index) {
    if (index == sites_.size()) return keep_if_best();
    if (is_spent(*trial_, sites_.size())) return;
    const OffloadSite& site = sites_[index];
    if (trial_->at_least_from(site.tensor) >= seconds_ * (1 - kNoGain)) return;
    const bool was_closed = is_closed_[site.group];
    if (was_closed) {
      go_on(site.on_gpu, index);
    } else {
      // What it does now comes first: nothing is to be simulated again for that.
      const std::size_t now = trial_->strategy()[site.tensor];
      go_on(now, index);
      go_on(now == site.on_gpu ? site.on_cpu : site.on_gpu, index);
    }
    is_closed_[site.group] = was_closed;
  }

  /// Once one of a group stays, so do those after it.
  void go_on(std::size_t candidate, std::size_t index) {
    const OffloadSite& site = sites_[index];
    trial_->take(site.tensor, candidate);
    is_closed_[site.group] = candidate == site.on_gpu;
    visit_from(index + 1);
  }

  void keep_if_best() {
    if (trial_->seconds() >= seconds_ * (1 - kNoGain)) return;
    seconds_ = trial_->seconds();
    best_ = trial_->strategy();
  }

  Trial* trial_;
  std::vector<OffloadSite> sites_;
  std::vector<bool> is_closed_;  // By group.
  Strategy best_;
  double seconds_;
};

/// Gives the group the count that makes the step shortest. True if that is another than before.
bool choose_count(const std::vector<OffloadSite>& group, Trial* trial) {
  const Strategy before = trial->strategy();
  for (const OffloadSite& site : group) trial->take(site.tensor, site.on_gpu);
  std::size_t best = 0;
  double seconds = trial->seconds();
  for (std::size_t count = 1; count <= group.size(); ++count) {
    trial->take(group[count - 1].tensor, group[count - 1].on_cpu);
    if (trial->seconds() >= seconds * (1 - kNoGain)) continue;
    seconds = trial->seconds();
    best = count;
  }
  for (std::size_t i = best; i < group.size(); ++i) trial->take(group[i].tensor, group[i].on_gpu);
  return trial->strategy() != before;
}

}  // namespace

void offload(Trial* trial, std::size_t few_tensors) {
  std::vector<OffloadSite> sites = find_sites(*trial);
  if (sites.size() <= few_tensors) {
    // The earlier of two equal tensors is not always the better one to move: resources are queues.
    for (std::size_t i = 0; i < sites.size(); ++i) sites[i].group = i;
  }
  const std::vector<std::vector<OffloadSite>> groups = by_group(sites);
  std::size_t combinations = 1;
  for (const std::vector<OffloadSite>& group : groups) {
    combinations = std::min(kMostCombinations + 1, combinations * (group.size() + 1));
  }
  if (combinations <= kMostCombinations) {
    EveryCombination(trial, std::move(sites)).visit();
    return;
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (const std::vector<OffloadSite>& group : groups) {
      if (is_spent(*trial, sites.size())) return;
      changed = choose_count(group, trial) || changed;
    }
  }
}

}  // namespace ringpress::espresso
