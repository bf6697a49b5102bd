#include "tuner/gadget/packing.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ringpress::gadget {
std::vector<double> dominant_shares(const Cluster& cluster, const std::vector<Bid>& bids) {
  std::array<double, kMostResources> total = {};
  for (const Server& server : cluster.servers) {
    for (std::size_t r = 0; r < kMostResources; ++r) {
      total[r] += static_cast<double>(server.capacity[r]);
    }
  }
  std::vector<double> shares;
  for (const Bid& bid : bids) {
    double share = 0;
    for (std::size_t r = 0; r < kMostResources; ++r) {
      if (bid.demand.worker[r] == 0) continue;
      share = std::max(share, static_cast<double>(bid.demand.worker[r]) / total[r]);
    }
    shares.push_back(share);
  }
  return shares;
}

/// Of what a worker takes of the resource that it takes most of.
std::vector<std::size_t> Packing::in_order(const std::vector<Choice>& choices, First first) const {
  std::vector<std::size_t> order;
  for (std::size_t job = 0; job < bids_.size(); ++job) {
    if (choices[job].workers > 0) order.push_back(job);
  }
  const auto size = [&](std::size_t job) {
    const double worker = shares_[job];
    const double ring = worker * static_cast<double>(choices[job].workers);
    const auto rate =
        static_cast<double>(bids_[job].demand_if(choices[job].saves).ring_bits_per_second);
    switch (first) {
      case First::kLargestRing:
        return std::array{ring, worker, rate};
      case First::kLargestWorker:
        return std::array{worker, ring, rate};
      case First::kLargestRate:
        return std::array{rate, ring, worker};
    }
    return std::array{ring, worker, rate};
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return order;
}

bool Packing::grow(std::size_t job, const Choice& choice) {
  const Choice before = choices_[job];
  const Demand demand = bids_[job].demand_if(choice.saves);
  const Demand demand_before = bids_[job].demand_if(before.saves);
  if (!packer_.may_fit(demand, choice.workers - before.workers)) return false;
  packer_.give_back(demand_before, places_[job]);
  std::vector<Share> shares = packer_.place(demand, choice.workers);
  if (!shares.empty()) {
    places_[job] = std::move(shares);
    choices_[job] = choice;
    return true;
  }
  packer_.take(demand_before, places_[job]);
  std::vector<Choice> all = choices_;
  all[job] = choice;
  return repack(all);
}

bool Packing::repack(const std::vector<Choice>& choices) {
  for (const First first : {First::kLargestRing, First::kLargestWorker, First::kLargestRate}) {
    if (may_repack() && pack(choices, in_order(choices, first))) return true;
  }
  return false;
}

bool Packing::pack(const std::vector<Choice>& choices, const std::vector<std::size_t>& order) {
  Packer packer(cluster_);
  std::vector<std::vector<Share>> places(bids_.size());
  for (const std::size_t job : order) {
    --placements_left_;
    const Choice& choice = choices[job];
    places[job] = packer.place(bids_[job].demand_if(choice.saves), choice.workers);
    if (places[job].empty()) return false;
  }
  packer_ = std::move(packer);
  places_ = std::move(places);
  choices_ = choices;
  return true;
}

std::vector<Ring> Packing::rings() const {
  std::vector<Ring> rings;
  for (std::size_t job = 0; job < places_.size(); ++job) {
    if (choices_[job].workers > 0) rings.push_back({job, places_[job], choices_[job].saves});
  }
  return rings;
}

}  // namespace ringpress::gadget
