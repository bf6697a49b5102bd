// Greedy, then exchanges, then of few bids all sizes. What is searched is counted in rings placed
// and in steps, and bounded, so that equal bids get equal rings on every machine.
#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "tuner/gadget/packing.h"
#include "tuner/gadget/size_search.h"

namespace ringpress::gadget {
namespace {

/// Rings that packing anew may place in all searches.
constexpr std::size_t kPlacements = 12'000;
constexpr std::size_t kPlacementsPerBid = 120;

/// What trying all sizes may take (size_search.h). A step looks at all servers for all bids, so the
/// larger a slot, which is servers times bids, the fewer steps; with more bids than these the
/// search would stop long before it has found anything.
constexpr std::size_t kMostSearchedBids = 24;
constexpr std::size_t kMostSteps = 100'000;
constexpr std::size_t kStepsTimesSizeSquared = 100'000'000;

/// More workers for a job, and what each gains.
struct Step {
  double density = 0;
  std::size_t job = 0;
  std::size_t workers = 0;

  /// The job with the lower number first where densities are equal.
  bool operator<(const Step& other) const {
    return std::pair(density, other.job) < std::pair(other.density, job);
  }
};

/// What a gain is divided by: further workers, the part of the cluster that they take, or nothing.
enum class Weighing { kWorkers, kShares, kNothing };

class SlotSearch {
 public:
  SlotSearch(const Cluster& cluster, const std::vector<Bid>& bids, std::size_t most_placements)
      : bids_(bids),
        packing_(cluster, bids, most_placements),
        shares_(dominant_shares(cluster, bids)) {}

  /// Takes the densest step until none is left. A step that finds no place ends its job's growth
  /// there.
  void grow_all(Weighing weighing) {
    std::vector<std::size_t> caps;
    std::priority_queue<Step> steps;
    const auto push = [&](std::size_t job) {
      const Step step = densest_step(job, caps[job], weighing);
      if (step.density > 0) steps.push(step);
    };
    for (std::size_t job = 0; job < bids_.size(); ++job) {
      caps.push_back(bids_[job].gains.size());
      push(job);
    }
    while (!steps.empty()) {
      const Step step = steps.top();
      steps.pop();
      if (!grow(step.job, step.workers)) caps[step.job] = step.workers - 1;
      push(step.job);
    }
    for (std::size_t job = 0; job < bids_.size(); ++job) hurry(job);
  }

  /// One job gets more where another gains less of it, until nothing is better so.
  void exchange_all(Weighing weighing) {
    while (packing_.may_repack() && exchange_one()) grow_all(weighing);
  }

  double gain() const {
    double sum = 0;
    for (std::size_t job = 0; job < bids_.size(); ++job) sum += gain_now(job);
    return sum;
  }
  std::vector<Ring> rings() const { return packing_.rings(); }

 private:
  double gain_now(std::size_t job) const {
    const Choice& choice = packing_.choices()[job];
    return bids_[job].gain(choice.workers, choice.saves);
  }

  /// At the full rate, or else at the lower one if that gains something too.
  bool grow(std::size_t job, std::size_t workers) {
    if (packing_.grow(job, {workers, /*saves=*/false})) return true;
    if (!bids_[job].saving.has_value()) return false;
    if (bids_[job].gain(workers, /*saves=*/true) <= gain_now(job)) return false;
    return packing_.grow(job, {workers, /*saves=*/true});
  }

  /// The full rate for a ring that has the lower one, if it gains more and there is a place.
  void hurry(std::size_t job) {
    const Choice& choice = packing_.choices()[job];
    if (!choice.saves || bids_[job].gain(choice.workers, false) <= gain_now(job)) return;
    packing_.grow(job, {choice.workers, /*saves=*/false});
  }

