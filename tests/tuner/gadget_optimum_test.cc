// Small slots drawn widely, against the optimum; and the optimum against trying out everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "perf/gadget/exact_slot.h"
#include "perf/gadget/wide_slot.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {
namespace {

using perf::ExactSlot;
using perf::larger;
using perf::RandomSlot;
using perf::wide_slot;
using perf::WideShape;

/// Every way to give bids workers on servers, each of which check() judges.
class BruteForce {
 public:
  explicit BruteForce(const RandomSlot& slot) : slot_(slot) {}

  double most_gain() {
    try_bid(0);
    return most_;
  }

 private:
  void try_bid(std::size_t bid) {
    if (!check(slot_.cluster, slot_.bids, rings_).is_ok()) return;
    most_ = std::max(most_, gain_of(slot_.bids, rings_));
    if (bid == slot_.bids.size()) return;
    try_bid(bid + 1);
    for (const bool saves : {false, true}) {
      if (saves && !slot_.bids[bid].saving.has_value()) continue;
      std::vector<Share> shares;
      try_server(bid, saves, 0, &shares);
    }
  }

  /// The workers that the servers of one rack after the other have.
  void try_server(std::size_t bid, bool saves, std::size_t at, std::vector<Share>* shares) {
    const std::size_t servers = slot_.cluster.servers.size();
    if (at == servers * slot_.cluster.racks.size()) {
      if (shares->empty()) return;
      rings_.push_back({bid, *shares, saves});
      try_bid(bid + 1);
      rings_.pop_back();
      return;
    }
    try_server(bid, saves, at + 1, shares);
    if (slot_.cluster.servers[at % servers].rack != at / servers) return;
    for (std::size_t workers = 1; workers <= slot_.bids[bid].gains.size(); ++workers) {
      shares->push_back({at % servers, workers});
      try_server(bid, saves, at + 1, shares);
      shares->pop_back();
    }
  }

  const RandomSlot& slot_;
  std::vector<Ring> rings_;
  double most_ = 0;
};

TEST(GadgetOptimum, IsThatOfTryingEverything) {
  std::size_t narrow = 0;  // Slots in which not every bid has all that it could use.
  for (std::size_t seed = 0; seed < 200; ++seed) {
    WideShape shape = {1 + seed % 3, seed % 2 == 0, seed % 5 < 2};
    shape.most_servers = 3;
    shape.most_jobs = 3;
    shape.most_workers = 3;
    const RandomSlot slot = wide_slot(shape, seed);
    const double most = BruteForce(slot).most_gain();
    EXPECT_NEAR(ExactSlot(slot.cluster, slot.bids).most_gain(0), most, 1e-9 * most) << seed;
    double wished = 0;
    for (const Bid& bid : slot.bids) {
      wished += std::max(0.0, *std::max_element(bid.gains.begin(), bid.gains.end()));
    }
    if (most < wished * (1 - 1e-9)) ++narrow;
  }
  EXPECT_GE(narrow, 50U);
}

class GadgetWideSlots : public ::testing::TestWithParam<WideShape> {};

/// Asked for: 0.99 in the mean and 0.9 at least.
TEST_P(GadgetWideSlots, AreNearTheOptimum) {
  const std::size_t slots = GetParam().least_servers > 2 ? 100 : 600;
  double sum = 0, least = 1;
  for (std::size_t seed = 0; seed < slots; ++seed) {
    const RandomSlot slot = wide_slot(GetParam(), seed);
    const std::vector<Ring> rings = solve_slot(slot.cluster, slot.bids);
    const Status status = check(slot.cluster, slot.bids, rings);
    ASSERT_TRUE(status.is_ok()) << seed << ": " << status.message();
    const double found = gain_of(slot.bids, rings);
    const double most = ExactSlot(slot.cluster, slot.bids).most_gain(found);
    const double part = most > 0 ? found / most : 1;
    sum += part;
    least = std::min(least, part);
    EXPECT_GE(part, 0.9) << seed;
  }
  EXPECT_GE(sum / static_cast<double>(slots), 0.99);
  RecordProperty("least", std::to_string(least));
}

std::string name_of(const ::testing::TestParamInfo<WideShape>& info) {
  const WideShape& shape = info.param;
  return std::string(shape.least_servers > 2 ? "Larger" : "") + std::to_string(shape.resources) +
         "Resources" + (shape.may_resize ? "Resizable" : "AllOrNothing") +
         (shape.has_choice ? "WithChoice" : "");
}

INSTANTIATE_TEST_SUITE_P(, GadgetWideSlots,
                         ::testing::Values(WideShape{1, true}, WideShape{1, false},
                                           WideShape{2, true}, WideShape{2, false},
                                           WideShape{2, true, true}, WideShape{2, false, true},
                                           larger({2, true}), larger({2, false})),
                         name_of);

/// A ring that may reserve less does so where its link is too narrow for it, and only there.
TEST(GadgetChoice, ARingReservesLessOnlyWhereThatGains) {
  Cluster cluster;
  cluster.resources = {"gpus"};
  cluster.racks = {{"r0", 100}};
  cluster.servers = {{"s0", 0, {1}, 10}, {"s1", 0, {1}, 10}};
  Bid bid = {{{1}, 10}, {1, 2}};
  bid.saving = SavingBid{5, {0.8, 1.6}};
  EXPECT_FALSE(solve_slot(cluster, {bid})[0].saves);
  cluster.servers[1].bits_per_second = 9;
  EXPECT_TRUE(solve_slot(cluster, {bid})[0].saves);
  bid.saving->gains = {0.5, 0.9};  // Now one worker alone, in a hurry, gains more.
  const std::vector<Ring> alone = solve_slot(cluster, {bid});
  EXPECT_EQ(alone[0].workers(), 1U);
  EXPECT_FALSE(alone[0].saves);
}

TEST(GadgetChoice, RingsShareALinkIfTheyReserveLess) {
  // Each ring has a worker on either server; at full rates the uplinks carry one ring.
  Cluster cluster;
  cluster.resources = {"gpus"};
  cluster.racks = {{"r0", 100}};
  cluster.servers = {{"s0", 0, {5}, 10}, {"s1", 0, {5}, 10}};
  const double kNever = -std::numeric_limits<double>::infinity();
  Bid large = {{{3}, 8}, {kNever, 3}}, small = {{{2}, 8}, {kNever, 3}};
  EXPECT_EQ(solve_slot(cluster, {large, small}).size(), 1U);
  large.saving = small.saving = SavingBid{2, {kNever, 2}};
  std::vector<Ring> rings = solve_slot(cluster, {large, small});
  ASSERT_EQ(rings.size(), 2U);
  EXPECT_NE(rings[0].saves, rings[1].saves);  // One of them is enough: 8 and 2.
  large.saving = small.saving = SavingBid{3, {kNever, 2}};
  rings = solve_slot(cluster, {large, small});
  ASSERT_EQ(rings.size(), 2U);
  EXPECT_TRUE(rings[0].saves && rings[1].saves);
  large.saving = small.saving = SavingBid{3, {kNever, 1}};  // One in a hurry gains more than both.
  EXPECT_EQ(solve_slot(cluster, {large, small}).size(), 1U);
}

}  // namespace
}  // namespace ringpress::gadget
