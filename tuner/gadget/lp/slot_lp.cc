#include "ringpress/internal/slot_lp.h"

#include <Clp_C_Interface.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "tuner/gadget/lp/ring_pricing.h"

namespace ringpress::gadget {
namespace {

constexpr double kNoGain = 1e-7;  // Of the largest gain: what a better variable must add.
constexpr int kMostRounds = 500;  // Of column generation.
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kDraws = 64;  // Rounds of random draws.

/// The time that a slot may take.
class Watch {
 public:
  explicit Watch(double seconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}

  double seconds_left() const {
    return std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count();
  }
  bool is_over() const { return seconds_left() <= 0; }

 private:
  const std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

double largest_gain(const std::vector<Bid>& bids) {
  double largest = 0;
  for (const Bid& bid : bids) {
    for (const double gain : bid.gains) largest = std::max(largest, gain);
  }
  return largest;
}

/// The programme: a row for each bid (one ring at most), each resource of each server, each uplink.
/// All capacities are 1: rows are divided by them.
class Programme {
 public:
  Programme(const Cluster& cluster, const std::vector<Bid>& bids)
      : cluster_(cluster),
        bids_(bids),
        resources_(cluster.resources.size()),
        model_(Clp_newModel(), &Clp_deleteModel) {
    Clp_setLogLevel(model_.get(), 0);
    const std::size_t rows = rack_row(cluster.racks.size());
    const std::vector<double> upper(rows, 1), lower(rows, -std::numeric_limits<double>::max());
    const std::vector<int> starts(rows + 1);
    Clp_addRows(model_.get(), static_cast<int>(rows), lower.data(), upper.data(), starts.data(),
                nullptr, nullptr);
  }

  void add(const Ring& ring, double gain) {
    rings_.push_back(ring);
    gains_.push_back(gain);
    std::vector<int> rows;
    std::vector<double> elements;
    const auto put = [&](std::size_t row, double used) {
      rows.push_back(static_cast<int>(row));
      elements.push_back(used);
    };
    put(ring.job, 1);
    const Demand demand = bids_[ring.job].demand_if(ring.saves);
    const auto rate = static_cast<double>(demand.ring_bits_per_second);
    for (const Share& share : ring.shares) {
      for (std::size_t r = 0; r < resources_; ++r) {
        const std::uint64_t used = share.workers * demand.worker[r];
        if (used > 0)
          put(server_row(share.server, r), static_cast<double>(used) / capacity(share.server, r));
      }
      if (ring.shares.size() > 1 && rate > 0)
        put(link_row(share.server), rate / link(share.server));
    }
    const std::vector<std::size_t> racks = racks_of(ring);
    for (const std::size_t rack : racks) {
      if (racks.size() > 1 && rate > 0) put(rack_row(rack), rate / rack_link(rack));
    }
    const double lower = 0, upper = 1, cost = -gain;
    const int starts[] = {0, static_cast<int>(rows.size())};
    Clp_addColumns(model_.get(), 1, &lower, &upper, &cost, starts, rows.data(), elements.data());
  }

  /// Smallest cost, which is the largest gain; unless the time is over.
  void solve(const Watch& watch) {
    Clp_setMaximumSeconds(model_.get(), std::max(0.0, watch.seconds_left()));
    Clp_primal(model_.get(), 0);
  }
  double gain() const { return -Clp_objectiveValue(model_.get()); }

  /// Per unit of what there is.
  Prices prices() const {
    Prices prices;
    for (std::size_t s = 0; s < cluster_.servers.size(); ++s) {
      auto& server = prices.servers.emplace_back();
      for (std::size_t r = 0; r < resources_; ++r) {
        if (capacity(s, r) > 0) server[r] = row_price(server_row(s, r)) / capacity(s, r);
      }
      prices.server_links.push_back(row_price(link_row(s)) / link(s));
    }
    for (std::size_t rack = 0; rack < cluster_.racks.size(); ++rack) {
      prices.rack_links.push_back(row_price(rack_row(rack)) / rack_link(rack));
    }
    return prices;
  }
  double job_price(std::size_t job) const { return row_price(job); }

  const std::vector<Ring>& rings() const { return rings_; }
  double gain_of(std::size_t variable) const { return gains_[variable]; }
  double value(std::size_t variable) const {
    return Clp_primalColumnSolution(model_.get())[variable];
  }

 private:
  std::size_t server_row(std::size_t server, std::size_t resource) const {
    return bids_.size() + server * resources_ + resource;
  }
  std::size_t link_row(std::size_t server) const {
    return server_row(cluster_.servers.size(), 0) + server;
  }
  std::size_t rack_row(std::size_t rack) const { return link_row(cluster_.servers.size()) + rack; }

  double capacity(std::size_t server, std::size_t resource) const {
    return static_cast<double>(cluster_.servers[server].capacity[resource]);
  }
  double link(std::size_t server) const {
    return static_cast<double>(cluster_.servers[server].bits_per_second);
  }
  double rack_link(std::size_t rack) const {
    return static_cast<double>(cluster_.racks[rack].bits_per_second);
  }

