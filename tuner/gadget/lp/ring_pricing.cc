#include "tuner/gadget/lp/ring_pricing.h"

#include <algorithm>
#include <limits>

namespace ringpress::gadget {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What each number of workers costs at one place. kNever: more than fit.
using Costs = std::vector<double>;

/// The cheapest way to spread workers over places.
class Spread {
 public:
  explicit Spread(std::size_t most_workers) : costs_(most_workers + 1, kNever) { costs_[0] = 0; }

  void add(const Costs& place) {
    Costs next(costs_.size(), kNever);
    std::vector<std::size_t> taken(costs_.size());
    for (std::size_t all = 0; all < costs_.size(); ++all) {
      for (std::size_t here = 0; here <= all; ++here) {
        const double cost = costs_[all - here] + place[here];
        if (cost >= next[all]) continue;
        next[all] = cost;
        taken[all] = here;
      }
    }
    costs_ = std::move(next);
    taken_.push_back(std::move(taken));
  }

  const Costs& costs() const { return costs_; }

  /// How many of the workers are at each place.
  std::vector<std::size_t> of(std::size_t workers) const {
    std::vector<std::size_t> places(taken_.size());
    for (std::size_t i = taken_.size(); i-- > 0;) {
      places[i] = taken_[i][workers];
      workers -= places[i];
    }
    return places;
  }

 private:
  Costs costs_;
  std::vector<std::vector<std::size_t>> taken_;  // By place and number so far.
};

class Pricing {
 public:
  Pricing(const Cluster& cluster, const Demand& demand, std::size_t most_workers,
          const Prices& prices)
      : cluster_(cluster),
        demand_(demand),
        prices_(prices),
        most_(most_workers),
        rate_(static_cast<double>(demand.ring_bits_per_second)),
        in_rack_(cluster.racks.size(), Spread(most_)),
        servers_(cluster.racks.size()),
        racks_(most_) {
    for (std::size_t s = 0; s < cluster.servers.size(); ++s) add_server(s);
    for (std::size_t rack = 0; rack < cluster.racks.size(); ++rack) add_rack(rack);
  }

  /// The cheapest place of a ring, and its price; kNever: there is none.
  double find(std::size_t workers, std::vector<Share>* shares) const {
    double price = one_server(workers, shares);
    if (workers < 2) return price;
    for (std::size_t rack = 0; rack < in_rack_.size(); ++rack) {
      if (in_rack_[rack].costs()[workers] >= price) continue;
      price = in_rack_[rack].costs()[workers];
      shares->clear();
      append(rack, workers, shares);
    }
    if (racks_.costs()[workers] >= price) return price;
    shares->clear();
    const std::vector<std::size_t> places = racks_.of(workers);
    for (std::size_t rack = 0; rack < places.size(); ++rack) append(rack, places[rack], shares);
    return racks_.costs()[workers];
  }

 private:
  std::size_t room(std::size_t server) const {
    std::size_t workers = most_;
    for (std::size_t r = 0; r < kMostResources; ++r) {
      if (demand_.worker[r] == 0) continue;
      workers =
          std::min<std::size_t>(workers, cluster_.servers[server].capacity[r] / demand_.worker[r]);
    }
    return workers;
  }

  double price_of_worker(std::size_t server) const {
    double price = 0;
    for (std::size_t r = 0; r < kMostResources; ++r) {
      price += prices_.servers[server][r] * static_cast<double>(demand_.worker[r]);
    }
    return price;
  }

  void add_server(std::size_t server) {
    const bool has_link = cluster_.servers[server].bits_per_second >= demand_.ring_bits_per_second;
    Costs costs(most_ + 1, kNever);
    costs[0] = 0;
    for (std::size_t workers = 1; has_link && workers <= room(server); ++workers) {
      costs[workers] = static_cast<double>(workers) * price_of_worker(server) +
                       rate_ * prices_.server_links[server];
    }
    const std::size_t rack = cluster_.servers[server].rack;
    in_rack_[rack].add(costs);
    servers_[rack].push_back(server);
  }

  void add_rack(std::size_t rack) {
    const bool has_link = cluster_.racks[rack].bits_per_second >= demand_.ring_bits_per_second;
    Costs costs = in_rack_[rack].costs();
    for (std::size_t workers = 1; workers <= most_; ++workers) {
      costs[workers] = has_link ? costs[workers] + rate_ * prices_.rack_links[rack] : kNever;
    }
    racks_.add(costs);
  }

  double one_server(std::size_t workers, std::vector<Share>* shares) const {
    double price = kNever;
    for (std::size_t s = 0; s < cluster_.servers.size(); ++s) {
      const double here = static_cast<double>(workers) * price_of_worker(s);
      if (room(s) < workers || here >= price) continue;
      price = here;
      *shares = {{s, workers}};
    }
    return price;
  }

  void append(std::size_t rack, std::size_t workers, std::vector<Share>* shares) const {
    const std::vector<std::size_t> places = in_rack_[rack].of(workers);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] > 0) shares->push_back({servers_[rack][i], places[i]});
    }
  }

  const Cluster& cluster_;
  const Demand demand_;
  const Prices& prices_;
  const std::size_t most_;
  const double rate_;
  std::vector<Spread> in_rack_;                    // Over the servers of each rack, with uplinks.
  std::vector<std::vector<std::size_t>> servers_;  // Of each rack, in that order.
  Spread racks_;                                   // Over racks, with theirs.
};

}  // namespace

PricedRing best_ring(const Cluster& cluster, const std::vector<Bid>& bids, std::size_t bid,
                     std::size_t workers, const Prices& prices) {
  const std::size_t most = bids[bid].gains.size();
  PricedRing best;
  if (most == 0) return best;
  for (const bool saves : {false, true}) {
    if (saves && !bids[bid].saving.has_value()) continue;
    const Pricing pricing(cluster, bids[bid].demand_if(saves), most, prices);
    const std::size_t last = workers == 0 ? most : workers;
    for (std::size_t count = workers == 0 ? 1 : workers; count <= last; ++count) {
      const double gain = bids[bid].gain(count, saves);
      if (!(gain > 0)) continue;
      std::vector<Share> shares;
      const double price = pricing.find(count, &shares);
      if (price == kNever) continue;
      if (best.is_there() && gain - price <= best.gain - best.price) continue;
      best = {{bid, std::move(shares), saves}, gain, price};
    }
  }
  return best;
}

}  // namespace ringpress::gadget
