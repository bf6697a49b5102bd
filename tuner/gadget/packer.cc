#include "tuner/gadget/packer.h"

#include <algorithm>
#include <limits>

namespace ringpress::gadget {
namespace {

std::uint64_t key_of(std::uint64_t amount, std::size_t server) {
  return amount << 32 | server;
}
std::size_t server_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(key);
}

/// Moves an entry to where its new key belongs.
void move_key(std::vector<std::uint64_t>* order, std::uint64_t old_key, std::uint64_t new_key) {
  const auto from = std::lower_bound(order->begin(), order->end(), old_key);
  const auto to = std::lower_bound(order->begin(), order->end(), new_key);
  if (from < to) {
    std::move(from + 1, to, from);
    *(to - 1) = new_key;
  } else {
    std::move_backward(to, from, from + 1);
    *to = new_key;
  }
}

void append(const std::vector<Share>& more, std::vector<Share>* shares) {
  shares->insert(shares->end(), more.begin(), more.end());
}

}  // namespace

Packer::Packer(const Cluster& cluster) : cluster_(&cluster), rack_orders_(cluster.racks.size()) {
  for (const Rack& rack : cluster.racks) rack_links_.push_back(rack.bits_per_second);
  for (std::size_t s = 0; s < cluster.servers.size(); ++s) {
    const Server& server = cluster.servers[s];
    free_.push_back(server.capacity);
    links_.push_back(server.bits_per_second);
    for (std::size_t r = 0; r < kMostResources; ++r) total_[r] += server.capacity[r];
    order_.push_back(key_of(server.capacity[0], s));
    rack_orders_[server.rack].push_back(order_.back());
  }
  std::sort(order_.begin(), order_.end());
  for (Order& order : rack_orders_) std::sort(order.begin(), order.end());
}

std::vector<Share> Packer::place(const Demand& demand, std::size_t workers) {
  std::vector<Share> shares = one_server(demand, workers);
  if (shares.empty() && workers > 1) shares = one_rack(demand, workers);
  if (shares.empty() && workers > 1) shares = several_racks(demand, workers);
  take(demand, shares);
  return shares;
}

void Packer::take(const Demand& demand, const std::vector<Share>& shares) {
  change(demand, shares, /*takes=*/true);
}

void Packer::give_back(const Demand& demand, const std::vector<Share>& shares) {
  change(demand, shares, /*takes=*/false);
}

bool Packer::may_fit(const Demand& demand, std::size_t workers) const {
  for (std::size_t r = 0; r < kMostResources; ++r) {
    if (demand.worker[r] * workers > total_[r]) return false;
  }
  return true;
}

std::size_t Packer::workers_at(std::size_t server, const Demand& demand) const {
  std::uint64_t workers = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t r = 0; r < kMostResources; ++r) {
    if (demand.worker[r] > 0) workers = std::min(workers, free_[server][r] / demand.worker[r]);
  }
  return workers;
}

std::vector<Share> Packer::one_server(const Demand& demand, std::size_t workers) const {
  const std::uint64_t least = key_of(workers * demand.worker[0], 0);
  for (auto at = std::lower_bound(order_.begin(), order_.end(), least); at != order_.end(); ++at) {
    if (workers_at(server_of(*at), demand) >= workers) return {{server_of(*at), workers}};
  }
  return {};
}

Share Packer::fullest_for(std::size_t rack, const Demand& demand, std::size_t workers) const {
  const Order& order = rack_orders_[rack];
  const std::uint64_t least = key_of(workers * demand.worker[0], 0);
  for (auto at = std::lower_bound(order.begin(), order.end(), least); at != order.end(); ++at) {
    const std::size_t server = server_of(*at);
    if (has_uplink(server, demand) && workers_at(server, demand) >= workers) {
      return {server, workers};
    }
  }
  RINGPRESS_EXPECTS(false, "no server of the rack has room for the last workers");
  return {};
}

