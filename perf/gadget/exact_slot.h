// The largest gain of a slot, by trying all that bids could get: branch and bound. For small
// clusters whose servers have one resource.
#ifndef PERF_GADGET_EXACT_SLOT_H_
#define PERF_GADGET_EXACT_SLOT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringpress/gadget.h"

namespace ringpress::perf {

class ExactSlot {
 public:
  ExactSlot(const gadget::Cluster& cluster, const std::vector<gadget::Bid>& bids)
      : cluster_(cluster), bids_(bids), rack_links_(cluster.racks.size()) {
    std::size_t gpus = 0;
    for (const gadget::Server& server : cluster.servers) {
      free_.push_back(server.capacity[0]);
      links_.push_back(server.bits_per_second);
      gpus += server.capacity[0];
    }
    for (std::size_t i = 0; i < cluster.racks.size(); ++i) {
      rack_links_[i] = cluster.racks[i].bits_per_second;
    }
    find_bounds(gpus);
  }

  /// `found`: a gain that is known to be possible.
  double most_gain(double found) {
    best_ = found;
    try_job(0, 0);
    return best_;
  }

 private:
  using Shares = std::vector<std::size_t>;  // Workers by server.

  /// What jobs from one on can gain at most with so many GPUs, wherever they are.
  void find_bounds(std::size_t gpus) {
    bounds_.assign(bids_.size() + 1, std::vector<double>(gpus + 1));
    for (std::size_t job = bids_.size(); job-- > 0;) {
      for (std::size_t some = 0; some <= gpus; ++some) {
        double most = bounds_[job + 1][some];
        for (std::size_t k = 1; k <= bids_[job].gains.size(); ++k) {
          const std::size_t taken = k * bids_[job].demand.worker[0];
          if (taken > some) break;
          most = std::max(most, bids_[job].gains[k - 1] + bounds_[job + 1][some - taken]);
        }
        bounds_[job][some] = most;
      }
    }
  }

  double bound(std::size_t job) const {
    std::size_t gpus = 0;
    for (const std::uint64_t some : free_) gpus += some;
    return bounds_[job][gpus];
  }

  void try_job(std::size_t job, double gain) {
    best_ = std::max(best_, gain);
    if (job == bids_.size() || gain + bound(job) <= best_ * (1 + 1e-12)) return;
    for (std::size_t k = bids_[job].gains.size(); k > 0; --k) {
      Shares shares(free_.size());
      try_server(job, gain + bids_[job].gains[k - 1], 0, k, &shares);
    }
    try_job(job + 1, gain);
  }

  /// All ways to put the workers that are left on servers from one on.
  void try_server(std::size_t job, double gain, std::size_t server, std::size_t left,
                  Shares* shares) {
    if (left == 0) return try_shares(job, gain, *shares);
    if (server == free_.size()) return;
    const std::size_t room = free_[server] / bids_[job].demand.worker[0];
    for (std::size_t some = std::min(room, left) + 1; some-- > 0;) {
      (*shares)[server] = some;
      try_server(job, gain, server + 1, left - some, shares);
    }
    (*shares)[server] = 0;
  }

  void try_shares(std::size_t job, double gain, const Shares& shares) {
    if (take(bids_[job].demand, shares, -1)) try_job(job + 1, gain);
    take(bids_[job].demand, shares, 1);
  }

  /// Takes (-1) or gives back (1); false if a link has too little.
  bool take(const gadget::Demand& demand, const Shares& shares, std::int64_t sign) {
    std::vector<bool> is_used(rack_links_.size());
    std::size_t servers = 0;
    for (std::size_t s = 0; s < shares.size(); ++s) {
      if (shares[s] == 0) continue;
      free_[s] += sign * static_cast<std::int64_t>(shares[s] * demand.worker[0]);
      is_used[cluster_.servers[s].rack] = true;
      ++servers;
    }
    const auto racks = std::count(is_used.begin(), is_used.end(), true);
    const std::int64_t rate = sign * static_cast<std::int64_t>(demand.ring_bits_per_second);
    bool fits = true;
    for (std::size_t s = 0; s < shares.size() && servers > 1; ++s) {
      if (shares[s] > 0) fits &= (links_[s] += rate) >= 0;
    }
    for (std::size_t i = 0; i < is_used.size() && racks > 1; ++i) {
      if (is_used[i]) fits &= (rack_links_[i] += rate) >= 0;
    }
    return fits;
  }

  const gadget::Cluster& cluster_;
  const std::vector<gadget::Bid>& bids_;
  std::vector<std::uint64_t> free_;
  std::vector<std::int64_t> links_, rack_links_;
  std::vector<std::vector<double>> bounds_;
  double best_ = 0;
};

}  // namespace ringpress::perf

#endif  // PERF_GADGET_EXACT_SLOT_H_