  std::vector<std::size_t> racks_of(const Ring& ring) const {
    std::vector<std::size_t> racks;
    for (const Share& share : ring.shares) {
      const std::size_t rack = cluster_.servers[share.server].rack;
      if (racks.empty() || racks.back() != rack) racks.push_back(rack);
    }
    return racks;
  }

  /// Costs are gains with a minus, so the price of a row is its dual value with a minus.
  double row_price(std::size_t row) const {
    return std::max(0.0, -Clp_dualRowSolution(model_.get())[row]);
  }

  const Cluster& cluster_;
  const std::vector<Bid>& bids_;
  const std::size_t resources_;
  std::unique_ptr<Clp_Simplex, decltype(&Clp_deleteModel)> model_;
  std::vector<Ring> rings_;  // Of the variables.
  std::vector<double> gains_;
};

/// Adds variables until none would gain. `sizes`: of each bid, the only number of workers that is
/// allowed; 0: any. False: the time was over.
bool generate(const Cluster& cluster, const std::vector<Bid>& bids,
              const std::vector<std::size_t>& sizes, const Watch& watch, Programme* programme) {
  const double least = kNoGain * largest_gain(bids);
  programme->solve(watch);
  for (int round = 0; round < kMostRounds; ++round) {
    const Prices prices = programme->prices();
    bool is_better = false;
    for (std::size_t bid = 0; bid < bids.size(); ++bid) {
      if (watch.is_over()) return false;
      const PricedRing found = best_ring(cluster, bids, bid, sizes[bid], prices);
      const double more = found.gain - found.price - programme->job_price(bid);
      if (!found.is_there() || more <= least) continue;
      programme->add(found.ring, found.gain);
      is_better = true;
    }
    if (!is_better) break;
    programme->solve(watch);
  }
  return !watch.is_over();
}

/// Of each bid the number of workers with the most of the relaxed gain; 0: none.
std::vector<std::size_t> sizes_of(const Programme& programme, const std::vector<Bid>& bids) {
  std::vector<std::vector<double>> gains;
  gains.reserve(bids.size());
  for (const Bid& bid : bids) gains.emplace_back(bid.gains.size() + 1);
  for (std::size_t i = 0; i < programme.rings().size(); ++i) {
    const Ring& ring = programme.rings()[i];
    gains[ring.job][ring.workers()] += programme.gain_of(i) * programme.value(i);
  }
  std::vector<std::size_t> sizes;
  for (const std::vector<double>& of_size : gains) {
    const auto most = std::max_element(of_size.begin(), of_size.end());
    sizes.push_back(*most > 0 ? static_cast<std::size_t>(most - of_size.begin()) : 0);
  }
  return sizes;
}

/// One draw for each bid, in random order; what does not fit beside those before is left out.
std::vector<Ring> draw_rings(const Cluster& cluster, const std::vector<Bid>& bids,
                             const Programme& programme, std::mt19937_64* random) {
  std::vector<std::size_t> order(bids.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> marks;  // Where in [0, 1) the draw of each bid is.
  for (std::size_t i = order.size(); i > 0; --i) {
    std::swap(order[i - 1], order[(*random)() % i]);
    marks.push_back(static_cast<double>((*random)() >> 11) * 0x1p-53);
  }
  std::vector<std::vector<std::size_t>> variables(bids.size());
  for (std::size_t i = 0; i < programme.rings().size(); ++i) {
    variables[programme.rings()[i].job].push_back(i);
  }
  std::vector<Ring> rings;
  for (const std::size_t bid : order) {
    double passed = 0;
    for (const std::size_t variable : variables[bid]) {
      passed += programme.value(variable);
      if (marks[bid] >= passed) continue;
      rings.push_back(programme.rings()[variable]);
      if (!check(cluster, bids, rings).is_ok()) rings.pop_back();
      break;
    }
  }
  return rings;
}

}  // namespace

LpSlot solve_slot_lp(const Cluster& cluster, const std::vector<Bid>& bids, double seconds) {
  const Watch watch(seconds);
  const LpSlot late = {{}, 0, false};
  LpSlot slot;
  if (largest_gain(bids) <= 0) return slot;
  Programme relaxed(cluster, bids);
  if (!generate(cluster, bids, std::vector<std::size_t>(bids.size()), watch, &relaxed)) return late;
  slot.bound = relaxed.gain();
  std::vector<Bid> fixed = bids;
  const std::vector<std::size_t> sizes = sizes_of(relaxed, bids);
  for (std::size_t bid = 0; bid < bids.size(); ++bid) {
    if (sizes[bid] == 0) fixed[bid].gains.clear();
  }
  Programme sized(cluster, bids);
  if (!generate(cluster, fixed, sizes, watch, &sized)) return late;
  std::mt19937_64 random(kSeed);
  double most = -1;
  for (std::size_t round = 0; round < kDraws; ++round) {
    if (watch.is_over()) return late;
    std::vector<Ring> rings = draw_rings(cluster, bids, sized, &random);
    const double gain = gain_of(bids, rings);
    if (gain <= most) continue;
    most = gain;
    slot.rings = std::move(rings);
  }
  return slot;
}

}  // namespace ringpress::gadget
