// What every Collective promises, written once, over a mesh of threads. For one file of a program,
// which instantiates it per algorithm:
//
//   INSTANTIATE_TEST_SUITE_P(Ring, CollectiveContract,
//                            ::testing::Values(CollectiveUnderTest{traits_of(Algorithm::kRing)}));
#ifndef TESTS_CONTRACT_COLLECTIVE_CONTRACT_TESTS_H_
#define TESTS_CONTRACT_COLLECTIVE_CONTRACT_TESTS_H_

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/whole_exchange.h"
#include "tests/contract/collective_contract.h"

namespace ringpress::testing {

/// A row of a table, and what makes the collective that it is about.
struct CollectiveUnderTest {
  AlgorithmTraits traits;
  MakeCollective make = {};
};

inline std::ostream& operator<<(std::ostream& out, const CollectiveUnderTest& tested) {
  return out << tested.traits.name;
}

class CollectiveContract : public ::testing::TestWithParam<CollectiveUnderTest> {
 protected:
  const AlgorithmTraits& traits() const { return GetParam().traits; }
  CollectiveCase base() const {
    CollectiveCase c;
    c.algorithm = traits().algorithm;
    c.make = GetParam().make;
    return c;
  }
  // Bounds on the relative error of one all-reduce of gradient-like data with up to 8 ranks; who
  // goes round requantises at each hop.
  double error_bound(const CollectiveCase& c) const;
};

inline double CollectiveContract::error_bound(const CollectiveCase& c) const {
  const double hops = traits().goes_round ? c.world : 2;
  if (c.codec == "none" || c.codec == "lossless") return 1e-6;
  if (c.codec == "fp16") return 1e-3 * hops;
  if (c.codec == "bf16") return 8e-3 * hops;
  if (c.codec.starts_with("q8")) return 0.02 * hops;
  // What they do not get across is zero.
  if (c.codec.starts_with("powersgd") || c.codec.starts_with("randk")) return 1 + 1e-5;
  return 0.35 * hops;  // q4
}

/// How much larger what is added is than its sum, at least 1: where values cancel each other,
/// errors are of the size of those. Tensors of a few values do so now and then.
inline double cancellation(const std::vector<std::vector<float>>& inputs,
                           const std::vector<double>& exact, ReduceOp op) {
  double added = 0, sum = 0;
  for (const std::vector<float>& input : inputs) {
    for (const float value : input) added += double{value} * value;
  }
  for (const double value : exact) sum += value * value;
  if (op == ReduceOp::kAvg) sum *= std::pow(static_cast<double>(inputs.size()), 2);
  return sum > 0 ? std::max(1.0, std::sqrt(added / sum)) : 1;
}

/// None, or any order of the ranks.
inline std::vector<int> any_order(int world) {
  std::vector<int> order;
  if (*rc::gen::arbitrary<bool>()) return order;
  for (int rank = 0; rank < world; ++rank) order.push_back(rank);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  return order;
}

TEST_P(CollectiveContract, AllReduceAgreesOnAllRanksAndStaysWithinTheErrorBound) {
  EXPECT_TRUE(rc::check("all_reduce", [this] {
    CollectiveCase c = base();
    c.codec = *rc::gen::element<std::string>("none", "fp16", "bf16", "lossless", "q8", "q4",
                                             "q4:round=stochastic", "q4:grid=minmax", "q1",
                                             "powersgd:rank=3", "randk:density=0.2");
    c.world = *rc::gen::inRange(2, 9);
    c.count = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 300),
                              rc::gen::inRange<std::size_t>(1, 60000));
    c.chunk_elements = *rc::gen::element<std::size_t>(0, 1024, 4096);
    c.in_place = *rc::gen::arbitrary<bool>();
    c.one_host = *rc::gen::arbitrary<bool>();
    c.misalignment_bytes = *rc::gen::inRange<std::size_t>(0, 8);
    c.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kAvg);
    c.ring_order = any_order(c.world);
    const auto inputs = random_inputs(c, *rc::gen::arbitrary<std::uint16_t>());
    const auto results = all_reduce_results(c, inputs);
    expect_identical(results);
    if (c.codec != "q1") {
      const std::vector<double> exact = exact_sum(inputs, c.op);
      RC_ASSERT(relative_error(results[0], exact) <=
                error_bound(c) * cancellation(inputs, exact, c.op));
    }
    RC_ASSERT(!HasFailure());
  }));
}

