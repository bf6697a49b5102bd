// Stage 3: several tensors change at once. Where each waits for what another one leaves of a
// resource, no change of one tensor makes the step shorter, though a change of two or three does.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tuner/espresso/enumeration.h"
#include "tuner/espresso/search.h"

namespace ringpress::espresso {
namespace {

/// So many tensors change at once.
constexpr std::size_t kMostTogether = 3;
/// Enough to see that a bound leaves nothing to be gained.
constexpr std::uint64_t kFewEvents = 64;

class Together {
 public:
  explicit Together(Trial* trial) : trial_(trial) {
    const std::size_t count = trial->strategy().size();
    is_small_ = count <= kFewTensors;
    for (std::size_t i = 0; i < count; ++i) {
      const Menu& menu = trial->menu(i);
      if (menu.candidates.size() == 1) continue;
      worth_.push_back(site_of(i, menu.worth));
      sites_.push_back(is_small_ ? site_of(i, menu.candidates.size()) : worth_.back());
    }
  }

  void run() {
    if (sites_.empty() || enumerate(sites_, std::min(kFewEvents, left()), trial_)) return;
    if (!is_small_) {
      for (std::size_t count = 2; count <= kMostTogether; ++count) {
        while (left() > 0 && try_neighbours(count)) {
        }
      }
      return;
    }
    enumerate(worth_, left() / 2, trial_);
    // Of the fewest tensors all combinations are tried in any case.
    const std::size_t most = sites_.size() <= kFewestTensors ? 0 : kMostTogether;
    for (std::size_t count = 1; count <= most; ++count) {
      while (left() > 0 && try_subsets(count)) {
      }
    }
    begin_with_what_is_taken();
    enumerate(sites_, left(), trial_);
  }

 private:
  static Site site_of(std::size_t tensor, std::size_t candidates) {
    Site site{tensor, std::vector<std::size_t>(candidates)};
    std::iota(site.candidates.begin(), site.candidates.end(), 0);
    return site;
  }

  std::uint64_t left() const {
    const std::uint64_t most = most_events(*trial_), now = trial_->events();
    return now < most ? most - now : 0;
  }

  /// True if the step has become shorter.
  bool try_all(const std::vector<Site>& sites) {
    const double before = trial_->seconds();
    if (left() > 0) enumerate(sites, left(), trial_);
    return trial_->seconds() < before;
  }

  /// Should not all be tried, those near the best so far have been.
  void begin_with_what_is_taken() {
    for (Site& site : sites_) {
      const auto taken = std::find(site.candidates.begin(), site.candidates.end(),
                                   trial_->strategy()[site.tensor]);
      std::rotate(site.candidates.begin(), taken, taken + 1);
    }
  }

  /// All subsets of so many tensors.
  bool try_subsets(std::size_t count) {
    bool is_shorter = false;
    std::vector<char> is_in(sites_.size(), 0);
    std::fill_n(is_in.begin(), count, 1);
    do {
      std::vector<Site> sites;
      for (std::size_t i = 0; i < sites_.size(); ++i) {
        if (is_in[i] != 0) sites.push_back(sites_[i]);
      }
      is_shorter = try_all(sites) || is_shorter;
    } while (left() > 0 && std::prev_permutation(is_in.begin(), is_in.end()));
    return is_shorter;
  }

  /// So many after one another, of all and of those of each size, the last first.
  bool try_neighbours(std::size_t count) {
    std::vector<std::vector<std::size_t>> groups(1);
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      const std::size_t own = trial_->size_class(sites_[i].tensor) + 1;
      groups.resize(std::max(groups.size(), own + 1));
      groups[0].push_back(i);
      groups[own].push_back(i);
    }
    bool is_shorter = false;
    for (const std::vector<std::size_t>& group : groups) {
      for (std::size_t end = group.size(); end >= count && left() > 0; --end) {
        std::vector<Site> sites;
        for (std::size_t j = end - count; j < end; ++j) sites.push_back(sites_[group[j]]);
        is_shorter = try_all(sites) || is_shorter;
      }
    }
    return is_shorter;
  }

  Trial* trial_;
  bool is_small_ = false;
  std::vector<Site> sites_;  // Tensors that have a choice.
  std::vector<Site> worth_;  // The same with what is worth a try in a large job.
};

}  // namespace

void improve_together(Trial* trial) {
  Together(trial).run();
}

}  // namespace ringpress::espresso
