// Slot after slot: the paper's temporally greedy algorithm, and the other policies in its place.
#include <algorithm>
#include <utility>

#include "tuner/gadget/bids.h"
#include "tuner/gadget/packer.h"
#include "tuner/gadget/policies.h"

namespace ringpress::gadget {
namespace {

/// Worker-slots that a job may still have, by its own limits and those of time.
std::size_t worker_slots_left(const SlotState& slot, std::size_t job) {
  const std::size_t by_lifetime = most_worker_slots(slot.jobs[job]) - slot.worker_slots[job];
  return std::min(by_lifetime, slot.jobs[job].most_workers * slot.slots_left);
}

/// The ring that the job had in the slot before, or null.
const Ring* last_ring(const SlotState& slot, std::size_t job) {
  const auto at = std::find_if(slot.last.begin(), slot.last.end(),
                               [&](const Ring& ring) { return ring.job == job; });
  return at == slot.last.end() ? nullptr : &*at;
}

/// The same numbers of workers, but a job that runs as in the slot before stays where it was, if
/// the others then find places too.
std::vector<Ring> keep_placements(const SlotState& slot, const std::vector<Ring>& rings) {
  std::vector<Ring> kept = rings;
  std::vector<Ring*> others;
  Packer packer(slot.cluster);
  for (Ring& ring : kept) {
    const Ring* const before = last_ring(slot, ring.job);
    const bool is_same =
        before != nullptr && before->workers() == ring.workers() && before->saves == ring.saves;
    if (!is_same) {
      others.push_back(&ring);
      continue;
    }
    ring.shares = before->shares;
    packer.take(slot.jobs[ring.job].demand_if(ring.saves), ring.shares);
  }
  const auto size = [&](const Ring* ring) {
    return ring->workers() * slot.jobs[ring->job].demand.worker[0];
  };
  std::stable_sort(others.begin(), others.end(),
                   [&](const Ring* a, const Ring* b) { return size(a) > size(b); });
  for (Ring* const ring : others) {
    ring->shares = packer.place(slot.jobs[ring->job].demand_if(ring->saves), ring->workers());
    if (ring->shares.empty()) return rings;
  }
  return kept;
}

/// Jobs that go on, but elsewhere or with other workers.
std::size_t moves_in(const SlotState& slot, const std::vector<Ring>& rings) {
  return static_cast<std::size_t>(std::count_if(rings.begin(), rings.end(), [&](const Ring& ring) {
    const Ring* const before = last_ring(slot, ring.job);
    return before != nullptr && before->shares != ring.shares;
  }));
}

/// A ring on one server crosses no link, so reserving less saves nothing there. `bids`: of the
/// active jobs.
void hurry_on_one_server(const SlotState& slot, const std::vector<Bid>& bids,
                         std::vector<Ring>* rings) {
  for (Ring& ring : *rings) {
    if (!ring.saves || ring.shares.size() > 1) continue;
    const auto at = std::lower_bound(slot.active.begin(), slot.active.end(), ring.job);
    const Bid& bid = bids[static_cast<std::size_t>(at - slot.active.begin())];
    ring.saves = bid.gain(ring.workers(), false) <= bid.gain(ring.workers(), true);
  }
}

/// The slot for itself: each active job bids what it would gain.
std::vector<Ring> solve(const SlotState& slot, const SlotSolver& solver) {
  std::vector<Bid> bids;
  for (const std::size_t job : slot.active) {
    bids.push_back(bid_of(slot.jobs[job], {slot.iterations[job], slot.most_workers(job),
                                           worker_slots_left(slot, job)}));
  }
  std::vector<Ring> rings = solver(slot.cluster, bids);
  for (Ring& ring : rings) ring.job = slot.active[ring.job];
  rings = keep_placements(slot, rings);
  hurry_on_one_server(slot, bids, &rings);
  return rings;
}

/// What policies that give all workers or none would never place is not asked for.
std::vector<Job> with_rings_that_fit(const Cluster& cluster, std::vector<Job> jobs) {
  for (Job& job : jobs) {
    const std::size_t most = std::min(job.most_workers, largest_ring(cluster, job.least_demand()));
    job.most_workers = std::max(job.least_workers, most);
  }
  return jobs;
}

std::vector<Ring> rings_of(const SlotState& slot, Policy policy, const SlotSolver& solver) {
  switch (policy) {
    case Policy::kGadget:
      return solve(slot, solver);
    case Policy::kFifo:
      return fifo(slot);
    case Policy::kDrf:
      return drf(slot);
    case Policy::kLas:
      return las(slot);
  }
  return {};
}

}  // namespace

Schedule schedule(const Cluster& cluster, const std::vector<Job>& given, Policy policy,
                  std::size_t most_slots, const SlotSolver& solver) {
  const Status good = check(cluster, given);
  RINGPRESS_EXPECTS(good.is_ok(), good.message());
  const std::vector<Job> jobs = with_rings_that_fit(cluster, given);
  Schedule plan;
  plan.worker_slots.resize(jobs.size());
  plan.iterations.resize(jobs.size());
  std::size_t last_arrival = 0, active_sum = 0, embedded_sum = 0;
  for (const Job& job : jobs) last_arrival = std::max(last_arrival, job.arrival);
  std::vector<Ring> last;
  for (std::size_t slot = 0; slot < most_slots; ++slot) {
    std::vector<std::size_t> active;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const std::size_t left = most_worker_slots(jobs[job]) - plan.worker_slots[job];
      const bool is_done = left < jobs[job].least_workers;
      if (jobs[job].arrival <= slot && !is_done) active.push_back(job);
    }
    if (active.empty() && slot > last_arrival) break;
    const SlotState state = {cluster,         jobs, active,           plan.worker_slots,
                             plan.iterations, last, most_slots - slot};
    std::vector<Ring> rings = rings_of(state, policy, solver);
    plan.moves += moves_in(state, rings);
    last = std::move(rings);
    for (const Ring& ring : last) {
      plan.worker_slots[ring.job] += ring.workers();
      plan.iterations[ring.job] +=
          jobs[ring.job].iterations_if(ring.saves) * static_cast<double>(ring.workers());
    }
    active_sum += active.size();
    embedded_sum += last.size();
    plan.slots.push_back({active.size(), last});
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    plan.utility += value(jobs[job].utility, plan.iterations[job]);
  }
  plan.embedded_share =
      active_sum == 0 ? 1 : static_cast<double>(embedded_sum) / static_cast<double>(active_sum);
  return plan;
}

}  // namespace ringpress::gadget