TEST_P(CollectiveContract, UncompressedSumIsTakenInAFixedOrder) {
  CollectiveCase c = base();
  c.world = 4;
  c.count = 30000;
  const auto inputs = random_inputs(c, 3);
  const auto first = all_reduce_results(c, inputs);
  c.in_place = true;
  const auto second = all_reduce_results(c, inputs);
  EXPECT_EQ(first, second);
}

// Tensors that are exchanged whole, in several frames, and the first ones that are not.
TEST_P(CollectiveContract, TwoHostsExchangeSmallTensorsWhole) {
  CollectiveCase c = base();
  c.one_host = false;
  c.chunk_elements = 0;
  for (const std::size_t count : {1U, 32767U, 32768U, 32769U, 65535U, 65536U, 65537U}) {
    for (const bool in_place : {false, true}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
        c.count = count;
        c.in_place = in_place;
        c.op = op;
        const auto inputs = random_inputs(c, count);
        const auto results = all_reduce_results(c, inputs);
        expect_identical(results);
        EXPECT_LE(relative_error(results[0], exact_sum(inputs, op)), error_bound(c)) << count;
      }
    }
  }
}

TEST_P(CollectiveContract, SixtyFourRanks) {
  CollectiveCase c = base();
  c.world = 64;
  for (const char* codec : {"none", "q8"}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{70000}}) {
      c.codec = codec;
      c.count = count;
      const auto inputs = random_inputs(c, 5);
      const auto results = all_reduce_results(c, inputs);
      expect_identical(results);
      const double bound = c.codec == "none" ? 1e-5 : traits().goes_round ? 0.4 : 0.05;
      EXPECT_LE(relative_error(results[0], exact_sum(inputs, c.op)), bound) << codec << count;
    }
  }
}

/// Floats of the largest tensor that is exchanged whole, one rank a host.
inline std::size_t largest_whole_count(const AlgorithmTraits& traits, int world) {
  if (!traits.exchanges_small_whole) return 2;
  std::size_t count = 1;
  while (whole_exchange_of({(count + 1) * sizeof(float), traits.algorithm, world, 1}) !=
         WholeExchange::kNone) {
    ++count;
  }
  return count;
}

// Above 16 ranks small tensors are added by doubling, also where not all ranks take part in it.
TEST_P(CollectiveContract, ManyRanksExchangeSmallTensorsWhole) {
  CollectiveCase c = base();
  c.one_host = false;
  c.chunk_elements = 0;
  for (const int world : {17, 24, 32, 33}) {
    const std::size_t largest = largest_whole_count(traits(), world);
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, largest, largest + 1}) {
      for (const bool in_place : {false, true}) {
        c.world = world;
        c.count = count;
        c.in_place = in_place;
        c.op = in_place ? ReduceOp::kAvg : ReduceOp::kSum;
        const auto inputs = random_inputs(c, count);
        const auto results = all_reduce_results(c, inputs);
        expect_identical(results);
        EXPECT_LE(relative_error(results[0], exact_sum(inputs, c.op)), 1e-5) << world << count;
      }
    }
  }
}

TEST_P(CollectiveContract, NonFiniteValuesReachEveryRankAndSpareTheResidual) {
  for (const float poison : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const char* codec : {"none", "fp16", "q8", "q4", "q2", "q1", "q4:grid=minmax"}) {
      CollectiveCase c = base();
      c.codec = codec;
      c.world = 3;
      c.count = 9000;
      auto inputs = random_inputs(c, 11);
      inputs[1][4321] = poison;
      std::vector<std::vector<float>> residuals(3, std::vector<float>(c.count));
      const auto results = all_reduce_results(c, inputs, &residuals);
      expect_identical(results);
      for (const auto& result : results) EXPECT_FALSE(std::isfinite(result[4321])) << codec;
      EXPECT_TRUE(std::isfinite(results[0][0])) << codec;
      for (const auto& residual : residuals) {
        for (const float value : residual) ASSERT_TRUE(std::isfinite(value)) << codec;
      }
    }
  }
}

