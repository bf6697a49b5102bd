// One slot of GADGET: rings fit, and gain nearly as much as is possible.
#include <gtest/gtest.h>

#include <numeric>

#include "perf/gadget/exact_slot.h"
#include "perf/gadget/random_slot.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {
namespace {

using perf::ExactSlot;
using perf::random_slot;
using perf::RandomSlot;
using perf::SlotShape;

/// Racks of servers with these GPUs; links of 10 a second, as all rates here.
Cluster cluster_of(const std::vector<std::vector<std::uint64_t>>& racks) {
  Cluster cluster;
  cluster.resources = {"gpus"};
  for (std::size_t rack = 0; rack < racks.size(); ++rack) {
    cluster.racks.push_back({"r" + std::to_string(rack), 10});
    for (const std::uint64_t gpus : racks[rack]) {
      const std::string name = "s" + std::to_string(cluster.servers.size());
      cluster.servers.push_back({name, rack, {gpus}, 10});
    }
  }
  return cluster;
}

/// Gains 1 for each worker, of `gpus` each.
Bid bid_of(std::size_t workers, std::uint64_t gpus, std::uint64_t rate) {
  Bid bid = {{{gpus}, rate}, std::vector<double>(workers)};
  std::iota(bid.gains.begin(), bid.gains.end(), 1);
  return bid;
}

std::vector<std::size_t> workers_of(const Cluster& cluster, const std::vector<Bid>& bids) {
  const std::vector<Ring> rings = solve_slot(cluster, bids);
  const Status status = check(cluster, bids, rings);
  EXPECT_TRUE(status.is_ok()) << status.message();
  std::vector<std::size_t> workers(bids.size());
  for (const Ring& ring : rings) workers[ring.job] = ring.workers();
  return workers;
}

using Workers = std::vector<std::size_t>;

TEST(GadgetSlot, NoBidsNoRings) {
  EXPECT_TRUE(solve_slot(cluster_of({{4}}), {}).empty());
}

TEST(GadgetSlot, ARingInsideAServerNeedsNoLink) {
  EXPECT_EQ(workers_of(cluster_of({{4, 4}}), {bid_of(4, 1, 11)}), Workers{4});
  EXPECT_EQ(workers_of(cluster_of({{4, 4}}), {bid_of(5, 1, 11)}), Workers{4});
  EXPECT_EQ(workers_of(cluster_of({{4, 4}}), {bid_of(5, 1, 10)}), Workers{5});
}

TEST(GadgetSlot, RingsShareTheUplinksOfServers) {
  // Each ring spans both servers.
  const Cluster cluster = cluster_of({{4, 4}});
  EXPECT_EQ(workers_of(cluster, {bid_of(2, 3, 5), bid_of(2, 1, 5)}), (Workers{2, 2}));
  const std::vector<Bid> wide = {bid_of(2, 3, 6), bid_of(2, 1, 6)};
  EXPECT_EQ(gain_of(wide, solve_slot(cluster, wide)), 3);
}

TEST(GadgetSlot, RingsAcrossRacksNeedTheUplinksOfRacks) {
  Cluster cluster = cluster_of({{2, 2}, {2, 2}});
  EXPECT_EQ(workers_of(cluster, {bid_of(8, 1, 10)}), Workers{8});
  cluster.racks[1].bits_per_second = 9;
  EXPECT_EQ(workers_of(cluster, {bid_of(8, 1, 10)}), Workers{4});
}

TEST(GadgetSlot, AllIsPackedAnewWhereGapsAreTooSmall) {
  // The first ring takes a place that the second one needs.
  EXPECT_EQ(workers_of(cluster_of({{2, 4}}), {bid_of(1, 2, 1), bid_of(4, 1, 11)}), (Workers{1, 4}));
  EXPECT_EQ(
      workers_of(cluster_of({{3, 3}}), {bid_of(2, 1, 11), bid_of(1, 3, 11), bid_of(1, 1, 11)}),
      (Workers{2, 1, 1}));
}

TEST(GadgetSlot, EveryResourceIsALimit) {
  Cluster cluster = cluster_of({{8, 8}});
  cluster.resources = {"gpus", "memory"};
  for (Server& server : cluster.servers) server.capacity[1] = 10;
  Bid bid = bid_of(8, 1, 1);
  bid.demand.worker[1] = 5;
  EXPECT_EQ(workers_of(cluster, {bid}), Workers{4});
}

TEST(GadgetSlot, WhatGainsNothingGetsNothing) {
  Bid bid = bid_of(3, 1, 1);
  bid.gains = {0, 0, 0};
  EXPECT_EQ(workers_of(cluster_of({{4}}), {bid}), Workers{0});
  bid.gains = {2, 1, -5};  // As a bill for energy.
  EXPECT_EQ(workers_of(cluster_of({{4}}), {bid}), Workers{1});
  bid.gains = {0, 0, 5};  // As a sigmoid.
  EXPECT_EQ(workers_of(cluster_of({{4}}), {bid}), Workers{3});
}

TEST(GadgetSlot, ChecksFindWhatDoesNotFit) {
  const Cluster cluster = cluster_of({{2, 2}, {2}});
  const std::vector<Bid> bids = {bid_of(4, 1, 10), bid_of(4, 1, 6)};
  const auto message = [&](const std::vector<Ring>& rings) {
    return check(cluster, bids, rings).message();
  };
  EXPECT_EQ(message({{0, {{0, 2}, {1, 1}}}}), "");
  EXPECT_EQ(message({{2, {{0, 1}}}}), "a ring is of no bid");
  EXPECT_EQ(message({{0, {{0, 1}}}, {0, {{1, 1}}}}), "the ring of bid 0 is there twice");
  EXPECT_EQ(message({{0, {}}}), "the ring of bid 0 has too few or too many workers");
  EXPECT_EQ(message({{0, {{0, 2}, {1, 3}}}}), "the ring of bid 0 has too few or too many workers");
  EXPECT_EQ(message({{0, {{0, 1}, {3, 1}}}}), "the ring of bid 0 has a share of nothing");
  EXPECT_EQ(message({{0, {{0, 1}, {1, 1}, {0, 1}}}}),
            "the ring of bid 0 comes back to a server or rack");
  EXPECT_EQ(message({{0, {{0, 1}, {2, 1}, {1, 1}}}}),
            "the ring of bid 0 comes back to a server or rack");
  EXPECT_EQ(message({{0, {{0, 3}}}}), "server s0 has less than its rings use");
  EXPECT_EQ(message({{0, {{0, 1}, {1, 1}}}, {1, {{0, 1}, {2, 1}}}}),
            "the uplink of server s0 carries less than its rings need");
  Cluster wide = cluster;
  for (Server& server : wide.servers) server.bits_per_second = 100;
  EXPECT_EQ(check(wide, bids, {{0, {{0, 1}, {2, 1}}}, {1, {{1, 1}, {2, 1}}}}).message(),
            "the uplink of rack r0 carries less than its rings need");
}

class GadgetQuality : public ::testing::TestWithParam<UtilityKind> {};

/// Asked for: 0.99 in the mean and 0.9 at least, of concave utilities. The paper reports 0.61 to
/// 0.78 of its own solver.
TEST_P(GadgetQuality, IsNearTheOptimumOfSmallSlots) {
  constexpr std::size_t kSlots = 200;
  double sum = 0, least = 1;
  for (std::size_t seed = 0; seed < kSlots; ++seed) {
    SlotShape shape;
    shape.utility = GetParam();
    const RandomSlot slot = random_slot(shape, seed);
    const std::vector<Ring> rings = solve_slot(slot.cluster, slot.bids);
    const Status status = check(slot.cluster, slot.bids, rings);
    ASSERT_TRUE(status.is_ok()) << seed << ": " << status.message();
    const double found = gain_of(slot.bids, rings);
    const double part = found / ExactSlot(slot.cluster, slot.bids).most_gain(0);
    ASSERT_LE(part, 1 + 1e-9) << seed;
    sum += part;
    least = std::min(least, part);
  }
  EXPECT_GE(sum / kSlots, 0.999);
  EXPECT_GE(least, 0.94);
}

INSTANTIATE_TEST_SUITE_P(, GadgetQuality,
                         ::testing::Values(UtilityKind::kSqrt, UtilityKind::kLog,
                                           UtilityKind::kSigmoid, UtilityKind::kEnergy));

/// All workers or none is not concave, and nothing was asked for.
TEST(GadgetSlot, JobsThatCannotBeResizedAreNearTheOptimum) {
  constexpr std::size_t kSlots = 200;
  double sum = 0, least = 1;
  for (std::size_t seed = 0; seed < kSlots; ++seed) {
    SlotShape shape;
    shape.may_resize = false;
    const RandomSlot slot = random_slot(shape, seed);
    const std::vector<Ring> rings = solve_slot(slot.cluster, slot.bids);
    const Status status = check(slot.cluster, slot.bids, rings);
    ASSERT_TRUE(status.is_ok()) << seed << ": " << status.message();
    const double part = gain_of(slot.bids, rings) / ExactSlot(slot.cluster, slot.bids).most_gain(0);
    sum += part;
    least = std::min(least, part);
  }
  EXPECT_GE(sum / kSlots, 0.998);
  EXPECT_GE(least, 0.85);
}

TEST(GadgetSlot, LargeSlotsAreFeasibleAndTheSameAgain) {
  for (std::size_t seed = 0; seed < 20; ++seed) {
    SlotShape shape;
    shape.servers = 30 + seed;
    shape.racks = 2 + seed % 4;
    shape.jobs = 60;
    shape.narrowest_link = 0.1;
    const RandomSlot slot = random_slot(shape, seed);
    const std::vector<Ring> rings = solve_slot(slot.cluster, slot.bids);
    const Status status = check(slot.cluster, slot.bids, rings);
    ASSERT_TRUE(status.is_ok()) << seed << ": " << status.message();
    const std::vector<Ring> again = solve_slot(slot.cluster, slot.bids);
    ASSERT_EQ(rings.size(), again.size());
    for (std::size_t i = 0; i < rings.size(); ++i) ASSERT_EQ(rings[i].shares, again[i].shares);
  }
}

}  // namespace
}  // namespace ringpress::gadget
