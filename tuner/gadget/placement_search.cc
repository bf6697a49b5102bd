#include "tuner/gadget/placement_search.h"

#include <algorithm>
#include <limits>

#include "ringpress/internal/hash.h"

namespace ringpress::gadget {
namespace {

void change(const Cluster& cluster, const Demand& demand, const std::vector<Share>& shares,
            bool takes, Free* free) {
  const auto add = [&](std::uint64_t* amount, std::uint64_t some) {
    *amount = takes ? *amount - some : *amount + some;
  };
  const auto rack_of = [&](const Share& share) { return cluster.servers[share.server].rack; };
  const bool spans_racks = std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
    return rack_of(share) != rack_of(shares[0]);
  });
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    for (std::size_t r = 0; r < kMostResources; ++r) {
      add(&free->servers[share.server][r], share.workers * demand.worker[r]);
    }
    if (shares.size() > 1) add(&free->links[share.server], demand.ring_bits_per_second);
    const bool is_first_of_rack = i == 0 || rack_of(share) != rack_of(shares[i - 1]);
    if (spans_racks && is_first_of_rack) {
      add(&free->rack_links[rack_of(share)], demand.ring_bits_per_second);
    }
  }
}

}  // namespace

Free::Free(const Cluster& cluster) {
  for (const Server& server : cluster.servers) {
    servers.push_back(server.capacity);
    links.push_back(server.bits_per_second);
  }
  for (const Rack& rack : cluster.racks) rack_links.push_back(rack.bits_per_second);
}

void take(const Cluster& cluster, const Demand& demand, const std::vector<Share>& shares,
          Free* free) {
  change(cluster, demand, shares, /*takes=*/true, free);
}

void give_back(const Cluster& cluster, const Demand& demand, const std::vector<Share>& shares,
               Free* free) {
  change(cluster, demand, shares, /*takes=*/false, free);
}

PlacementSearch::Answer PlacementSearch::find(const Free& free, const std::vector<Wanted>& wanted,
                                              std::size_t* steps,
                                              std::vector<std::vector<Share>>* placements) {
  free_ = free;
  wanted_ = wanted;
  placements_.assign(wanted.size(), {});
  steps_ = steps;
  has_given_up_ = false;
  failed_.clear();
  if (!place_from(0)) return has_given_up_ ? Answer::kUnknown : Answer::kNone;
  *placements = placements_;
  return Answer::kFound;
}

bool PlacementSearch::may_step() {
  has_given_up_ |= *steps_ == 0;
  if (has_given_up_) return false;
  --*steps_;
  return true;
}

bool PlacementSearch::place_from(std::size_t item) {
  if (item == wanted_.size()) return true;
  if (!may_step() || !has_room_from(item)) return false;
  const std::uint64_t state = state_of(item);
  if (failed_.count(state) > 0) return false;
  if (on_one_server(item) || on_several(item)) return true;
  if (!has_given_up_) failed_.insert(state);
  return false;
}

/// The server that has least left over first: of the part of what there is in all.
bool PlacementSearch::on_one_server(std::size_t item) {
  const Wanted& ring = wanted_[item];
  std::vector<std::pair<double, std::size_t>> servers;
  for (std::size_t s = 0; s < free_.servers.size(); ++s) {
    if (room_at(s, ring.demand) < ring.workers) continue;
    double left = 0;
    for (std::size_t r = 0; r < kMostResources; ++r) {
      const std::uint64_t taken = ring.workers * ring.demand.worker[r];
      const auto capacity = static_cast<double>(cluster_.servers[s].capacity[r]);
      if (capacity > 0) left += static_cast<double>(free_.servers[s][r] - taken) / capacity;
    }
    servers.emplace_back(left, s);
  }
  std::sort(servers.begin(), servers.end());
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const std::size_t server = servers[i].second;
    const bool is_tried =
        std::any_of(servers.begin(), servers.begin() + static_cast<long>(i),
                    [&](const auto& other) { return are_equal(other.second, server); });
    if (!is_tried && take_and_go_on(item, {{server, ring.workers}})) return true;
  }
  return false;
}

bool PlacementSearch::on_several(std::size_t item) {
  const Wanted& ring = wanted_[item];
  if (ring.workers < 2) return false;
  const std::vector<Host> hosts = hosts_for(ring.demand);
  shares_.clear();
  return spread(item, hosts, 0, ring.workers);
}

/// Servers with room and an uplink for the ring, rack by rack: the one with most room first.
std::vector<PlacementSearch::Host> PlacementSearch::hosts_for(const Demand& demand) const {
  std::vector<Host> hosts;
  std::vector<std::size_t> of_racks(cluster_.racks.size());
  for (std::size_t s = 0; s < free_.servers.size(); ++s) {
    const std::size_t room = room_at(s, demand);
    if (room == 0 || free_.links[s] < demand.ring_bits_per_second) continue;
    hosts.push_back({s, room});
    of_racks[cluster_.servers[s].rack] += room;
  }
  std::sort(hosts.begin(), hosts.end(), [&](const Host& a, const Host& b) {
    const std::size_t rack = cluster_.servers[a.server].rack;
    const std::size_t other = cluster_.servers[b.server].rack;
    if (of_racks[rack] != of_racks[other]) return of_racks[rack] > of_racks[other];
    if (rack != other) return rack < other;
    return a.room != b.room ? a.room > b.room : a.server < b.server;
  });
  return hosts;
}