Packer::Find Packer::in_rack(std::size_t rack, const Demand& demand, std::size_t workers) const {
  Find find;
  const Order& order = rack_orders_[rack];
  for (auto at = order.rbegin(); at != order.rend() && find.workers < workers; ++at) {
    const std::size_t server = server_of(*at);
    if (free_[server][0] < demand.worker[0]) break;
    const std::size_t room = workers_at(server, demand);
    if (room == 0 || !has_uplink(server, demand)) continue;
    const std::size_t left = workers - find.workers;
    const Share share = room < left ? Share{server, room} : fullest_for(rack, demand, left);
    find.shares.push_back(share);
    find.workers += share.workers;
  }
  return find;
}

std::vector<Share> Packer::one_rack(const Demand& demand, std::size_t workers) const {
  std::vector<Share> best;
  for (std::size_t rack = 0; rack < rack_orders_.size(); ++rack) {
    Find find = in_rack(rack, demand, workers);
    if (find.workers < workers) continue;
    if (best.empty() || find.shares.size() < best.size()) best = std::move(find.shares);
    if (best.size() == 2) break;  // One would have been found.
  }
  return best;
}

std::vector<Share> Packer::several_racks(const Demand& demand, std::size_t workers) const {
  std::vector<Find> finds;
  std::size_t room = 0;
  for (std::size_t rack = 0; rack < rack_orders_.size(); ++rack) {
    if (rack_links_[rack] < demand.ring_bits_per_second) continue;
    Find find = in_rack(rack, demand, workers);
    if (find.workers == 0) continue;
    room += find.workers;
    finds.push_back(std::move(find));
  }
  if (room < workers) return {};
  std::stable_sort(finds.begin(), finds.end(),
                   [](const Find& a, const Find& b) { return a.workers > b.workers; });
  std::vector<Share> shares;
  std::size_t left = workers;
  for (std::size_t i = 0; left > 0; ++i) {
    std::size_t last = i;
    while (last + 1 < finds.size() && finds[last + 1].workers >= left) ++last;
    if (finds[i].workers < left) {
      append(finds[i].shares, &shares);
      left -= finds[i].workers;
      continue;
    }
    const std::size_t rack = cluster_->servers[finds[last].shares[0].server].rack;
    append(in_rack(rack, demand, left).shares, &shares);
    left = 0;
  }
  return shares;
}

bool Packer::spans_racks(const std::vector<Share>& shares) const {
  return std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
    return cluster_->servers[share.server].rack != cluster_->servers[shares[0].server].rack;
  });
}

void Packer::change(const Demand& demand, const std::vector<Share>& shares, bool takes) {
  const auto add = [&](std::uint64_t* amount, std::uint64_t some) {
    *amount = takes ? *amount - some : *amount + some;
  };
  const bool spans = spans_racks(shares);
  std::size_t last_rack = cluster_->racks.size();
  for (const Share& share : shares) {
    Amounts amounts = free_[share.server];
    for (std::size_t r = 0; r < kMostResources; ++r) {
      add(&amounts[r], share.workers * demand.worker[r]);
      add(&total_[r], share.workers * demand.worker[r]);
    }
    set_free(share.server, amounts);
    if (shares.size() > 1) add(&links_[share.server], demand.ring_bits_per_second);
    const std::size_t rack = cluster_->servers[share.server].rack;
    if (spans && rack != last_rack) add(&rack_links_[rack], demand.ring_bits_per_second);
    last_rack = rack;
  }
}

void Packer::set_free(std::size_t server, const Amounts& amounts) {
  const std::uint64_t old_key = key_of(free_[server][0], server);
  const std::uint64_t new_key = key_of(amounts[0], server);
  free_[server] = amounts;
  if (old_key == new_key) return;
  move_key(&order_, old_key, new_key);
  move_key(&rack_orders_[cluster_->servers[server].rack], old_key, new_key);
}

}  // namespace ringpress::gadget
