#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {
namespace {

/// Sums of amounts, and amounts times workers, then fit into 64 bits.
constexpr std::uint64_t kLargestAmount = std::uint64_t{1} << 31;

Status refuse(const std::string& what) {
  return Status(Code::kInvalidArgument, what);
}

bool is_good(const Amounts& amounts) {
  return std::all_of(amounts.begin(), amounts.end(),
                     [](std::uint64_t amount) { return amount <= kLargestAmount; });
}

Status check_cluster(const Cluster& cluster) {
  if (cluster.racks.empty()) return refuse("the cluster has no rack");
  if (cluster.servers.empty()) return refuse("the cluster has no server");
  if (cluster.resources.empty() || cluster.resources.size() > kMostResources) {
    return refuse("the cluster must have 1 to 4 resources");
  }
  for (const Rack& rack : cluster.racks) {
    if (rack.bits_per_second == 0) return refuse("rack " + rack.name + " has no uplink");
  }
  for (const Server& server : cluster.servers) {
    if (server.rack >= cluster.racks.size()) return refuse(server.name + " is in no rack");
    if (server.bits_per_second == 0) return refuse("server " + server.name + " has no uplink");
    if (!is_good(server.capacity)) return refuse("server " + server.name + " has more than 2^31");
  }
  return Status::ok();
}

/// That an empty server has room for.
std::size_t workers_on(const Server& server, const Amounts& worker) {
  std::uint64_t workers = kLargestAmount;
  for (std::size_t r = 0; r < kMostResources; ++r) {
    if (worker[r] > 0) workers = std::min(workers, server.capacity[r] / worker[r]);
  }
  return workers;
}

/// Whether utilities are finite, and grow where they are said to.
bool is_good(const Utility& utility) {
  if (!std::isfinite(utility.scale) || utility.scale <= 0) return false;
  switch (utility.kind) {
    case UtilityKind::kSqrt:
    case UtilityKind::kLog:
      return true;
    case UtilityKind::kSigmoid:
      return std::isfinite(utility.steepness) && utility.steepness > 0 &&
             std::isfinite(utility.midpoint);
    case UtilityKind::kEnergy:
      return std::isfinite(utility.cost) && utility.cost >= 0;
  }
  return false;
}

Status check_job(const Cluster& cluster, const Job& job) {
  if (job.most_workers == 0) return refuse("job " + job.name + " may have no worker");
  if (job.least_workers == 0 || job.least_workers > job.most_workers) {
    return refuse("job " + job.name + " must have at least 1 worker and at most its most");
  }
  if (job.demand.worker[0] == 0 || !is_good(job.demand.worker)) {
    return refuse("a worker of job " + job.name + " needs 1 to 2^31 of the first resource");
  }
  if (job.most_workers > workers_that_fit(cluster, job.demand.worker)) {
    return refuse("job " + job.name + " is larger than the cluster");
  }
  if (!is_good(job.utility)) return refuse("the utility of job " + job.name + " is not defined");
  if (!std::isfinite(job.iterations_per_worker_slot) || job.iterations_per_worker_slot <= 0) {
    return refuse("job " + job.name + " must make iterations");
  }
  if (!job.saving.has_value()) return Status::ok();
  const double slower = job.saving->iterations_per_worker_slot;
  if (!std::isfinite(slower) || slower <= 0) {
    return refuse("job " + job.name + " must make iterations when it reserves less");
  }
  return Status::ok();
}

/// What rings use of the cluster.
struct Use {
  explicit Use(const Cluster& cluster)
      : amounts(cluster.servers.size()),
        links(cluster.servers.size()),
        rack_links(cluster.racks.size()) {}

