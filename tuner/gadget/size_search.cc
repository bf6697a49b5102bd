#include "tuner/gadget/size_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringpress::gadget {
namespace {

/// What one look for a ring's place may take of the steps.
constexpr std::size_t kStepsOfAnOption = 200;
/// And one for places of all rings. A search that has given up such a look begins again with the
/// next number: what is found easily is found first.
constexpr std::size_t kStepsOfAPacking[] = {100, 1000, 10'000};
constexpr std::size_t kMostFailures = 256;
constexpr double kNoGain = 1e-9;  // What sums may be off by.

}  // namespace

bool SizeSearch::needs_as_much(const Option& option, const Option& other) {
  return option.choice.workers >= other.choice.workers &&
         option.demand.ring_bits_per_second >= other.demand.ring_bits_per_second;
}

SizeSearch::SizeSearch(const Cluster& cluster, const std::vector<Bid>& bids)
    : cluster_(cluster), bids_(bids), search_(cluster), free_(cluster) {}

bool SizeSearch::run(double known, std::size_t* steps) {
  steps_ = steps;
  best_ = known;
  best_chosen_.clear();
  add_measures();
  for (std::size_t bid = 0; bid < bids_.size(); ++bid) add_candidate(bid);
  std::stable_sort(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.options[0].gain > b.options[0].gain; });
  places_.resize(candidates_.size());
  parts_left_.assign(measures_.size(), kParts);
  find_bounds();
  for (const std::size_t steps_of_a_packing : kStepsOfAPacking) {
    steps_of_a_packing_ = steps_of_a_packing;
    has_given_up_ = false;
    try_candidate(0, 0);
    if (!has_given_up_ || *steps == 0) break;
  }
  return !best_chosen_.empty();
}

std::vector<Ring> SizeSearch::rings() const {
  std::vector<Ring> rings;
  for (std::size_t i = 0; i < best_chosen_.size(); ++i) {
    if (best_chosen_[i] < 0) continue;
    const Candidate& candidate = candidates_[i];
    const Option& option = candidate.options[static_cast<std::size_t>(best_chosen_[i])];
    rings.push_back({candidate.bid, best_places_[i], option.choice.saves});
  }
  std::sort(rings.begin(), rings.end(), [](const Ring& a, const Ring& b) { return a.job < b.job; });
  return rings;
}

/// Each resource, and the mean of each two: what uses much of both is held by the mean.
void SizeSearch::add_measures() {
  const std::size_t resources = cluster_.resources.size();
  std::vector<double> each(resources);
  for (const Server& server : cluster_.servers) {
    for (std::size_t r = 0; r < resources; ++r) each[r] += static_cast<double>(server.capacity[r]);
  }
  for (double& amount : each) amount = amount > 0 ? kParts / amount : 0;
  for (std::size_t r = 0; r < resources; ++r) {
    for (std::size_t other = r; other < resources; ++other) {
      Measure measure;
      measure.weights.resize(resources);
      measure.weights[r] += each[r] / 2;
      measure.weights[other] += each[other] / 2;
      measures_.push_back(std::move(measure));
    }
  }
}

std::vector<std::size_t> SizeSearch::parts_of(const Amounts& worker, std::size_t workers) const {
  std::vector<std::size_t> all;
  for (const Measure& measure : measures_) {
    double parts = 0;
    for (std::size_t r = 0; r < measure.weights.size(); ++r) {
      parts += measure.weights[r] * static_cast<double>(workers * worker[r]);
    }
    all.push_back(static_cast<std::size_t>(parts * (1 - kNoGain)));
  }
  return all;
}

/// Whether the ring has a place beside what is placed, and where.
bool SizeSearch::find_place(const Demand& demand, std::size_t workers, std::vector<Share>* place) {
  std::size_t few = std::min(kStepsOfAnOption, *steps_);
  *steps_ -= few;
  std::vector<std::vector<Share>> found;
  const auto answer = search_.find(free_, {{demand, workers}}, &few, &found);
  *steps_ += few;
  if (answer != PlacementSearch::Answer::kFound) return false;
  *place = std::move(found[0]);
  return true;
}

