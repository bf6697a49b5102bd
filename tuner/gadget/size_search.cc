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

bool needs_as_much(const RingOption& option, const RingOption& other) {
  return option.choice.workers >= other.choice.workers &&
         option.demand.ring_bits_per_second >= other.demand.ring_bits_per_second;
}

double size_of(const RingOption& option, First first) {
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
}

}  // namespace

SizeSearch::SizeSearch(const Cluster& cluster, const std::vector<Bid>& bids)
    : cluster_(cluster), bids_(bids), bounds_(cluster), search_(cluster), free_(cluster) {}

bool SizeSearch::run(double known, std::size_t* steps) {
  steps_ = steps;
  best_ = {known, {}, {}};
  for (std::size_t bid = 0; bid < bids_.size(); ++bid) add_candidate(bid);
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const RingCandidate& a, const RingCandidate& b) {
                     return a.options[0].gain > b.options[0].gain;
                   });
  places_.resize(candidates_.size());
  bounds_.begin(candidates_);
  for (const std::size_t steps_of_a_packing : kStepsOfAPacking) {
    steps_of_a_packing_ = steps_of_a_packing;
    has_given_up_ = false;
    try_candidate(0, 0);
    if (!has_given_up_ || *steps == 0) break;
  }
  return !best_.chosen.empty();
}

std::vector<Ring> SizeSearch::rings() const {
  std::vector<Ring> rings;
  for (std::size_t i = 0; i < best_.chosen.size(); ++i) {
    if (best_.chosen[i] < 0) continue;
    const RingCandidate& candidate = candidates_[i];
    const RingOption& option = candidate.options[static_cast<std::size_t>(best_.chosen[i])];
    rings.push_back({candidate.bid, best_.places[i], option.choice.saves});
  }
  std::sort(rings.begin(), rings.end(), [](const Ring& a, const Ring& b) { return a.job < b.job; });
  return rings;
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
  std::vector<RingOption> all;
  for (const bool saves : {false, true}) {
    if (saves && !bids_[bid].saving.has_value()) continue;
    const Demand demand = bids_[bid].demand_if(saves);
    for (std::size_t workers = 1; workers <= bids_[bid].gains.size(); ++workers) {
      const double gain = bids_[bid].gain(workers, saves);
      std::vector<Share> place;
      if (!(gain > 0) || !find_place(demand, workers, &place)) continue;
      all.push_back({{workers, saves}, demand, gain, bounds_.parts_of(demand.worker, workers)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const RingOption& a, const RingOption& b) { return a.gain > b.gain; });
  RingCandidate candidate = {bid, {}};
  for (RingOption& option : all) {
    const bool is_useless =
        std::any_of(candidate.options.begin(), candidate.options.end(),
                    [&](const RingOption& other) { return needs_as_much(option, other); });
    if (!is_useless) candidate.options.push_back(std::move(option));
  }
  if (!candidate.options.empty()) candidates_.push_back(std::move(candidate));
}

bool SizeSearch::is_hopeless(double most) const {
  return most <= best_.gain + kNoGain * std::abs(best_.gain);
}

void SizeSearch::try_candidate(std::size_t at, double gain) {
  if (!is_hopeless(gain)) {
    best_ = {gain, chosen_, places_};
  }
  if (at == candidates_.size() || *steps_ == 0) return;
  --*steps_;
  for (std::size_t i = 0; i < candidates_[at].options.size(); ++i) {
    const RingOption& option = candidates_[at].options[i];
    // So are those after it.
    if (is_hopeless(gain + option.gain + bounds_.most_of_rest(at + 1))) break;
    if (!bounds_.has_room(option)) continue;
    bounds_.take(option);
    chosen_.push_back(static_cast<int>(i));
    try_chosen(at, gain + option.gain);
    chosen_.pop_back();
    bounds_.give_back(option);
  }
  if (is_hopeless(gain + bounds_.most_of_rest(at + 1))) return;
  chosen_.push_back(-1);
  try_candidate(at + 1, gain);
  chosen_.pop_back();
}

/// With the option that was chosen last, if there are places: beside those before it, or all anew.
void SizeSearch::try_chosen(std::size_t at, double gain) {
  if (is_hopeless(gain + bounds_.most_of_rest(at + 1)) || is_above_a_failure()) return;
  const Free free = free_;
  const std::vector<std::vector<Share>> places = places_;
  const RingOption& option = option_of(at);
  if (find_place(option.demand, option.choice.workers, &places_[at])) {
    take(cluster_, option.demand, places_[at], &free_);
  } else if (!place_all_anew()) {
    return;
  }
  try_candidate(at + 1, gain);
  free_ = free;
  places_ = places;
}

/// In one order after the other: where one leads into a search without end, another may find places
/// at once.
bool SizeSearch::place_all_anew() {
  for (const First first : {First::kLargestRing, First::kLargestWorker, First::kLargestRate}) {
    const PlacementSearch::Answer answer = place_in_order(first);
    if (answer == PlacementSearch::Answer::kFound) return true;
    if (answer == PlacementSearch::Answer::kUnknown) continue;
    if (failures_.size() < kMostFailures) failures_.push_back(chosen_);
    return false;
  }
  has_given_up_ = true;
  return false;
}

/// The candidates so far that get something, what is hardest to place first.
PlacementSearch::Answer SizeSearch::place_in_order(First first) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i] >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(option_of(a), first) > size_of(option_of(b), first);
  });
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
      const RingOption& failed = candidates_[i].options[static_cast<std::size_t>(failure[i])];
      const RingOption& here = option_of(i);
      if (!needs_as_much(here, failed)) return false;
    }
    return true;
  });
}

}  // namespace ringpress::gadget
