// All slots: who gets what under each policy.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "perf/gadget/random_slot.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {
namespace {

using Workers = std::vector<std::size_t>;

Cluster two_servers(std::uint64_t gpus) {
  Cluster cluster;
  cluster.resources = {"gpus"};
  cluster.racks = {{"r0", 10}};
  cluster.servers = {{"s0", 0, {gpus}, 10}, {"s1", 0, {gpus}, 10}};
  return cluster;
}

Job job_of(std::size_t arrival, std::size_t workers, std::uint64_t lifetime) {
  Job job;
  job.name = "job";
  job.arrival = arrival;
  job.most_workers = workers;
  job.demand = {{1}, 1};
  job.lifetime = {lifetime};
  return job;
}

/// Workers of each job, by slot.
std::vector<Workers> table_of(const Schedule& schedule) {
  std::vector<Workers> table;
  for (const Slot& slot : schedule.slots) {
    Workers workers(schedule.worker_slots.size());
    for (const Ring& ring : slot.rings) workers[ring.job] = ring.workers();
    table.push_back(workers);
  }
  return table;
}

/// Rings that differ from those of the same jobs in the slot before.
std::size_t moves_of(const Schedule& schedule) {
  std::size_t moves = 0;
  for (std::size_t slot = 1; slot < schedule.slots.size(); ++slot) {
    for (const Ring& ring : schedule.slots[slot].rings) {
      for (const Ring& before : schedule.slots[slot - 1].rings) {
        if (before.job == ring.job && before.shares != ring.shares) ++moves;
      }
    }
  }
  return moves;
}

TEST(GadgetUtility, Values) {
  EXPECT_DOUBLE_EQ(value({UtilityKind::kSqrt, 3, 0, 0, 0}, 16), 12);
  EXPECT_DOUBLE_EQ(value({UtilityKind::kLog, 3, 0, 0, 0}, std::exp(1) - 1), 3);
  EXPECT_DOUBLE_EQ(value({UtilityKind::kSigmoid, 3, 0.1, 50, 0}, 50), 1.5);
  EXPECT_NEAR(value({UtilityKind::kSigmoid, 3, 0.1, 50, 0}, 1e6), 3, 1e-9);
  EXPECT_DOUBLE_EQ(value({UtilityKind::kEnergy, 3, 0, 0, 0.1}, 10), 20);
}

TEST(GadgetJob, Limits) {
  Job job = job_of(0, 4, 0);
  EXPECT_EQ(most_worker_slots(job), std::numeric_limits<std::size_t>::max());
  job.demand.worker = {2, 3};
  job.lifetime = {10, 7};
  EXPECT_EQ(most_worker_slots(job), 2U);
  EXPECT_EQ(workers_that_fit(two_servers(5), {2}), 4U);
}

TEST(GadgetJob, TheLargestRingIsWhatTheSolverCanPlace) {
  for (std::size_t seed = 0; seed < 200; ++seed) {
    perf::SlotShape shape;
    shape.servers = 1 + seed % 7;
    shape.racks = 1 + seed % 3;
    shape.jobs = 1;
    shape.narrowest_link = 0.05;
    shape.widest_link = 1;
    const perf::RandomSlot slot = perf::random_slot(shape, seed);
    Bid bid = slot.bids[0];
    bid.gains.assign(workers_that_fit(slot.cluster, bid.demand.worker), 0);
    std::iota(bid.gains.begin(), bid.gains.end(), 1);
    const std::vector<Ring> rings = solve_slot(slot.cluster, {bid});
    const std::size_t placed = rings.empty() ? 0 : rings[0].workers();
    EXPECT_EQ(largest_ring(slot.cluster, bid.demand), placed) << seed;
  }
}

TEST(GadgetJob, WhatCannotBeIsRefused) {
  const Cluster good = two_servers(2);
  EXPECT_TRUE(check(good, {job_of(0, 4, 0)}).is_ok());
  EXPECT_EQ(check(good, {job_of(0, 5, 0)}).message(), "job job is larger than the cluster");
  EXPECT_EQ(check(good, {job_of(0, 0, 0)}).message(), "job job may have no worker");
  Cluster cluster = good;
  cluster.racks[0].bits_per_second = 0;
  EXPECT_EQ(check(cluster, {}).message(), "rack r0 has no uplink");
  cluster = good;
  cluster.servers[1].rack = 1;
  EXPECT_EQ(check(cluster, {}).message(), "s1 is in no rack");
  cluster = good;
  cluster.servers[1].bits_per_second = 0;
  EXPECT_EQ(check(cluster, {}).message(), "server s1 has no uplink");
  Job job = job_of(0, 1, 0);
  job.utility.scale = std::nan("");
  EXPECT_EQ(check(good, {job}).message(), "the utility of job job is not defined");
  job = job_of(0, 1, 0);
  job.demand.worker = {};
  EXPECT_FALSE(check(good, {job}).is_ok());
  job = job_of(0, 1, 0);
  job.iterations_per_worker_slot = -1;
  EXPECT_THROW(schedule(good, {job}, Policy::kGadget, 1), std::logic_error);
}

TEST(GadgetSchedule, NothingRunsBeforeItArrivesOrAfterItsLifetime) {
  for (const Policy policy : {Policy::kGadget, Policy::kFifo, Policy::kDrf, Policy::kLas}) {
    const Schedule plan = schedule(two_servers(2), {job_of(0, 2, 3), job_of(3, 1, 1)}, policy, 50);
    EXPECT_EQ(table_of(plan), (std::vector<Workers>{{2, 0}, {1, 0}, {0, 0}, {0, 1}}));
    EXPECT_DOUBLE_EQ(plan.utility, std::sqrt(3) + 1);
    EXPECT_DOUBLE_EQ(plan.embedded_share, 1);
  }
}

TEST(GadgetSchedule, EveryPolicyRunsAJobOnAsManyWorkersAsLinksAllow) {
  Job wide = job_of(0, 3, 0);
  wide.demand.ring_bits_per_second = 11;  // Links carry 10.
  for (const Policy policy : {Policy::kGadget, Policy::kFifo, Policy::kDrf, Policy::kLas}) {
    EXPECT_EQ(schedule(two_servers(2), {wide}, policy, 5).worker_slots, Workers{10});
    Job rigid = wide;
    rigid.least_workers = 3;
    EXPECT_EQ(schedule(two_servers(2), {rigid}, policy, 5).worker_slots, Workers{0});
  }
}

TEST(GadgetSchedule, EndsAfterTheLastSlotOfTheCaller) {
  const Schedule plan = schedule(two_servers(2), {job_of(0, 1, 0)}, Policy::kGadget, 7);
  EXPECT_EQ(plan.slots.size(), 7U);
  EXPECT_EQ(plan.worker_slots, Workers{7});
}

TEST(GadgetSchedule, EqualJobsTakeTurns) {
  // Two places a slot for three jobs: sqrt gains most where least has been done.
  const std::vector<Job> jobs(3, job_of(0, 2, 0));
  const Schedule plan = schedule(two_servers(1), jobs, Policy::kGadget, 30);
  for (const std::size_t worker_slots : plan.worker_slots) EXPECT_EQ(worker_slots, 20U);
  EXPECT_NEAR(plan.embedded_share, 2.0 / 3, 1e-9);
}

// The first iterations gain nothing that a number could hold, so by what a slot itself gains such a
// job would never begin.
TEST(GadgetSchedule, AUtilityThatIsFlatAtFirstIsBegun) {
  Job job = job_of(0, 2, 40);
  job.iterations_per_worker_slot = 100;
  job.utility = {UtilityKind::kSigmoid, 10, 1, 3000, 0};
  const Schedule plan = schedule(two_servers(1), {job}, Policy::kGadget, 50);
  EXPECT_GE(plan.worker_slots[0], 31U);
  EXPECT_NEAR(plan.utility, 10, 1e-9);
}

TEST(GadgetSchedule, WhatCannotReachItsGainInTimeIsNotBegun) {
  Job job = job_of(0, 2, 40);
  job.iterations_per_worker_slot = 100;
  job.utility = {UtilityKind::kSigmoid, 10, 1, 3000, 0};
  EXPECT_EQ(schedule(two_servers(1), {job}, Policy::kGadget, 5).worker_slots[0], 0U);
}

TEST(GadgetSchedule, SigmoidsAreBegunOneAfterTheOther) {
  // Time is enough for one of them to converge: half of two would gain nothing.
  Job job = job_of(0, 2, 0);
  job.iterations_per_worker_slot = 100;
  job.utility = {UtilityKind::kSigmoid, 10, 0.1, 1500, 0};
  const Schedule plan = schedule(two_servers(1), {job, job}, Policy::kGadget, 10);
  EXPECT_NEAR(plan.utility, 10, 0.01);
}

TEST(GadgetSchedule, JobsStayWhereTheyAreIfTheOthersFitToo) {
  // A solver that puts the first job on another server each slot, and the second beside it.
  std::size_t slot = 0;
  const auto solver = [&](const Cluster&, const std::vector<Bid>&) {
    const std::size_t server = slot++ % 2;
    return std::vector<Ring>{{0, {{server, 2}}}, {1, {{1 - server, slot}}}};
  };
  const std::vector<Job> jobs = {job_of(0, 2, 0), job_of(0, 8, 0)};
  const Schedule plan = schedule(two_servers(4), jobs, Policy::kGadget, 3, solver);
  for (const Slot& each : plan.slots) {
    EXPECT_EQ(each.rings[0].shares, (std::vector<Share>{{0, 2}}));
    EXPECT_EQ(each.rings[1].shares.size(), 1U);
  }
  EXPECT_EQ(plan.moves, 2U);  // Of the second, which grows.
}

TEST(GadgetSchedule, JobsMoveWhereTheOthersHaveNoPlaceElse) {
  // Two large jobs leave a place on either server for the first one; then comes one that needs a
  // whole server.
  std::size_t slot = 0;
  const auto solver = [&](const Cluster&, const std::vector<Bid>&) {
    std::vector<Ring> rings = {{0, {{0, 1}, {1, 1}}}, {2, {{0, 1}}}, {3, {{1, 1}}}};
    if (slot++ == 1) rings = {{0, {{0, 2}}}, {1, {{1, 1}}}};
    return rings;
  };
  std::vector<Job> jobs = {job_of(0, 2, 0), job_of(0, 1, 0), job_of(0, 1, 0), job_of(0, 1, 0)};
  jobs[1].demand.worker = {4};
  jobs[2].demand.worker = jobs[3].demand.worker = {3};
  const Schedule plan = schedule(two_servers(4), jobs, Policy::kGadget, 2, solver);
  EXPECT_EQ(plan.slots[0].rings[0].shares.size(), 2U);
  EXPECT_EQ(plan.slots[1].rings[0].shares, (std::vector<Share>{{0, 2}}));
  EXPECT_EQ(plan.moves, 1U);
}

TEST(GadgetSchedule, MovesAreCounted) {
  // The solver changes its mind about the server.
  std::size_t slot = 0;
  const auto solver = [&](const Cluster&, const std::vector<Bid>&) {
    ++slot;
    return std::vector<Ring>{{0, {{0, slot}}}};
  };
  const Schedule plan = schedule(two_servers(4), {job_of(0, 4, 0)}, Policy::kGadget, 3, solver);
  EXPECT_EQ(plan.moves, 2U);
  EXPECT_EQ(moves_of(plan), 2U);
}

TEST(GadgetSchedule, JobsThatCannotBeResizedGetAllOrNothing) {
  std::vector<Job> jobs = {job_of(0, 3, 9), job_of(0, 3, 9)};
  for (Job& job : jobs) job.least_workers = 3;
  for (const Policy policy : {Policy::kGadget, Policy::kFifo, Policy::kDrf, Policy::kLas}) {
    const Schedule plan = schedule(two_servers(2), jobs, policy, 50);
    EXPECT_EQ(plan.slots.size(), 6U);
    EXPECT_EQ(plan.worker_slots, (Workers{9, 9}));
    for (const Slot& slot : plan.slots) {
      for (const Ring& ring : slot.rings) EXPECT_EQ(ring.workers(), 3U);
    }
  }
  jobs[0].least_workers = 4;
  EXPECT_FALSE(check(two_servers(2), jobs).is_ok());
}

TEST(GadgetSchedule, AJobDoesTheIterationsOfTheWayInWhichItRan) {
  Job job = job_of(0, 2, 6);
  job.least_workers = 2;
  job.iterations_per_worker_slot = 100;
  for (const Policy policy : {Policy::kGadget, Policy::kFifo, Policy::kDrf, Policy::kLas}) {
    for (const std::uint64_t rate : {10, 11}) {  // Links carry 10; a server has a GPU.
      job.demand.ring_bits_per_second = rate;
      job.saving = Saving{5, 40};
      const Schedule plan = schedule(two_servers(1), {job}, policy, 50);
      const double each = rate == 10 ? 100 : 40;
      EXPECT_EQ(plan.worker_slots, Workers{6});
      EXPECT_DOUBLE_EQ(plan.iterations[0], 6 * each);
      EXPECT_DOUBLE_EQ(plan.utility, std::sqrt(6 * each));
      for (const Slot& slot : plan.slots) EXPECT_EQ(slot.rings[0].saves, rate == 11);
    }
  }
  job.saving->iterations_per_worker_slot = 0;
  EXPECT_EQ(check(two_servers(1), {job}).message(),
            "job job must make iterations when it reserves less");
}

TEST(GadgetSchedule, ARingOnOneServerReservesNothingAndSoNothingLess) {
  Job job = job_of(0, 2, 6);
  job.saving = Saving{0, 0.5};
  const auto solver = [](const Cluster&, const std::vector<Bid>&) {
    return std::vector<Ring>{{0, {{0, 2}}, /*saves=*/true}};
  };
  const Schedule plan = schedule(two_servers(4), {job}, Policy::kGadget, 1, solver);
  EXPECT_FALSE(plan.slots[0].rings[0].saves);
  EXPECT_DOUBLE_EQ(plan.iterations[0], 2);
}

TEST(GadgetSchedule, FifoRunsOnAndLetsSmallOnesPass) {
  const std::vector<Job> jobs = {job_of(0, 3, 6), job_of(0, 2, 2), job_of(1, 1, 2)};
  const Schedule plan = schedule(two_servers(2), jobs, Policy::kFifo, 50);
  EXPECT_EQ(table_of(plan), (std::vector<Workers>{{3, 0, 0}, {3, 0, 1}, {0, 2, 1}}));
  EXPECT_EQ(plan.slots[0].rings[0].shares, plan.slots[1].rings[0].shares);
}

TEST(GadgetSchedule, LasPrefersWhatHadLeast) {
  const std::vector<Job> jobs = {job_of(0, 4, 8), job_of(1, 4, 8)};
  const Schedule plan = schedule(two_servers(2), jobs, Policy::kLas, 50);
  EXPECT_EQ(table_of(plan), (std::vector<Workers>{{4, 0}, {0, 4}, {4, 0}, {0, 4}}));
}

TEST(GadgetSchedule, DrfEvensOutDominantShares) {
  std::vector<Job> jobs = {job_of(0, 4, 0), job_of(0, 8, 0)};
  jobs[0].demand.worker = {2};
  const Schedule plan = schedule(two_servers(4), jobs, Policy::kDrf, 1);
  EXPECT_EQ(table_of(plan), (std::vector<Workers>{{2, 4}}));
}

TEST(GadgetSchedule, TheSolverIsTheCallers) {
  std::size_t bids_seen = 0;
  const auto solver = [&](const Cluster&, const std::vector<Bid>& bids) {
    bids_seen += bids.size();
    return std::vector<Ring>{{bids.size() - 1, {{0, 1}}}};
  };
  const std::vector<Job> jobs = {job_of(1, 1, 0), job_of(0, 1, 1), job_of(1, 1, 0)};
  const Schedule plan = schedule(two_servers(2), jobs, Policy::kGadget, 2, solver);
  EXPECT_EQ(table_of(plan), (std::vector<Workers>{{0, 1, 0}, {0, 0, 1}}));
  EXPECT_EQ(bids_seen, 3U);
}

}  // namespace
}  // namespace ringpress::gadget
