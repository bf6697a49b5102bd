// Which ring-all-reduce jobs of a cluster run in each slot of time, with how many workers and
// where, so that the jobs together gain most. Yu, Tian, Ji, Wu, Rajan and Liu, "GADGET: Online
// Resource Optimization for Scheduling Ring-All-Reduce Learning Jobs", INFOCOM 2022;
// tuner/gadget/README.md says what is theirs and what is done differently.
//
// Pure functions of plain values: nothing here measures, sends, reads a clock or draws a random
// number, and equal arguments give equal results.
#ifndef RINGPRESS_INTERNAL_GADGET_H_
#define RINGPRESS_INTERNAL_GADGET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress::gadget {

// ---- The cluster: racks of servers. A server has one uplink to its rack, a rack has one to the
// rest; a link carries its rate in each of both directions.

inline constexpr std::size_t kMostResources = 4;

/// Of each resource (GPUs, gigabytes of memory, ...), in the order of Cluster::resources. Those
/// that a cluster does not have are 0.
using Amounts = std::array<std::uint64_t, kMostResources>;

struct Rack {
  std::string name;
  std::uint64_t bits_per_second = 0;  // Of its uplink.
};

struct Server {
  std::string name;
  std::size_t rack = 0;  // Index into Cluster::racks.
  Amounts capacity = {};
  std::uint64_t bits_per_second = 0;  // Of its uplink.
};

struct Cluster {
  std::string name;
  std::vector<std::string> resources;  // 1 to kMostResources; the first is what is packed tightly.
  std::vector<Rack> racks;
  std::vector<Server> servers;
};

// ---- Jobs.

enum class UtilityKind : std::uint8_t {
  kSqrt,     // scale * sqrt(k): excessive training gains less and less.
  kLog,      // scale * log(1 + k): fair shares.
  kSigmoid,  // scale / (1 + exp(-steepness * (k - midpoint))): training that converges. Not
             // concave.
  kEnergy,   // scale * k - cost * k^2: what a quadratic bill for energy leaves over.
};

/// What a job's k iterations are worth, k counted over all its workers.
struct Utility {
  UtilityKind kind = UtilityKind::kSqrt;
  double scale = 1;
  double steepness = 0;  // kSigmoid: above 0.
  double midpoint = 0;   // kSigmoid, in iterations.
  double cost = 0;       // kEnergy: at least 0.
};

double value(const Utility& utility, double iterations);

/// Of time, workers and a ring among them: what one worker needs wherever it runs.
struct Demand {
  Amounts worker = {};                     // The first resource: at least 1.
  std::uint64_t ring_bits_per_second = 0;  // On every link that the ring crosses, each way.
};

/// The other way to run a compressed job. Compression makes the ring's bytes fewer: the job either
/// reserves as much as before and is faster, which is what Job says, or it reserves less.
struct Saving {
  std::uint64_t ring_bits_per_second = 0;
  double iterations_per_worker_slot = 1;
};

struct Job {
  std::string name;
  std::size_t arrival = 0;  // The first slot in which it may run.
  std::size_t most_workers = 1;
  std::size_t least_workers = 1;  // If it has any. As many as most_workers: it cannot be resized.
  Demand demand;
  Amounts lifetime = {};  // Slots times amount that it may use in all; 0: no limit.
  double iterations_per_worker_slot = 1;
  std::optional<Saving> saving;  // If it has the choice, anew in each slot.
  Utility utility;

  /// What its ring needs in either way.
  Demand demand_if(bool saves) const;
  double iterations_if(bool saves) const;
  /// Of the two demands, the one that finds most places.
  Demand least_demand() const { return demand_if(saving.has_value()); }
};

/// Worker-slots that the job may have in all: the least of lifetime / worker; SIZE_MAX: no limit.
std::size_t most_worker_slots(const Job& job);

/// Workers that fit into the empty cluster if links are left out.
std::size_t workers_that_fit(const Cluster& cluster, const Amounts& worker);

/// Workers of the largest ring that has a place in the empty cluster: on one server, or on several
/// whose uplinks carry its rate, as must those of their racks if there are several of these.
std::size_t largest_ring(const Cluster& cluster, const Demand& demand);

