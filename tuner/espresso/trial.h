// A strategy under trial: what every tensor does, and the step that this makes.
#ifndef TUNER_ESPRESSO_TRIAL_H_
#define TUNER_ESPRESSO_TRIAL_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tuner/espresso/menu.h"
#include "tuner/espresso/simulation.h"

namespace ringpress::espresso {

/// For each tensor, the index of a candidate of its menu.
using Strategy = std::vector<std::size_t>;

class Trial {
 public:
  /// `menus` must outlive the trial. Nothing is compressed at first.
  Trial(const Job& job, const Menus& menus)
      : menus_(menus), simulation_(compute_seconds(job), job.forward_seconds) {
    Strategy plain;
    for (std::size_t i = 0; i < job.tensors.size(); ++i) plain.push_back(menus.of(i).plain);
    load(std::move(plain));
  }

  void load(Strategy strategy) {
    strategy_ = std::move(strategy);
    std::vector<const Chain*> chains;
    for (std::size_t i = 0; i < strategy_.size(); ++i) chains.push_back(chain(i, strategy_[i]));
    simulation_.set(std::move(chains));
  }

  void take(std::size_t tensor, std::size_t candidate) {
    if (strategy_[tensor] == candidate) return;
    strategy_[tensor] = candidate;
    simulation_.set(tensor, chain(tensor, candidate));
  }

  /// The step if one tensor took another candidate; infinite if that is more than `limit`.
  double attempt(std::size_t tensor, std::size_t candidate, double limit) {
    return simulation_.attempt(tensor, chain(tensor, candidate), limit);
  }

  const Menu& menu(std::size_t tensor) const { return menus_.of(tensor); }
  std::size_t size_class(std::size_t tensor) const { return menus_.menu_of[tensor]; }
  bool compresses(std::size_t tensor) const {
    return menu(tensor).candidates[strategy_[tensor]].compresses;
  }
  const Strategy& strategy() const { return strategy_; }
  double at_least_from(std::size_t tensor) const { return simulation_.at_least_from(tensor); }
  double seconds() const { return simulation_.seconds(); }
  std::vector<bool> before_a_bubble() const { return simulation_.before_a_bubble(); }
  const Simulation& simulation() const { return simulation_; }

  /// What searches count their work in: events of this trial's simulation, and those of others.
  std::uint64_t events() const { return simulation_.events() + others_; }
  void count(std::uint64_t events) { others_ += events; }

 private:
  static std::vector<double> compute_seconds(const Job& job) {
    std::vector<double> seconds;
    for (const Tensor& tensor : job.tensors) seconds.push_back(tensor.backward_seconds);
    return seconds;
  }
  const Chain* chain(std::size_t tensor, std::size_t candidate) const {
    return &menus_.of(tensor).candidates[candidate].chain;
  }

  const Menus& menus_;
  Simulation simulation_;
  Strategy strategy_;
  std::uint64_t others_ = 0;  // Events.
};

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_TRIAL_H_