  Step densest_step(std::size_t job, std::size_t most_workers, Weighing weighing) const {
    const std::size_t now = packing_.workers(job);
    const double gained = gain_now(job);
    Step best = {0, job, now};
    for (std::size_t workers = now + 1; workers <= most_workers; ++workers) {
      const double more = bids_[job].gains[workers - 1] - gained;
      const double density = more / weight(job, workers - now, weighing);
      if (density > best.density) best = {density, job, workers};
    }
    return best;
  }

  double weight(std::size_t job, std::size_t further, Weighing weighing) const {
    switch (weighing) {
      case Weighing::kWorkers:
        return static_cast<double>(further);
      case Weighing::kShares:
        return shares_[job] * static_cast<double>(further);
      case Weighing::kNothing:
        return 1;
    }
    return 1;
  }

  struct Change {
    double difference = 0;  // Of the gain.
    std::size_t job = 0;
    Choice choice;
  };

  /// All that a job could get instead that gains more, or less: the best changes first.
  std::vector<Change> changes(bool more) const {
    std::vector<Change> all;
    for (std::size_t job = 0; job < bids_.size(); ++job) {
      const double gained = gain_now(job);
      for (const bool saves : {false, true}) {
        if (saves && !bids_[job].saving.has_value()) continue;
        for (std::size_t workers = 0; workers <= bids_[job].gains.size(); ++workers) {
          const double difference = bids_[job].gain(workers, saves) - gained;
          const bool is_less = difference < 0 && workers <= packing_.workers(job);
          if (more ? difference > 0 : is_less) all.push_back({difference, job, {workers, saves}});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Change& a, const Change& b) { return a.difference > b.difference; });
    return all;
  }

  bool exchange_one() {
    const std::vector<Change> gains = changes(/*more=*/true), losses = changes(/*more=*/false);
    for (const Change& more : gains) {
      for (const Change& less : losses) {
        if (more.difference + less.difference <= kNoGain * more.difference) break;
        if (more.job == less.job) continue;
        std::vector<Choice> choices = packing_.choices();
        choices[more.job] = more.choice;
        choices[less.job] = less.choice;
        if (packing_.repack(choices)) return true;
        if (!packing_.may_repack()) return false;
      }
    }
    return false;
  }

  static constexpr double kNoGain = 1e-9;  // What sums may be off by.

  const std::vector<Bid>& bids_;
  Packing packing_;
  std::vector<double> shares_;  // Of the cluster, one worker of each job.
};

/// The last one finds more where a job has many workers or none: the densest ones may leave no room
/// to one that gains more.
std::vector<Weighing> weighings_for(const std::vector<Bid>& bids) {
  const bool has_gaps = std::any_of(bids.begin(), bids.end(), [](const Bid& bid) {
    return !bid.gains.empty() && bid.gains[0] == -std::numeric_limits<double>::infinity();
  });
  if (!has_gaps) return {Weighing::kWorkers, Weighing::kShares};
  return {Weighing::kWorkers, Weighing::kShares, Weighing::kNothing};
}

}  // namespace

std::vector<Ring> solve_slot(const Cluster& cluster, const std::vector<Bid>& bids) {
  std::vector<Ring> best;
  double most = 0;
  const std::vector<Weighing> weighings = weighings_for(bids);
  const std::size_t placements = kPlacements + kPlacementsPerBid * bids.size();
  for (const Weighing weighing : weighings) {
    SlotSearch search(cluster, bids, placements / weighings.size());
    search.grow_all(weighing);
    search.exchange_all(weighing);
    if (search.gain() <= most) continue;
    most = search.gain();
    best = search.rings();
  }
  if (bids.size() > kMostSearchedBids) return best;
  const std::size_t size = std::max<std::size_t>(1, cluster.servers.size() * bids.size());
  std::size_t steps = std::min(kMostSteps, kStepsTimesSizeSquared / (size * size));
  SizeSearch search(cluster, bids);
  if (search.run(most, &steps)) best = search.rings();
  return best;
}

}  // namespace ringpress::gadget