/// Workers that the host may have; a server like the one before it no more than that one.
std::size_t PlacementSearch::most_at(const std::vector<Host>& hosts, std::size_t at,
                                     std::size_t left) const {
  std::size_t most = std::min(hosts[at].room, left);
  if (at == 0 || !are_equal(hosts[at - 1].server, hosts[at].server)) return most;
  const bool has_some = !shares_.empty() && shares_.back().server == hosts[at - 1].server;
  return std::min(most, has_some ? shares_.back().workers : 0);
}

/// Whether the ring may go on to this server: over the uplinks of racks, if there are several.
bool PlacementSearch::may_cross(const Demand& demand, std::size_t server) const {
  if (shares_.empty()) return true;
  const std::size_t rack = cluster_.servers[server].rack;
  const std::size_t last = cluster_.servers[shares_.back().server].rack;
  return rack == last || (free_.rack_links[rack] >= demand.ring_bits_per_second &&
                          free_.rack_links[last] >= demand.ring_bits_per_second);
}

bool PlacementSearch::spread(std::size_t item, const std::vector<Host>& hosts, std::size_t at,
                             std::size_t left) {
  if (left == 0) {
    const std::vector<Share> shares = shares_;
    const bool is_placed = take_and_go_on(item, shares);
    shares_ = shares;
    return is_placed;
  }
  std::size_t room = 0;
  for (std::size_t i = at; i < hosts.size(); ++i) room += hosts[i].room;
  if (room < left || !may_step()) return false;
  const std::size_t server = hosts[at].server;
  if (may_cross(wanted_[item].demand, server)) {
    for (std::size_t here = most_at(hosts, at, left); here > 0; --here) {
      if (here == wanted_[item].workers) continue;  // All on one server.
      shares_.push_back({server, here});
      const bool is_placed = spread(item, hosts, at + 1, left - here);
      shares_.pop_back();
      if (is_placed || has_given_up_) return is_placed;
    }
  }
  return spread(item, hosts, at + 1, left);
}

bool PlacementSearch::take_and_go_on(std::size_t item, const std::vector<Share>& shares) {
  take(cluster_, wanted_[item].demand, shares, &free_);
  placements_[item] = shares;
  if (place_from(item + 1)) return true;
  give_back(cluster_, wanted_[item].demand, shares, &free_);
  return false;
}

/// Whether each of the rest would have a place if it were alone, but for the uplinks of racks; and
/// whether there is enough for all of them on the servers on which any of them could have a worker.
bool PlacementSearch::has_room_from(std::size_t item) const {
  std::vector<bool> is_useful(free_.servers.size());
  Amounts needed = {};
  for (std::size_t i = item; i < wanted_.size(); ++i) {
    const Wanted& ring = wanted_[i];
    std::size_t most = 0, linked = 0;
    for (std::size_t s = 0; s < free_.servers.size(); ++s) {
      const std::size_t room = room_at(s, ring.demand);
      const bool has_link = free_.links[s] >= ring.demand.ring_bits_per_second;
      most = std::max(most, room);
      if (has_link) linked += room;
      if (room >= ring.workers || (has_link && room > 0)) is_useful[s] = true;
    }
    if (most < ring.workers && linked < ring.workers) return false;
    for (std::size_t r = 0; r < kMostResources; ++r) {
      needed[r] += ring.workers * ring.demand.worker[r];
    }
  }
  for (std::size_t r = 0; r < kMostResources; ++r) {
    std::uint64_t useful = 0;
    for (std::size_t s = 0; s < free_.servers.size(); ++s) {
      if (is_useful[s]) useful += free_.servers[s][r];
    }
    if (useful < needed[r]) return false;
  }
  return true;
}

std::size_t PlacementSearch::room_at(std::size_t server, const Demand& demand) const {
  std::uint64_t workers = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t r = 0; r < kMostResources; ++r) {
    if (demand.worker[r] == 0) continue;
    workers = std::min(workers, free_.servers[server][r] / demand.worker[r]);
  }
  return workers;
}

/// Whether it makes no difference which of the two a ring has.
bool PlacementSearch::are_equal(std::size_t server, std::size_t other) const {
  return cluster_.servers[server].rack == cluster_.servers[other].rack &&
         free_.links[server] == free_.links[other] && free_.servers[server] == free_.servers[other];
}

std::uint64_t PlacementSearch::state_of(std::size_t item) const {
  std::uint64_t state = item;
  for (const Amounts& amounts : free_.servers) {
    for (std::size_t r = 0; r < cluster_.resources.size(); ++r) {
      state = combine_hash(state, amounts[r]);
    }
  }
  for (const std::uint64_t link : free_.links) state = combine_hash(state, link);
  for (const std::uint64_t link : free_.rack_links) state = combine_hash(state, link);
  return state;
}

}  // namespace ringpress::gadget