TEST_P(CollectiveContract, ErrorFeedbackDeliversOverTimeWhatOneCallDrops) {
  CollectiveCase c = base();
  c.codec = "q2";
  c.world = 3;
  c.count = 5000;
  const auto inputs = random_inputs(c, 21);
  const auto exact = exact_sum(inputs, c.op);
  std::vector<std::vector<float>> residuals(3, std::vector<float>(c.count));
  std::vector<double> total(c.count);
  std::vector<double> total_without(c.count);
  constexpr int kSteps = 60;
  for (int step = 0; step < kSteps; ++step) {
    const auto with = all_reduce_results(c, inputs, &residuals, static_cast<std::uint64_t>(step));
    const auto without = all_reduce_results(c, inputs, nullptr, static_cast<std::uint64_t>(step));
    for (std::size_t i = 0; i < c.count; ++i) {
      total[i] += with[0][i] / kSteps;
      total_without[i] += without[0][i] / kSteps;
    }
  }
  const std::vector<float> mean(total.begin(), total.end());
  const std::vector<float> mean_without(total_without.begin(), total_without.end());
  EXPECT_LT(relative_error(mean, exact), 0.1);
  EXPECT_LT(relative_error(mean, exact), 0.25 * relative_error(mean_without, exact));
}

TEST_P(CollectiveContract, ReduceScatterGivesEachRankItsShard) {
  if (!traits().has_halves) GTEST_SKIP() << "all-reduces only";
  EXPECT_TRUE(rc::check("reduce_scatter", [this] {
    CollectiveCase c = base();
    c.codec = *rc::gen::element<std::string>("none", "q8", "q4");
    c.world = *rc::gen::inRange(2, 7);
    c.count = *rc::gen::inRange<std::size_t>(1, 9000);  // Per shard.
    c.in_place = *rc::gen::arbitrary<bool>();
    c.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kAvg);
    c.ring_order = any_order(c.world);
    CollectiveCase whole = c;
    whole.count = c.count * static_cast<std::size_t>(c.world);
    const auto inputs = random_inputs(whole, *rc::gen::arbitrary<std::uint16_t>());
    std::vector<float> result(whole.count);
    const auto codec = codec_for(c);
    const auto collective = collective_for(c);
    run_ranks(c.world, [&](ThreadMesh* mesh) -> Status {
      const auto rank = static_cast<std::size_t>(mesh->rank());
      std::vector<float> send = inputs[rank];
      std::vector<float> receive(c.count);
      float* out = c.in_place ? send.data() + rank * c.count : receive.data();
      const auto context = context_for(c, mesh, codec.get(), CollectiveKind::kReduceScatter, 0);
      RINGPRESS_RETURN_IF_ERROR(collective->reduce_scatter(context, {send.data(), out, c.count}));
      std::copy(out, out + c.count, result.begin() + static_cast<std::ptrdiff_t>(rank * c.count));
      return Status::ok();
    });
    RC_ASSERT(relative_error(result, exact_sum(inputs, c.op)) <= error_bound(c));
    RC_ASSERT(!HasFailure());
  }));
}

TEST_P(CollectiveContract, AllGatherGivesEachRankEveryShard) {
  if (!traits().has_halves) GTEST_SKIP() << "all-reduces only";
  EXPECT_TRUE(rc::check("all_gather", [this] {
    CollectiveCase c = base();
    c.codec = *rc::gen::element<std::string>("none", "q8");
    c.world = *rc::gen::inRange(2, 7);
    c.count = *rc::gen::inRange<std::size_t>(1, 9000);  // Per shard.
    c.in_place = *rc::gen::arbitrary<bool>();
    c.ring_order = any_order(c.world);
    const auto inputs = random_inputs(c, *rc::gen::arbitrary<std::uint16_t>());
    std::vector<std::vector<float>> results(inputs.size());
    const auto codec = codec_for(c);
    const auto collective = collective_for(c);
    run_ranks(c.world, [&](ThreadMesh* mesh) -> Status {
      const auto rank = static_cast<std::size_t>(mesh->rank());
      std::vector<float> receive(c.count * inputs.size());
      float* own = receive.data() + rank * c.count;
      if (c.in_place) std::copy(inputs[rank].begin(), inputs[rank].end(), own);
      const float* send = c.in_place ? own : inputs[rank].data();
      const auto context = context_for(c, mesh, codec.get(), CollectiveKind::kAllGather, 0);
      RINGPRESS_RETURN_IF_ERROR(collective->all_gather(context, {send, receive.data(), c.count}));
      results[rank] = receive;
      return Status::ok();
    });
    expect_identical(results);
    std::vector<double> expected;
    for (const auto& input : inputs) expected.insert(expected.end(), input.begin(), input.end());
    RC_ASSERT(relative_error(results[0], expected) <= (c.codec == "none" ? 0 : error_bound(c)));
    RC_ASSERT(!HasFailure());
  }));
}

}  // namespace ringpress::testing

#endif  // TESTS_CONTRACT_COLLECTIVE_CONTRACT_TESTS_H_
