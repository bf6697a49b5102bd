// Small slots drawn widely, for tests and figures of how near the solver comes to the optimum:
// unlike servers, links and workers, utilities whose scales differ by a thousand, slots in which
// nearly all fits and such in which hardly anything does.
#ifndef PERF_GADGET_WIDE_SLOT_H_
#define PERF_GADGET_WIDE_SLOT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "perf/gadget/random_slot.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::perf {

struct WideShape {
  std::size_t resources = 1;
  bool may_resize = true;   // Else a job has all its workers or none.
  bool has_choice = false;  // Some jobs may reserve less and be slower.
  std::size_t least_servers = 2, most_servers = 5;
  std::size_t least_jobs = 2, most_jobs = 6;
  std::size_t most_workers = 6;  // Of a job.
};

/// As large as can be tried out; more jobs than there is room for.
inline WideShape larger(WideShape shape) {
  shape.least_servers = 5;
  shape.most_servers = 6;
  shape.least_jobs = 6;
  shape.most_jobs = 8;
  return shape;
}

inline double log_uniform(double least, double most, Draw* draw) {
  return least * std::pow(most / least, draw->real(0, 1));
}

inline std::uint64_t drawn_rate(double least, double most, Draw* draw) {
  return static_cast<std::uint64_t>(log_uniform(least, most, draw) *
                                    static_cast<double>(kLargestRingRate));
}

/// Servers in 1 to 3 racks, each with links of its own; of the second resource about as
/// much as of the first, less, or more.
inline gadget::Cluster wide_cluster(const WideShape& shape, Draw* draw) {
  gadget::Cluster cluster;
  cluster.resources = {"gpus", "memory_gb", "cores"};
  cluster.resources.resize(shape.resources);
  const std::size_t racks = draw->whole(1, 3),
                    servers = draw->whole(shape.least_servers, shape.most_servers);
  for (std::size_t i = 0; i < racks; ++i) {
    cluster.racks.push_back({"rack" + std::to_string(i), drawn_rate(0.1, 8, draw)});
  }
  const double memory = draw->real(16, 96);
  for (std::size_t i = 0; i < servers; ++i) {
    gadget::Server server;
    server.name = "server" + std::to_string(i);
    server.rack = draw->whole(0, racks - 1);
    server.bits_per_second = drawn_rate(0.1, 4, draw);
    server.capacity[0] = draw->whole(1, 9);
    for (std::size_t r = 1; r < shape.resources; ++r) {
      const double each = memory * draw->real(0.5, 1.5);
      server.capacity[r] =
          static_cast<std::uint64_t>(each * static_cast<double>(server.capacity[0]));
    }
    cluster.servers.push_back(server);
  }
  return cluster;
}

inline gadget::Demand wide_demand(const WideShape& shape, Draw* draw) {
  gadget::Demand demand;
  demand.worker[0] = draw->real(0, 1) < 0.5 ? 1 : draw->whole(1, 4);
  for (std::size_t r = 1; r < shape.resources; ++r) {
    // Much memory for few GPUs, or the other way round.
    const double each = log_uniform(4, 160, draw);
    const double workers = draw->real(0, 1) < 0.5 ? static_cast<double>(demand.worker[0]) : 1;
    demand.worker[r] = static_cast<std::uint64_t>(each * workers);
    if (draw->real(0, 1) < 0.1) demand.worker[r] = 0;
  }
  if (draw->real(0, 1) < 0.9) demand.ring_bits_per_second = drawn_rate(0.02, 2, draw);
  return demand;
}

/// Any utility, of a job that has run for a while or not.
inline gadget::Bid wide_bid(const WideShape& shape, Draw* draw) {
  using gadget::UtilityKind;
  static constexpr UtilityKind kKinds[] = {UtilityKind::kSqrt, UtilityKind::kLog,
                                           UtilityKind::kSigmoid, UtilityKind::kEnergy};
  gadget::Utility utility = random_utility(kKinds[draw->whole(0, 3)], draw);
  if (utility.kind != UtilityKind::kEnergy) utility.scale = log_uniform(1, 1000, draw);
  gadget::Bid bid;
  bid.demand = wide_demand(shape, draw);
  const double iterations = draw->real(50, 500), ratio = draw->real(0.1, 0.9);
  const double slower = draw->real(0.3, 1);
  const auto before = static_cast<double>(draw->whole(0, 10));
  const std::size_t most = draw->whole(1, shape.most_workers), least = shape.may_resize ? 1 : most;
  const auto gain = [&](std::size_t workers, double pace) {
    if (workers < least) return -std::numeric_limits<double>::infinity();
    const double done = iterations * before;
    return value(utility, done + pace * iterations * static_cast<double>(workers)) -
           value(utility, done);
  };
  const bool has_choice = shape.has_choice && draw->real(0, 1) < 0.7;
  if (has_choice) {
    const double rate = ratio * static_cast<double>(bid.demand.ring_bits_per_second);
    bid.saving = gadget::SavingBid{static_cast<std::uint64_t>(rate), {}};
  }
  for (std::size_t workers = 1; workers <= most; ++workers) {
    bid.gains.push_back(gain(workers, 1));
    if (has_choice) bid.saving->gains.push_back(gain(workers, slower));
  }
  return bid;
}

inline RandomSlot wide_slot(const WideShape& shape, std::uint64_t seed) {
  Draw draw(seed);
  RandomSlot slot;
  slot.cluster = wide_cluster(shape, &draw);
  const std::size_t jobs = draw.whole(shape.least_jobs, shape.most_jobs);
  for (std::size_t i = 0; i < jobs; ++i) slot.bids.push_back(wide_bid(shape, &draw));
  return slot;
}

}  // namespace ringpress::perf

#endif  // PERF_GADGET_WIDE_SLOT_H_
