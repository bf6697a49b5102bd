// RINGPRESS_LAZY: calls that are put off, by all ranks together, until enough has come together.
#include "nccl_plugin/lazy_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "nccl_plugin/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kLazyCount = 20000;
constexpr int kLazyRanks = 3;

struct LazyRecord {
  std::vector<std::vector<float>> results;
  Statistics statistics;
};

/// All-reduces of what gradient(rank, call) gives.
template <typename Gradient>
std::vector<LazyRecord> run_lazily(std::vector<std::pair<std::string, std::string>> environment,
                                   int calls, Gradient gradient) {
  environment.insert(environment.begin(), {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "3.9"}});
  const Settings settings = parse_settings(environment, nullptr);
  const auto fabric = std::make_shared<testing::ThreadFabric>(kLazyRanks, false);
  std::vector<LazyRecord> records(kLazyRanks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kLazyRanks; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      LazyRecord& record = records[static_cast<std::size_t>(rank)];
      std::vector<float> send(kLazyCount), receive(kLazyCount);
      for (int call = 0; call < calls; ++call) {
        const std::vector<float> values = gradient(rank, call);
        std::copy(values.begin(), values.end(), send.begin());
        const Status status = communicator.all_reduce(send.data(), receive.data(), kLazyCount,
                                                      DType::kFloat32, Reduction());
        ASSERT_TRUE(status.is_ok()) << status.message();
        record.results.push_back(receive);
      }
      record.statistics = communicator.statistics();
    });
  }
  threads.clear();
  for (const LazyRecord& record : records) EXPECT_EQ(record.results, records[0].results);
  return records;
}

bool is_zero(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

int count_zeros(const std::vector<LazyRecord>& records) {
  return static_cast<int>(
      std::count_if(records[0].results.begin(), records[0].results.end(), is_zero));
}

std::vector<float> add_up(const std::vector<std::vector<float>>& results) {
  std::vector<float> sum(kLazyCount);
  for (const auto& result : results) {
    for (std::size_t i = 0; i < kLazyCount; ++i) sum[i] += result[i];
  }
  return sum;
}

/// Gradients that agree: the fourth is enough. Nothing of them is lost.
TEST(LazyCalls, WhatAgreesComesTogetherSoon) {
  constexpr int kCalls = 43;
  const auto gradient = [](int rank, int) { return testing::random_gradient(kLazyCount, 1, rank); };
  const auto records = run_lazily({}, kCalls, gradient);
  const int zeros = count_zeros(records);
  EXPECT_GE(zeros, kCalls * 3 / 4 - 6);
  EXPECT_LE(zeros, kCalls * 3 / 4 + 1);
  EXPECT_EQ(records[0].statistics.exact_calls.at("put off: RINGPRESS_LAZY"),
            static_cast<std::uint64_t>(zeros));
  int last = kCalls - 1;  // What came after the last one is still to come.
  while (is_zero(records[0].results[static_cast<std::size_t>(last)])) --last;
  const std::vector<float> sum = add_up(records[0].results);
  std::vector<float> expected(kLazyCount);
  for (int rank = 0; rank < kLazyRanks; ++rank) {
    const std::vector<float> own = gradient(rank, 0);
    for (std::size_t i = 0; i < kLazyCount; ++i) {
      expected[i] += own[i] * static_cast<float>(last + 1);
    }
  }
  for (std::size_t i = 0; i < kLazyCount; i += 31) {
    ASSERT_NEAR(sum[i], expected[i], 1e-3 * (1 + std::abs(expected[i])));
  }
}

TEST(LazyCalls, NoiseTakesLonger) {
  const auto gradient = [](int rank, int call) {
    return testing::random_gradient(kLazyCount, static_cast<std::uint64_t>(call) + 1, rank);
  };
  const int zeros = count_zeros(run_lazily({}, 80, gradient));
  EXPECT_GE(zeros, 80 * 13 / 16);
  EXPECT_LT(zeros, 80);
}

/// The largest vote decides: one rank whose gradients agree is enough.
TEST(LazyCalls, OneRankIsEnough) {
  const auto gradient = [](int rank, int call) {
    return testing::random_gradient(kLazyCount,
                                    rank == 2 ? 1 : static_cast<std::uint64_t>(call) + 1, rank);
  };
  EXPECT_LE(count_zeros(run_lazily({}, 43, gradient)), 43 * 3 / 4 + 1);
}

TEST(LazyCalls, NobodyWaitsLongerThanToldTo) {
  const auto records = run_lazily(
      {{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "5"}}, 45, [](int rank, int call) {
        return testing::random_gradient(kLazyCount, static_cast<std::uint64_t>(call) + 1, rank);
      });
  int row = 0;
  for (const auto& result : records[0].results) {
    row = is_zero(result) ? row + 1 : 0;
    ASSERT_LE(row, 4);
  }
  EXPECT_GE(count_zeros(records), 45 * 4 / 5 - 6);
}

/// Loss scalers look for it at once.
TEST(LazyCalls, WhatIsNotFiniteIsNotPutOff) {
  constexpr int kBadCall = 20;
  const auto records = run_lazily({{"RINGPRESS_LAZY", "1000"}}, 30, [](int rank, int call) {
    std::vector<float> values = testing::random_gradient(kLazyCount, 1, rank);
    if (rank == 1 && call == kBadCall) values[7] = std::numeric_limits<float>::infinity();
    return values;
  });
  EXPECT_FALSE(std::isfinite(records[0].results[kBadCall][7]));
  for (std::size_t call = kBadCall + 1; call < 30; ++call) {
    EXPECT_TRUE(std::isfinite(records[0].results[call][7])) << call;
  }
}

/// As any other calls they are compressed when they are made.
TEST(LazyCalls, AreCompressedAsOthers) {
  const auto records = run_lazily({{"RINGPRESS_CODEC", "q8"}}, 43, [](int rank, int) {
    return testing::random_gradient(kLazyCount, 1, rank);
  });
  EXPECT_GE(records[0].statistics.compressed_calls, 10u);
  EXPECT_GE(count_zeros(records), 43 * 3 / 4 - 6);
}

TEST(LazyCalls, SmallIntegerAndOtherCallsGoOn) {
  const Settings settings = parse_settings({{"RINGPRESS_LAZY", "4"}}, nullptr);
  const auto fabric = std::make_shared<testing::ThreadFabric>(2, false);
  testing::ThreadMesh mesh(fabric, 0);
  std::uint64_t sequence = 0;
  MeshPeers peers(mesh, *std::pmr::get_default_resource(), sequence);
  const LazyCalls lazy(settings, peers);
  const Reduction sum;
  EXPECT_TRUE(lazy.takes(20000, DType::kFloat32, sum));
  EXPECT_TRUE(lazy.takes(40000, DType::kBfloat16, sum));
  EXPECT_FALSE(lazy.takes(100, DType::kFloat32, sum));
  EXPECT_FALSE(lazy.takes(20000, DType::kInt32, sum));
  EXPECT_FALSE(lazy.takes(20000, DType::kFloat32, Reduction{ReduceOp::kMax, 1, false}));
  EXPECT_FALSE(lazy.takes(20000, DType::kFloat32, Reduction{ReduceOp::kSum, 2, true}));
  EXPECT_FALSE(lazy.takes(0, DType::kFloat32, sum));
}

}  // namespace
}  // namespace ringpress::nccl_plugin
