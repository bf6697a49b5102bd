// topk inside sra: what the ranks end with is what a plain computation gives, and costs what the
// union of their selections costs.
#include <rapidcheck.h>

#include <algorithm>
#include <random>

#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

using Tensors = std::vector<std::vector<float>>;

Tensors gaussian_inputs(const CollectiveCase& c, std::uint32_t seed) {
  Tensors inputs(static_cast<std::size_t>(c.world), std::vector<float>(c.count));
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (auto& input : inputs) {
    for (float& value : input) value = normal(engine);
  }
  return inputs;
}

CollectiveCase case_of(const std::string& codec, int world, std::size_t count) {
  CollectiveCase c;
  c.algorithm = Algorithm::kSra;
  c.codec = codec;
  c.world = world;
  c.count = count;
  c.chunk_elements = 65536;
  return c;
}

/// x of a rank where it is among its `kept` largest, else 0. No two of the largest may be equal.
std::vector<float> largest_of(const std::vector<float>& x, std::size_t kept) {
  std::vector<float> magnitudes(x.size());
  std::transform(x.begin(), x.end(), magnitudes.begin(), [](float v) { return std::abs(v); });
  const auto wanted = magnitudes.begin() + static_cast<std::ptrdiff_t>(kept - 1);
  std::nth_element(magnitudes.begin(), wanted, magnitudes.end(), std::greater<>());
  std::vector<float> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = std::abs(x[i]) >= *wanted ? x[i] : 0.0f;
  return result;
}

TEST(TopkSra, ResultIsTheSumOfEachRanksLargest) {
  for (const int world : {2, 3, 5}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      CollectiveCase c = case_of("topk:density=0.02,value=16", world, 150000);
      c.op = op;
      c.in_place = world == 3;
      Tensors inputs = gaussian_inputs(c, 5);
      const auto results = all_reduce_results(c, inputs);
      expect_identical(results);
      for (auto& input : inputs) input = largest_of(input, 3000);
      const std::vector<double> expected = exact_sum(inputs, op);
      for (std::size_t i = 0; i < c.count; ++i) {
        // Each contribution and the sum are rounded to 8 bits.
        double magnitude = 0;
        for (const auto& input : inputs) magnitude += std::abs(input[i]);
        ASSERT_NEAR(results[0][i], expected[i], magnitude * 0x1p-7) << i;
      }
    }
  }
}

/// Thresholds are of the whole tensor: where all that is large lies in one chunk, all is sent
/// there.
TEST(TopkSra, SelectsOverTheWholeTensor) {
  CollectiveCase c = case_of("topk:density=0.01,value=16", 2, 400000);
  Tensors inputs = gaussian_inputs(c, 6);
  for (auto& input : inputs) {
    for (std::size_t i = 100000; i < 110000; ++i) input[i] *= 1000;
  }
  const auto results = all_reduce_results(c, inputs);
  expect_identical(results);
  for (std::size_t i = 0; i < c.count; ++i) {
    const bool is_large = i >= 100000 && i < 110000;
    ASSERT_TRUE(is_large || results[0][i] == 0) << i;
  }
}

TEST(TopkSra, ErrorFeedbackDeliversEverythingInTheEnd) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    CollectiveCase c = case_of("topk:density=0.05", 3, 140000);
    c.op = op;
    const double ranks = op == ReduceOp::kAvg ? 3 : 1;
    Tensors residuals(3, std::vector<float>(c.count));
    std::vector<double> given(c.count);
    std::vector<double> taken(c.count);
    for (std::uint32_t step = 0; step < 20; ++step) {
      const Tensors inputs = gaussian_inputs(c, 100 + step);
      const auto results = all_reduce_results(c, inputs, &residuals, step);
      expect_identical(results);
      for (std::size_t i = 0; i < c.count; ++i) {
        for (const auto& input : inputs) given[i] += input[i];
        taken[i] += ranks * results[0][i];
      }
    }
    for (std::size_t i = 0; i < c.count; ++i) {
      for (const auto& residual : residuals) taken[i] += residual[i];
      ASSERT_NEAR(taken[i], given[i], 1e-4) << i;
    }
  }
}