void SizeSearch::add_candidate(std::size_t bid) {
  std::vector<Option> all;
  for (const bool saves : {false, true}) {
    if (saves && !bids_[bid].saving.has_value()) continue;
    const Demand demand = bids_[bid].demand_if(saves);
    for (std::size_t workers = 1; workers <= bids_[bid].gains.size(); ++workers) {
      const double gain = bids_[bid].gain(workers, saves);
      std::vector<Share> place;
      if (!(gain > 0) || !find_place(demand, workers, &place)) continue;
      all.push_back({{workers, saves}, demand, gain, parts_of(demand.worker, workers)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Option& a, const Option& b) { return a.gain > b.gain; });
  Candidate candidate = {bid, {}};
  for (Option& option : all) {
    const bool is_useless =
        std::any_of(candidate.options.begin(), candidate.options.end(),
                    [&](const Option& other) { return needs_as_much(option, other); });
    if (!is_useless) candidate.options.push_back(std::move(option));
  }
  if (!candidate.options.empty()) candidates_.push_back(std::move(candidate));
}

void SizeSearch::find_bounds() {
  for (std::size_t m = 0; m < measures_.size(); ++m) {
    auto& most = measures_[m].most;
    most.assign(candidates_.size() + 1, std::vector<double>(kParts + 1));
    for (std::size_t i = candidates_.size(); i-- > 0;) {
      most[i] = most[i + 1];
      for (const Option& option : candidates_[i].options) {
        for (std::size_t parts = option.parts[m]; parts <= kParts; ++parts) {
          most[i][parts] =
              std::max(most[i][parts], option.gain + most[i + 1][parts - option.parts[m]]);
        }
      }
    }
  }
}

double SizeSearch::most_of_rest(std::size_t at) const {
  double least = measures_[0].most[at][parts_left_[0]];
  for (std::size_t m = 1; m < measures_.size(); ++m) {
    least = std::min(least, measures_[m].most[at][parts_left_[m]]);
  }
  return least;
}

void SizeSearch::use(const Option& option, bool takes) {
  for (std::size_t m = 0; m < measures_.size(); ++m) {
    parts_left_[m] = takes ? parts_left_[m] - option.parts[m] : parts_left_[m] + option.parts[m];
  }
}

bool SizeSearch::is_hopeless(double most) const {
  return most <= best_ + kNoGain * std::abs(best_);
}

void SizeSearch::try_candidate(std::size_t at, double gain) {
  if (!is_hopeless(gain)) {
    best_ = gain;
    best_chosen_ = chosen_;
    best_places_ = places_;
  }
  if (at == candidates_.size() || *steps_ == 0) return;
  --*steps_;
  for (std::size_t i = 0; i < candidates_[at].options.size(); ++i) {
    const Option& option = candidates_[at].options[i];
    if (is_hopeless(gain + option.gain + most_of_rest(at + 1))) break;  // So are those after it.
    const bool has_parts = std::equal(option.parts.begin(), option.parts.end(), parts_left_.begin(),
                                      std::less_equal<>());
    if (!has_parts) continue;
    use(option, /*takes=*/true);
    chosen_.push_back(static_cast<int>(i));
    try_chosen(at, gain + option.gain);
    chosen_.pop_back();
    use(option, /*takes=*/false);
  }
  if (is_hopeless(gain + most_of_rest(at + 1))) return;
  chosen_.push_back(-1);
  try_candidate(at + 1, gain);
  chosen_.pop_back();
}

/// With the option that was chosen last, if there are places.
void SizeSearch::try_chosen(std::size_t at, double gain) {
  if (is_hopeless(gain + most_of_rest(at + 1)) || is_above_a_failure()) return;
  const Free free = free_;
  const std::vector<std::vector<Share>> places = places_;
  if (!place(at)) return;
  try_candidate(at + 1, gain);
  free_ = free;
  places_ = places;
}

/// Beside those before it, or all anew.
bool SizeSearch::place(std::size_t at) {
  const Option& option = option_of(at);
  if (!find_place(option.demand, option.choice.workers, &places_[at])) return place_all_anew();
  take(cluster_, option.demand, places_[at], &free_);
  return true;
}

/// The candidates so far that get something, what is hardest to place first.
std::vector<std::size_t> SizeSearch::in_order(First first) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i] >= 0) order.push_back(i);
  }
  const auto size = [&](std::size_t i) {
    const Option& option = option_of(i);
    const auto part =
        static_cast<double>(*std::max_element(option.parts.begin(), option.parts.end()));
    switch (first) {
      case First::kLargestRing:
        return part;
      case First::kLargestWorker:
        return part / static_cast<double>(option.choice.workers);
      case First::kLargestRate:
        return static_cast<double>(option.demand.ring_bits_per_second);
    }
    return part;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return order;
}

/// In one order after the other: where one leads into a search without end, another may find places
/// at once.
bool SizeSearch::place_all_anew() {
  for (const First first : {First::kLargestRing, First::kLargestWorker, First::kLargestRate}) {
    const PlacementSearch::Answer answer = place_in(in_order(first));
    if (answer == PlacementSearch::Answer::kFound) return true;
    if (answer == PlacementSearch::Answer::kUnknown) continue;
    if (failures_.size() < kMostFailures) failures_.push_back(chosen_);
    return false;
  }
  has_given_up_ = true;
  return false;
}

PlacementSearch::Answer SizeSearch::place_in(const std::vector<std::size_t>& order) {
  std::vector<Wanted> wanted;
  for (const std::size_t i : order) {
    wanted.push_back({option_of(i).demand, option_of(i).choice.workers});
  }
  std::size_t few = std::min(steps_of_a_packing_, *steps_);
  *steps_ -= few;
  std::vector<std::vector<Share>> found;
  const auto answer = search_.find(Free(cluster_), wanted, &few, &found);
  *steps_ += few;
  if (answer != PlacementSearch::Answer::kFound) return answer;
  free_ = Free(cluster_);
  for (std::size_t i = 0; i < order.size(); ++i) {
    take(cluster_, wanted[i].demand, found[i], &free_);
    places_[order[i]] = std::move(found[i]);
  }
  return answer;
}

bool SizeSearch::is_above_a_failure() const {
  return std::any_of(failures_.begin(), failures_.end(), [&](const Chosen& failure) {
    for (std::size_t i = 0; i < failure.size(); ++i) {
      if (failure[i] < 0) continue;
      if (i >= chosen_.size() || chosen_[i] < 0) return false;
      const Option& failed = candidates_[i].options[static_cast<std::size_t>(failure[i])];
      const Option& here = option_of(i);
      if (!needs_as_much(here, failed)) return false;
    }
    return true;
  });
}

}  // namespace ringpress::gadget