  std::vector<Amounts> amounts;
  std::vector<std::uint64_t> links, rack_links;
};

/// Adds a ring; false if it comes back to where it was.
bool add_ring(const Cluster& cluster, const Demand& demand, const Ring& ring, Use* use) {
  std::vector<std::size_t> servers, racks;
  for (const Share& share : ring.shares) {
    const std::size_t rack = cluster.servers[share.server].rack;
    servers.push_back(share.server);
    if (racks.empty() || racks.back() != rack) racks.push_back(rack);
    for (std::size_t r = 0; r < kMostResources; ++r) {
      use->amounts[share.server][r] += share.workers * demand.worker[r];
    }
  }
  for (std::vector<std::size_t>* places : {&servers, &racks}) {
    std::sort(places->begin(), places->end());
    if (std::adjacent_find(places->begin(), places->end()) != places->end()) return false;
  }
  if (servers.size() > 1) {
    for (const std::size_t server : servers) use->links[server] += demand.ring_bits_per_second;
  }
  if (racks.size() > 1) {
    for (const std::size_t rack : racks) use->rack_links[rack] += demand.ring_bits_per_second;
  }
  return true;
}

Status check_use(const Cluster& cluster, const Use& use) {
  for (std::size_t s = 0; s < cluster.servers.size(); ++s) {
    const Server& server = cluster.servers[s];
    for (std::size_t r = 0; r < kMostResources; ++r) {
      if (use.amounts[s][r] > server.capacity[r]) {
        return refuse("server " + server.name + " has less than its rings use");
      }
    }
    if (use.links[s] > server.bits_per_second) {
      return refuse("the uplink of server " + server.name + " carries less than its rings need");
    }
  }
  for (std::size_t i = 0; i < cluster.racks.size(); ++i) {
    const Rack& rack = cluster.racks[i];
    if (use.rack_links[i] > rack.bits_per_second) {
      return refuse("the uplink of rack " + rack.name + " carries less than its rings need");
    }
  }
  return Status::ok();
}

}  // namespace

std::size_t most_worker_slots(const Job& job) {
  std::size_t most = std::numeric_limits<std::size_t>::max();
  for (std::size_t r = 0; r < kMostResources; ++r) {
    if (job.lifetime[r] == 0 || job.demand.worker[r] == 0) continue;
    most = std::min<std::size_t>(most, job.lifetime[r] / job.demand.worker[r]);
  }
  return most;
}

std::size_t workers_that_fit(const Cluster& cluster, const Amounts& worker) {
  std::size_t sum = 0;
  for (const Server& server : cluster.servers) sum += workers_on(server, worker);
  return sum;
}

std::size_t largest_ring(const Cluster& cluster, const Demand& demand) {
  std::vector<std::size_t> of_racks(cluster.racks.size());
  std::size_t most = 0, across_racks = 0;
  for (const Server& server : cluster.servers) {
    const std::size_t workers = workers_on(server, demand.worker);
    most = std::max(most, workers);
    if (server.bits_per_second >= demand.ring_bits_per_second) of_racks[server.rack] += workers;
  }
  for (std::size_t rack = 0; rack < of_racks.size(); ++rack) {
    most = std::max(most, of_racks[rack]);
    const std::uint64_t rate = cluster.racks[rack].bits_per_second;
    if (rate >= demand.ring_bits_per_second) across_racks += of_racks[rack];
  }
  return std::max(most, across_racks);
}

Status check(const Cluster& cluster, const std::vector<Job>& jobs) {
  RINGPRESS_RETURN_IF_ERROR(check_cluster(cluster));
  for (const Job& job : jobs) RINGPRESS_RETURN_IF_ERROR(check_job(cluster, job));
  return Status::ok();
}

Status check(const Cluster& cluster, const std::vector<Bid>& bids, const std::vector<Ring>& rings) {
  Use use(cluster);
  std::vector<bool> has_ring(bids.size());
  for (const Ring& ring : rings) {
    if (ring.job >= bids.size()) return refuse("a ring is of no bid");
    const std::string name = "the ring of bid " + std::to_string(ring.job);
    if (has_ring[ring.job]) return refuse(name + " is there twice");
    has_ring[ring.job] = true;
    const Bid& bid = bids[ring.job];
    if (ring.saves && !bid.saving.has_value()) return refuse(name + " cannot reserve less");
    if (ring.workers() == 0 || ring.workers() > bid.gains.size() ||
        bid.gain(ring.workers(), ring.saves) == -std::numeric_limits<double>::infinity()) {
      return refuse(name + " has too few or too many workers");
    }
    const bool is_placed =
        std::all_of(ring.shares.begin(), ring.shares.end(), [&](const Share& share) {
          return share.workers > 0 && share.server < cluster.servers.size();
        });
    if (!is_placed) return refuse(name + " has a share of nothing");
    if (!add_ring(cluster, bid.demand_if(ring.saves), ring, &use)) {
      return refuse(name + " comes back to a server or rack");
    }
  }
  return check_use(cluster, use);
}

double gain_of(const std::vector<Bid>& bids, const std::vector<Ring>& rings) {
  double sum = 0;
  for (const Ring& ring : rings) sum += bids[ring.job].gain(ring.workers(), ring.saves);
  return sum;
}

}  // namespace ringpress::gadget
