// The largest gain of a slot, by trying all that bids could get. It has nothing in common with the
// solver that it is the measure of: sizes of all rings are tried in order of what they gain, and
// whether they have a place is asked of one server after the other. For small slots: a few servers
// and bids.
#ifndef PERF_GADGET_EXACT_SLOT_H_
#define PERF_GADGET_EXACT_SLOT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::perf {

/// Whether rings of given sizes and demands have places, all of them. Exact: all ways to fill the
/// servers, one after the other, rack by rack. What comes after a server depends on the workers
/// that are left, and in its rack on those that there were when the rack began.
class ExactPlaces {
 public:
  explicit ExactPlaces(const gadget::Cluster& cluster) : cluster_(cluster) {
    for (std::size_t rack = 0; rack < cluster.racks.size(); ++rack) {
      for (std::size_t s = 0; s < cluster.servers.size(); ++s) {
        if (cluster.servers[s].rack == rack) order_.push_back(s);
      }
    }
    room_.resize(order_.size() + 1);
    for (std::size_t at = order_.size(); at-- > 0;) {
      room_[at] = room_[at + 1];
      for (std::size_t r = 0; r < gadget::kMostResources; ++r) {
        room_[at][r] += cluster.servers[order_[at]].capacity[r];
      }
    }
  }

  /// `workers`: of each demand; 0: none.
  bool are_there(const std::vector<gadget::Demand>& demands,
                 const std::vector<std::size_t>& workers) {
    demands_ = &demands;
    all_ = &workers;
    tried_.clear();
    return try_server(0, workers, workers);
  }

 private:
  using Workers = std::vector<std::size_t>;

  /// Servers from one on, with so many workers left, and so many when this rack began.
  bool try_server(std::size_t at, const Workers& left, const Workers& at_rack) {
    if (at == order_.size()) return sum(left) == 0 && rack_carries(at - 1, left, at_rack);
    const bool is_new_rack = at > 0 && rack_of(at) != rack_of(at - 1);
    if (is_new_rack && !rack_carries(at - 1, left, at_rack)) return false;
    const Workers& before = is_new_rack ? left : at_rack;
    if (!may_fit(at, left)) return false;
    Workers key = {at};
    key.insert(key.end(), left.begin(), left.end());
    key.insert(key.end(), before.begin(), before.end());
    if (!tried_.insert(key).second) return false;
    const gadget::Server& server = cluster_.servers[order_[at]];
    Workers now = left;
    return fill(at, 0, server.capacity, server.bits_per_second, &now, before);
  }

  /// All that the server could have of the jobs from one on; `left`: after the jobs before it.
  bool fill(std::size_t at, std::size_t job, const gadget::Amounts& free, std::uint64_t link,
            Workers* left, const Workers& at_rack) {
    if (job == left->size()) return try_server(at + 1, *left, at_rack);
    const std::size_t before = (*left)[job];
    gadget::Amounts now = free;
    for (std::size_t here = 0; here <= before; ++here) {
      const bool is_whole = here == (*all_)[job];
      const std::uint64_t rate = (*demands_)[job].ring_bits_per_second;
      if (here == 0 || is_whole || rate <= link) {
        (*left)[job] = before - here;
        const std::uint64_t after = here == 0 || is_whole ? link : link - rate;
        if (fill(at, job + 1, now, after, left, at_rack)) return true;
      }
      if (!take_one((*demands_)[job].worker, &now)) break;
    }
    (*left)[job] = before;
    return false;
  }

  static bool take_one(const gadget::Amounts& worker, gadget::Amounts* free) {
    for (std::size_t r = 0; r < gadget::kMostResources; ++r) {
      if (worker[r] > (*free)[r]) return false;
      (*free)[r] -= worker[r];
    }
    return true;
  }

  /// The rack's uplink, for rings of which some workers are in it and others are not.
  bool rack_carries(std::size_t at, const Workers& left, const Workers& at_rack) const {
    std::uint64_t rate = 0;
    for (std::size_t job = 0; job < left.size(); ++job) {
      const std::size_t here = at_rack[job] - left[job];
      if (here > 0 && here < (*all_)[job]) rate += (*demands_)[job].ring_bits_per_second;
    }
    return rate <= cluster_.racks[rack_of(at)].bits_per_second;
  }

  bool may_fit(std::size_t at, const Workers& left) const {
    for (std::size_t r = 0; r < gadget::kMostResources; ++r) {
      std::uint64_t needed = 0;
      for (std::size_t job = 0; job < left.size(); ++job) {
        needed += left[job] * (*demands_)[job].worker[r];
      }
      if (needed > room_[at][r]) return false;
    }
    return true;
  }

  static std::size_t sum(const Workers& workers) {
    std::size_t all = 0;
    for (const std::size_t some : workers) all += some;
    return all;
  }
  std::size_t rack_of(std::size_t at) const { return cluster_.servers[order_[at]].rack; }

