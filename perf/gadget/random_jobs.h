// Clusters and jobs of the paper's experiment (INFOCOM 2022, section on numerical results), the
// same on every machine for the same seed.
//
// The paper's ranges: 50 servers of 1, 2, 4 or 8 GPUs, 2 to 5 racks, server links of 10 to 100
// Gb/s, rack links of 200 to 3200; jobs of up to 5 workers with a GPU each, rings of 0.1 to 5
// Gb/s, 50 to 500 iterations a worker and slot, 1000 to 6000 iterations, sigmoids. Its arrivals are
// those of a trace of Google's; here they are drawn: more by day than by night, some in bursts.
#ifndef PERF_GADGET_RANDOM_JOBS_H_
#define PERF_GADGET_RANDOM_JOBS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/gadget/random_slot.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::perf {

/// What differs from the paper's ranges.
struct Experiment {
  std::size_t servers = 50;
  std::size_t slots = 200;
  std::size_t most_workers = 5;
  bool may_resize = true;       // Else a job has all its workers or none.
  double iterations_scale = 1;  // Of what a worker does in a slot: less keeps the cluster busy.
  double link_scale = 1;        // Of server and rack links.
  double rack_gigabits = 0;     // Of every rack's link, before that; 0: as drawn.
  double ratio = 1;             // Bytes on the wire over raw ones.
  gadget::UtilityKind utility = gadget::UtilityKind::kSigmoid;
  std::size_t gpus = 0;  // Of the cluster; 0: as drawn. Else servers grow or shrink to that.
};

/// Gives the servers so many GPUs in all, each its part by what was drawn for it.
inline void set_gpus(std::size_t gpus, gadget::Cluster* cluster) {
  std::uint64_t drawn = 0;
  for (const gadget::Server& server : cluster->servers) drawn += server.capacity[0];
  std::uint64_t before = 0, given = 0;
  for (gadget::Server& server : cluster->servers) {
    before += server.capacity[0];
    const std::uint64_t until = before * gpus / drawn;
    server.capacity[0] = until - given;
    given = until;
  }
}

inline std::uint64_t bits(double gigabits) {
  return static_cast<std::uint64_t>(1e9 * gigabits);
}

inline gadget::Cluster paper_cluster(const Experiment& experiment, std::uint64_t seed) {
  Draw draw(seed);
  gadget::Cluster cluster;
  cluster.resources = {"gpus"};
  const std::size_t racks = draw.whole(2, 5);
  for (std::size_t i = 0; i < racks; ++i) {
    const double drawn = draw.real(200, 3200);
    const double gigabits = experiment.rack_gigabits > 0 ? experiment.rack_gigabits : drawn;
    cluster.racks.push_back({"rack" + std::to_string(i), bits(experiment.link_scale * gigabits)});
  }
  for (std::size_t i = 0; i < experiment.servers; ++i) {
    const std::uint64_t gpus = std::uint64_t{1} << draw.whole(0, 3);
    const double gigabits = experiment.link_scale * draw.real(10, 100);
    cluster.servers.push_back({"server" + std::to_string(i), i % racks, {gpus}, bits(gigabits)});
  }
  if (experiment.gpus != 0) set_gpus(experiment.gpus, &cluster);
  return cluster;
}

/// Slots over which jobs arrive: the first half. A day is an eighth of all slots, and every fourth
/// job comes with the one before it.
inline std::vector<std::size_t> arrivals(std::size_t jobs, std::size_t slots, Draw* draw) {
  std::vector<std::size_t> found;
  const double last = static_cast<double>(slots) / 2, day = static_cast<double>(slots) / 8;
  while (found.size() < jobs) {
    if (!found.empty() && draw->real(0, 1) < 0.25) {
      found.push_back(found.back());
      continue;
    }
    const double at = draw->real(0, last);
    const double how_busy = 0.5 + 0.4 * std::sin(2 * 3.14159265358979 * at / day);
    if (draw->real(0, 1) < how_busy) found.push_back(static_cast<std::size_t>(at));
  }
  std::sort(found.begin(), found.end());
  return found;
}

inline gadget::Job paper_job(const Experiment& experiment, std::size_t arrival, Draw* draw) {
  gadget::Job job;
  job.arrival = arrival;
  job.most_workers = draw->whole(1, experiment.most_workers);
  job.least_workers = experiment.may_resize ? 1 : job.most_workers;
  job.demand = {{1}, bits(experiment.ratio * draw->real(0.1, 5))};
  job.iterations_per_worker_slot = experiment.iterations_scale * draw->real(50, 500);
  const double iterations = draw->real(1000, 6000);
  const double worker_slots = std::ceil(iterations / job.iterations_per_worker_slot);
  job.lifetime = {static_cast<std::uint64_t>(std::max(1.0, worker_slots))};
  job.utility.kind = experiment.utility;
  job.utility.scale = draw->real(1, 100);
  job.utility.steepness = draw->real(0.001, 1);
  job.utility.midpoint = draw->real(300, 3000);
  job.utility.cost = job.utility.scale / draw->real(3000, 12000);
  return job;
}

/// In order of arrival.
inline std::vector<gadget::Job> paper_jobs(const Experiment& experiment, std::size_t count,
                                           std::uint64_t seed) {
  Draw draw(seed);
  const std::vector<std::size_t> when = arrivals(count, experiment.slots, &draw);
  std::vector<gadget::Job> jobs;
  for (std::size_t i = 0; i < count; ++i) {
    jobs.push_back(paper_job(experiment, when[i], &draw));
    jobs.back().name = "job" + std::to_string(i);
  }
  return jobs;
}

}  // namespace ringpress::perf

#endif  // PERF_GADGET_RANDOM_JOBS_H_