/// Bytes that a rank sends beside those of a dense 8-bit all-reduce.
TEST(TopkSra, SendsTheUnionAndNeverMoreThanDense) {
  struct Expected {
    int world;
    double density;
  };
  for (const Expected& e : {Expected{2, 0.01}, Expected{4, 0.01}, Expected{16, 0.2}}) {
    const std::size_t count = static_cast<std::size_t>(e.world) * 2 * 65536;
    const CollectiveCase c = case_of("topk:density=" + std::to_string(e.density), e.world, count);
    std::uint64_t sent = 0;
    expect_identical(all_reduce_results(c, gaussian_inputs(c, 7), nullptr, 0, &sent));
    const auto bits = [](double share) {
      const double places = -share * std::log2(share) - (1 - share) * std::log2(1 - share);
      return std::min(8.0, 8 * share + places);
    };
    const double united = 1 - std::pow(1 - e.density, e.world);
    const double shard = static_cast<double>(count) / e.world;
    const double frames = 4.0 * (e.world - 1);
    const double payload = (e.world - 1) * shard * (bits(e.density) + bits(united)) / 8;
    const double expected = payload + frames * sizeof(FrameHeader);
    EXPECT_LT(static_cast<double>(sent), 1.06 * expected) << e.world;
    EXPECT_GT(static_cast<double>(sent), 0.95 * expected) << e.world;
    EXPECT_LT(static_cast<double>(sent), 1.01 * 2 * (e.world - 1) * shard);
  }
}

TEST(TopkSra, NonFiniteValuesReachEveryRankAndSpareTheResidual) {
  for (const float poison : {std::nanf(""), INFINITY, -INFINITY}) {
    const CollectiveCase c = case_of("topk", 3, 90000);
    Tensors inputs = gaussian_inputs(c, 8);
    inputs[1][4321] = poison;   // In the shard of another rank,
    inputs[2][80000] = poison;  // and in its own.
    Tensors residuals(3, std::vector<float>(c.count, 0.125f));
    const auto results = all_reduce_results(c, inputs, &residuals);
    expect_identical(results);
    for (const std::size_t place : {std::size_t{4321}, std::size_t{80000}}) {
      EXPECT_FALSE(std::isfinite(results[0][place]));
    }
    EXPECT_EQ(residuals[1][4321], 0.125f);
    EXPECT_EQ(residuals[2][80000], 0.125f);
    EXPECT_EQ(std::count_if(results[0].begin(), results[0].end(),
                            [](float v) { return !std::isfinite(v); }),
              2);
    for (const auto& residual : residuals) {
      for (const float value : residual) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

/// Any tensor and chunking, on one host and several.
TEST(TopkSra, RanksAgreeWhateverTheShape) {
  EXPECT_TRUE(rc::check("topk all_reduce", [] {
    CollectiveCase c = case_of(
        *rc::gen::element<std::string>("topk", "topk:density=0.5", "topk:density=0.1,value=16"),
        *rc::gen::inRange(2, 7), *rc::gen::inRange<std::size_t>(1, 90000));
    c.algorithm = *rc::gen::element(Algorithm::kSra, Algorithm::kRing);
    c.chunk_elements = *rc::gen::element<std::size_t>(0, 1024, 65536);
    c.in_place = *rc::gen::arbitrary<bool>();
    c.one_host = *rc::gen::arbitrary<bool>();
    c.misalignment_bytes = *rc::gen::inRange<std::size_t>(0, 8);
    const Tensors inputs = random_inputs(c, *rc::gen::arbitrary<std::uint16_t>());
    Tensors residuals(inputs.size(), std::vector<float>(c.count));
    expect_identical(all_reduce_results(c, inputs, &residuals));
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TEST(TopKReduceScatter, InfinityStaysInfinite) {
  CollectiveCase c;
  c.algorithm = Algorithm::kSra;
  c.codec = "topk:density=0.1";
  c.count = 2000;  // Per rank.
  const auto codec = codec_for(c);
  for (const float poison : {INFINITY, -INFINITY}) {
    for (const int bringer : {0, 1}) {
      run_ranks(c.world, [&](ThreadMesh* mesh) -> Status {
        std::vector<float> send(2 * c.count, 1.0f);
        if (mesh->rank() == bringer) send[7] = poison;
        std::vector<float> receive(c.count);
        const auto context = context_for(c, mesh, codec.get(), CollectiveKind::kReduceScatter, 0);
        RINGPRESS_RETURN_IF_ERROR(
            ring::make_collective(c.algorithm)
                ->reduce_scatter(context, {send.data(), receive.data(), c.count}));
        if (mesh->rank() == 0) {
          EXPECT_FALSE(std::isfinite(receive[7])) << poison << bringer;
        }
        return Status::ok();
      });
    }
  }
}

}  // namespace
}  // namespace ringpress::testing