  const gadget::Cluster& cluster_;
  std::vector<std::size_t> order_;     // Of the servers: rack by rack.
  std::vector<gadget::Amounts> room_;  // Of the servers from one on.
  const std::vector<gadget::Demand>* demands_ = nullptr;
  const Workers* all_ = nullptr;
  std::set<Workers> tried_;  // Without success.
};

class ExactSlot {
 public:
  ExactSlot(const gadget::Cluster& cluster, const std::vector<gadget::Bid>& bids)
      : bids_(bids), places_(cluster) {
    for (const gadget::Server& server : cluster.servers) {
      for (std::size_t r = 0; r < gadget::kMostResources; ++r) total_[r] += server.capacity[r];
    }
    for (std::size_t bid = 0; bid < bids.size(); ++bid) add_choices(bid);
    most_of_rest_.resize(bids.size() + 1);
    for (std::size_t bid = bids.size(); bid-- > 0;) {
      double most = 0;
      for (const Choice& choice : choices_[bid]) most = std::max(most, choice.gain);
      most_of_rest_[bid] = most_of_rest_[bid + 1] + most;
    }
  }

  /// `found`: a gain that is known to be possible.
  double most_gain(double found) {
    all_.clear();
    least_ = found * (1 + 1e-12);
    std::vector<std::size_t> chosen;
    collect(total_, 0, &chosen);
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Sizes& a, const Sizes& b) { return a.gain > b.gain; });
    for (const Sizes& sizes : all_) {
      if (is_above_a_failure(sizes)) continue;
      if (have_places(sizes)) return sizes.gain;
      failures_.push_back(sizes);
    }
    return found;
  }

 private:
  struct Choice {
    std::size_t workers = 0;
    gadget::Demand demand;
    double gain = 0;
  };
  /// Of each bid, one of its choices.
  struct Sizes {
    double gain = 0;
    std::vector<std::size_t> chosen;
  };

  /// None, and what gains anything and has a place when it is alone.
  void add_choices(std::size_t bid) {
    choices_.push_back({{0, bids_[bid].demand, 0}});
    for (const bool saves : {false, true}) {
      if (saves && !bids_[bid].saving.has_value()) continue;
      const gadget::Demand demand = bids_[bid].demand_if(saves);
      for (std::size_t workers = 1; workers <= bids_[bid].gains.size(); ++workers) {
        const double gain = bids_[bid].gain(workers, saves);
        if (!(gain > 0) || !places_.are_there({demand}, {workers})) continue;
        choices_.back().push_back({workers, demand, gain});
      }
    }
  }

  /// All sizes that gain more than is known, and for which the cluster has enough in all.
  void collect(const gadget::Amounts& free, double gain, std::vector<std::size_t>* chosen) {
    const std::size_t bid = chosen->size();
    if (gain + most_of_rest_[bid] <= least_) return;
    if (bid == choices_.size()) return all_.push_back({gain, *chosen});
    for (std::size_t i = 0; i < choices_[bid].size(); ++i) {
      const Choice& choice = choices_[bid][i];
      gadget::Amounts left = free;
      bool fits = true;
      for (std::size_t r = 0; r < gadget::kMostResources; ++r) {
        const std::uint64_t needed = choice.workers * choice.demand.worker[r];
        fits &= needed <= left[r];
        left[r] -= needed;
      }
      if (!fits) continue;
      chosen->push_back(i);
      collect(left, gain + choice.gain, chosen);
      chosen->pop_back();
    }
  }

  /// Fewer workers of a ring, and lower rates, have a place wherever more do.
  bool is_above_a_failure(const Sizes& sizes) const {
    return std::any_of(failures_.begin(), failures_.end(), [&](const Sizes& failure) {
      for (std::size_t bid = 0; bid < choices_.size(); ++bid) {
        const Choice& failed = choices_[bid][failure.chosen[bid]];
        const Choice& here = choices_[bid][sizes.chosen[bid]];
        if (failed.workers == 0) continue;
        if (here.workers < failed.workers) return false;
        if (here.demand.ring_bits_per_second < failed.demand.ring_bits_per_second) return false;
      }
      return true;
    });
  }

  bool have_places(const Sizes& sizes) {
    std::vector<gadget::Demand> demands;
    std::vector<std::size_t> workers;
    for (std::size_t bid = 0; bid < choices_.size(); ++bid) {
      const Choice& choice = choices_[bid][sizes.chosen[bid]];
      if (choice.workers == 0) continue;
      demands.push_back(choice.demand);
      workers.push_back(choice.workers);
    }
    return places_.are_there(demands, workers);
  }

  const std::vector<gadget::Bid>& bids_;
  ExactPlaces places_;
  gadget::Amounts total_ = {};
  std::vector<std::vector<Choice>> choices_;  // Of each bid, the first one none.
  std::vector<double> most_of_rest_;          // That bids from one on could gain.
  double least_ = 0;
  std::vector<Sizes> all_, failures_;
};

}  // namespace ringpress::perf

#endif  // PERF_GADGET_EXACT_SLOT_H_
