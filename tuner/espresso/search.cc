// Stage 1, and how the stages are put together.
#include "tuner/espresso/search.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ringpress::espresso {
namespace {

/// What a tensor must gain, as a part of the step, that is compressed only to make way: such gains
/// hang on the order in which things happen to come.
constexpr double kSmallGain = 1e-3;

/// The largest first, of equals the last in backward.
std::vector<std::size_t> order_of(const Job& job) {
  std::vector<std::size_t> order(job.tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t bytes_a = job.tensors[a].bytes, bytes_b = job.tensors[b].bytes;
    return bytes_a != bytes_b ? bytes_a > bytes_b : a > b;
  });
  return order;
}

class Searcher {
 public:
  Searcher(const Job& job, Trial* trial) : order_(order_of(job)), trial_(trial) {}

  void paper() {
    sweep(false);
    offload(trial_);
  }

  void repeated() {
    std::vector<Attempt> attempts = begin_attempts();
    while (!attempts.empty() && !is_spent()) {
      for (Attempt& attempt : attempts) {
        trial_->load(attempt.strategy);
        attempt.is_stable = !sweep(true);
        note(&attempt);
      }
      std::erase_if(attempts, [](const Attempt& attempt) { return attempt.is_stable; });
      if (trial_->events() > most_events(*trial_) / 4) keep_the_better_half(&attempts);
    }
    trial_->load(best_);
    improve_together(trial_);
    forgo_what_gains_nothing();
  }

 private:
  /// The paper's algorithm 1: gives each tensor in turn the candidate that makes the step shortest.
  /// True if any changed.
  bool sweep(bool with_cpu) {
    bool changed = false;
    std::vector<bool> removed = trial_->before_a_bubble();
    for (const std::size_t tensor : order_) {
      if (is_spent()) break;
      // To send less before a bubble only makes the bubble longer.
      if (removed[tensor] && !trial_->compresses(tensor)) continue;
      if (!improve(tensor, with_cpu)) continue;
      changed = true;
      const std::vector<bool> before = trial_->before_a_bubble();
      for (std::size_t i = 0; i < before.size(); ++i) removed[i] = removed[i] || before[i];
    }
    return changed;
  }

  bool improve(std::size_t tensor, bool with_cpu) {
    const Menu& menu = trial_->menu(tensor);
    const std::size_t now = trial_->strategy()[tensor];
    const std::size_t count = with_cpu ? menu.worth : menu.on_gpu;
    std::size_t best = now;
    double limit = trial_->seconds() * (1 - kNoGain);
    for (std::size_t i = 0; i < count; ++i) {
      if (i == now) continue;
      const double seconds = trial_->attempt(tensor, i, limit);
      if (seconds >= limit) continue;
      limit = seconds;
      best = i;
    }
    trial_->take(tensor, best);
    return best != now;
  }

  /// A strategy that sweeps improve.
  struct Attempt {
    Strategy strategy;
    double seconds = 0;
    bool is_stable = false;
  };

  /// Keeps where the attempt has come to.
  void note(Attempt* attempt) {
    attempt->strategy = trial_->strategy();
    attempt->seconds = trial_->seconds();
    if (!best_.empty() && attempt->seconds >= seconds_ * (1 - kNoGain)) return;
    best_ = attempt->strategy;
    seconds_ = attempt->seconds;
  }

  std::vector<Attempt> begin_attempts() {
    std::vector<Attempt> attempts(1);
    const std::vector<Strategy> others = starts();
    paper();
    note(&attempts.back());
    for (const Strategy& other : others) {
      trial_->load(other);
      note(&attempts.emplace_back());
    }
    return attempts;
  }

  static void keep_the_better_half(std::vector<Attempt>* attempts) {
    std::stable_sort(attempts->begin(), attempts->end(),
                     [](const Attempt& a, const Attempt& b) { return a.seconds < b.seconds; });
    attempts->resize((attempts->size() + 1) / 2);
  }

  /// All tensors alike: compressed by what takes least alone, by what takes the wire least, and
  /// both with their codecs on the CPU.
  std::vector<Strategy> starts() const {
    Strategy quickest, quickest_on_cpu, shortest, shortest_on_cpu;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Menu& menu = trial_->menu(i);
      quickest.push_back(menu.quickest);
      quickest_on_cpu.push_back(menu.cpu_twin[menu.quickest]);
      shortest.push_back(menu.least_wire);
      shortest_on_cpu.push_back(menu.cpu_twin[menu.least_wire]);
    }
    std::vector<Strategy> all;
    for (Strategy* start : {&quickest, &quickest_on_cpu, &shortest, &shortest_on_cpu}) {
      if (std::find(all.begin(), all.end(), *start) == all.end()) all.push_back(std::move(*start));
    }
    return all;
  }

  /// What was compressed and makes no difference is not compressed; the smallest first.
  void forgo_what_gains_nothing() {
    for (auto tensor = order_.rbegin(); tensor != order_.rend(); ++tensor) {
      if (!trial_->compresses(*tensor)) continue;
      const Menu& menu = trial_->menu(*tensor);
      const bool only_makes_way = menu.candidates[trial_->strategy()[*tensor]].only_makes_way;
      const double limit = trial_->seconds() * (1 + (only_makes_way ? kSmallGain : kRounding));
      if (trial_->attempt(*tensor, menu.plain, limit) <= limit) trial_->take(*tensor, menu.plain);
    }
  }

  bool is_spent() const { return trial_->events() >= most_events(*trial_); }

  std::vector<std::size_t> order_;
  Trial* trial_;
  Strategy best_;  // Of all attempts.
  double seconds_ = 0;
};

}  // namespace

void search(const Job& job, Search kind, Trial* trial) {
  Searcher searcher(job, trial);
  switch (kind) {
    case Search::kPaper:
      return searcher.paper();
    case Search::kRepeated:
      return searcher.repeated();
  }
}

}  // namespace ringpress::espresso