/// Ok, or which value cannot be: no rack or server, a rack that is not there, a link without rate,
/// a worker without the first resource, more workers than fit into the empty cluster, a utility
/// outside its domain. (A job whose least_workers are more than largest_ring() passes: it never
/// runs.)
Status check(const Cluster& cluster, const std::vector<Job>& jobs);

// ---- One slot.

/// What a bid gains if its ring reserves less: of as many numbers of workers.
struct SavingBid {
  std::uint64_t ring_bits_per_second = 0;
  std::vector<double> gains;
};

/// What a job would gain in this slot.
struct Bid {
  Demand demand;
  /// [k - 1]: of k workers, against none; -infinity: not to be had. Its size: the most workers.
  std::vector<double> gains;
  std::optional<SavingBid> saving = std::nullopt;  // If it has the choice.

  Demand demand_if(bool saves) const;
  /// 0 of no workers.
  double gain(std::size_t workers, bool saves) const;
};

struct Share {
  std::size_t server = 0;
  std::size_t workers = 0;

  bool operator==(const Share&) const = default;
};

/// A job's workers in one slot, in the order of the ring: servers of one rack follow each other, so
/// that the ring crosses the uplink of each server and rack once in each direction.
struct Ring {
  std::size_t job = 0;  // Index of the bid, or of the job.
  std::vector<Share> shares;
  bool saves = false;  // It reserves what Bid::saving, or Job::saving, says.

  std::size_t workers() const {
    std::size_t sum = 0;
    for (const Share& share : shares) sum += share.workers;
    return sum;
  }
};

/// A share of the cluster for some of the bids, one ring each at most, by index.
using SlotSolver = std::function<std::vector<Ring>(const Cluster&, const std::vector<Bid>&)>;

/// The largest gain per further worker first; a job that has no place is given one by packing all
/// anew. Then whatever could gain more is tried, as far as a budget of work goes: of a few servers
/// and jobs nearly all. Ends within 20 ms of a core for 50 servers of one resource and 100 bids of
/// up to 16 workers; with several resources, or bids of 200, it may take a few times that.
std::vector<Ring> solve_slot(const Cluster& cluster, const std::vector<Bid>& bids);

/// Ok, or the first bid, server or link that got more than there is, or a ring that comes back to a
/// rack or server that it has left.
Status check(const Cluster& cluster, const std::vector<Bid>& bids, const std::vector<Ring>& rings);

/// The sum of what the rings gain.
double gain_of(const std::vector<Bid>& bids, const std::vector<Ring>& rings);

// ---- All slots, one after the other; what arrives later is not known before.

enum class Policy : std::uint8_t {
  kGadget,  // Each slot for itself gains the most: a slot solver.
  kFifo,    // In the order of arrival; most_workers or none; what runs goes on until its end.
  kDrf,     // Worker by worker, the first least_workers at once, to the job with the smallest
            // dominant share of the cluster.
  kLas,     // most_workers or none, to those that had the least of the cluster so far (Tiresias).
};

struct Slot {
  std::size_t active = 0;  // Jobs that have arrived and may still use something.
  std::vector<Ring> rings;
};

struct Schedule {
  std::vector<Slot> slots;                // Ends when no job is left or to come.
  std::vector<std::size_t> worker_slots;  // Of each job.
  std::vector<double> iterations;         // Of each job, over all its workers.
  double utility = 0;                     // Of all jobs after the last slot.
  double embedded_share = 0;              // Of the active jobs, those with a ring; over all slots.
  std::size_t moves = 0;  // Times a job went on elsewhere, or with other workers, in the next slot.
};

/// No job has more workers than largest_ring(). `solver` is for kGadget alone. Throws
/// std::logic_error if check(cluster, jobs) fails.
Schedule schedule(const Cluster& cluster, const std::vector<Job>& jobs, Policy policy,
                  std::size_t most_slots, const SlotSolver& solver = solve_slot);

}  // namespace ringpress::gadget

#endif  // RINGPRESS_INTERNAL_GADGET_H_
