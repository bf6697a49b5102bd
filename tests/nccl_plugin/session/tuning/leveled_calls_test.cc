// RINGPRESS_ADJUST_STEPS in communicators: calls whose parts have levels of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin {
namespace {

using LeveledStep = std::vector<std::size_t>;  // Elements of its calls.
constexpr double kSlowLink = 25e-9;            // Seconds a byte: worth compression.

constexpr std::size_t kFaint = 20480;  // Calls of so many elements are of small values.

/// Each quarter a tenth as large as the one before it.
const std::vector<float>& uneven_gradient(std::size_t count, int rank) {
  thread_local std::map<std::pair<std::size_t, int>, std::vector<float>> made;
  std::vector<float>& values = made[{count, rank}];
  if (!values.empty()) return values;
  values = testing::random_gradient(count, count, rank);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] *= std::pow(0.1f, static_cast<float>(4 * i / count));
    if (count == kFaint) values[i] *= 1e-3f;
  }
  return values;
}

struct LeveledRank {
  std::vector<std::vector<float>> results;  // Of all calls.
  std::vector<std::uint64_t> sent_bytes;    // So far, by step.
  std::size_t calls_by_part = 0;
  std::set<std::string> codecs;
  Statistics statistics;
  std::string failure;
};

/// What a rank does besides before the calls of a step.
using BeforeCall = void (*)(Communicator& communicator, std::size_t step, std::size_t call);

void make_leveled_steps(Communicator& communicator, const std::vector<LeveledStep>& steps,
                        BeforeCall before, LeveledRank* rank) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (std::size_t call = 0; call < steps[step].size(); ++call) {
      before(communicator, step, call);
      const std::size_t count = steps[step][call];
      const std::vector<float>& own = uneven_gradient(count, communicator.rank());
      std::vector<float> result(count);
      const Status status =
          communicator.all_reduce(own.data(), result.data(), count, DType::kFloat32, {});
      if (!status.is_ok()) {
        rank->failure = status.message();
        return;
      }
      rank->results.push_back(std::move(result));
      rank->codecs.insert(communicator.statistics().last_codec);
      if (communicator.statistics().last_codec.ends_with("by part")) ++rank->calls_by_part;
    }
    rank->sent_bytes.push_back(communicator.statistics().wire_bytes);
  }
  rank->statistics = communicator.statistics();
}

std::vector<LeveledRank> run_leveled(
    int world, const std::vector<LeveledStep>& steps,
    std::vector<std::pair<std::string, std::string>> environment,
    BeforeCall before = [](Communicator&, std::size_t, std::size_t) {}) {
  environment.emplace_back("RINGPRESS_CACHE", "off");
  const Settings settings = parse_settings(environment, nullptr);
  const auto fabric = std::make_shared<testing::ThreadFabric>(world, false, kSlowLink);
  std::vector<LeveledRank> ranks(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      make_leveled_steps(communicator, steps, before, &ranks[static_cast<std::size_t>(rank)]);
    });
  }
  threads.clear();
  return ranks;
}

void expect_equal_ranks(const std::vector<LeveledRank>& ranks) {
  for (const LeveledRank& rank : ranks) {
    EXPECT_EQ(rank.failure, "");
    EXPECT_TRUE(rank.results == ranks[0].results);
    EXPECT_EQ(rank.calls_by_part, ranks[0].calls_by_part);
  }
}

/// Of the mean of all calls of so many elements.
double error_of_mean(const LeveledRank& rank, std::size_t count, int world) {
  std::vector<double> mean(count), exact(count);
  std::size_t calls = 0;
  for (const std::vector<float>& result : rank.results) {
    if (result.size() != count) continue;
    ++calls;
    for (std::size_t i = 0; i < count; ++i) mean[i] += double{result[i]};
  }
  for (int other = 0; other < world; ++other) {
    const std::vector<float>& values = uneven_gradient(count, other);
    for (std::size_t i = 0; i < count; ++i) exact[i] += double{values[i]};
  }
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < count; ++i) {
    lost += std::pow(mean[i] / static_cast<double>(calls) - exact[i], 2);
    whole += exact[i] * exact[i];
  }
  return std::sqrt(lost / whole);
}

void append(std::size_t times, const LeveledStep& step, std::vector<LeveledStep>* steps) {
  steps->insert(steps->end(), times, step);
}

// Buckets that are cut anew, an odd last batch, another model in between; layers that a rank hears
// of later than the others, or never.
TEST(LeveledCalls, RanksAgreeWhateverTheProgramDoes) {
  std::vector<LeveledStep> steps;
  append(1, {20000, 17000, 34000}, &steps);
  append(40, {31000, 34000}, &steps);
  append(1, {31000, 17000}, &steps);
  append(50, {31000, 34000}, &steps);
  append(3, {25000}, &steps);
  append(60, {20000, 34000}, &steps);
  const BeforeCall tell_of_layers = [](Communicator& communicator, std::size_t step,
                                       std::size_t call) {
    const std::vector<Layer> layers{{0, 9000, 0, 0}, {9000, 22000, 0, 0}};
    const auto late = static_cast<std::size_t>(10 * communicator.rank());
    if (step != 5 + late || call != 0 || communicator.rank() == 3) return;
    EXPECT_TRUE(communicator.set_layers({31000, DType::kFloat32, nullptr}, layers).is_ok());
  };
  for (int world = 2; world <= 4; ++world) {
    // How calls are made by auto is a matter of times; all but that is the same with one codec.
    for (const char* const codec : {"auto", "q4"}) {
      const auto ranks =
          run_leveled(world, steps, {{"RINGPRESS_ADJUST_STEPS", "20"}, {"RINGPRESS_CODEC", codec}},
                      tell_of_layers);
      expect_equal_ranks(ranks);
      if (codec[0] == 'q') {
        EXPECT_GT(ranks[0].calls_by_part, 20u) << world;
      }
    }
  }
}

// What one call drops comes with the next ones, whatever their levels.
TEST(LeveledCalls, ResidualsAreKeptWhenLevelsChange) {
  constexpr std::size_t kCount = 40000;
  std::vector<LeveledStep> steps;
  append(100, {kCount, kCount + 4000}, &steps);
  for (const char* const adjust_steps : {"10", "30"}) {
    const auto ranks = run_leveled(
        2, steps, {{"RINGPRESS_ADJUST_STEPS", adjust_steps}, {"RINGPRESS_CODEC", "q4"}});
    expect_equal_ranks(ranks);
    EXPECT_GT(ranks[0].calls_by_part, 100u);
    EXPECT_LE(error_of_mean(ranks[0], kCount, 2), 0.02);
    EXPECT_GT(ranks[0].statistics.residual_bytes, 0u);
  }
}

/// Of all results from a call on, what is missing from the exact sums; the squares.
double squares_lost(const LeveledRank& rank, std::size_t first_call, int world) {
  double sum = 0;
  for (std::size_t call = first_call; call < rank.results.size(); ++call) {
    const std::vector<float>& result = rank.results[call];
    std::vector<double> exact(result.size());
    for (int other = 0; other < world; ++other) {
      const std::vector<float>& values = uneven_gradient(result.size(), other);
      for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += double{values[i]};
    }
    for (std::size_t i = 0; i < exact.size(); ++i) sum += std::pow(double{result[i]} - exact[i], 2);
  }
  return sum;
}

/// What rank 0 sends in a step in which nothing is exact.
std::uint64_t least_bytes_of_a_step(const LeveledRank& rank) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t step = 10; step < rank.sent_bytes.size(); ++step) {
    least = std::min(least, rank.sent_bytes[step] - rank.sent_bytes[step - 1]);
  }
  return least;
}

// Fewer bytes than with the budget's codec for all, at no more error.
TEST(LeveledCalls, SendFewerBytesAtNoMoreError) {
  std::vector<LeveledStep> steps;
  append(60, {60000, 65000}, &steps);
  const auto uniform = run_leveled(2, steps, {{"RINGPRESS_CODEC", "q4"}});
  const auto leveled =
      run_leveled(2, steps, {{"RINGPRESS_ADJUST_STEPS", "20"}, {"RINGPRESS_CODEC", "q4"}});
  expect_equal_ranks(leveled);
  ASSERT_GT(leveled[0].calls_by_part, 40u);
  EXPECT_LE(squares_lost(leveled[0], 80, 2), 1.05 * squares_lost(uniform[0], 80, 2));
  EXPECT_LE(static_cast<double>(least_bytes_of_a_step(leveled[0])),
            0.85 * static_cast<double>(least_bytes_of_a_step(uniform[0])));
}

// L-GreCo says how much, Espresso whether: a step whose first gradient is ready long before the
// others, so that its call may as well be exact. Whatever is left exact, and whenever, the budget
// holds.
TEST(LeveledCalls, TheStepsPlanKeepsWithinTheBudget) {
  const BeforeCall wait = [](Communicator&, std::size_t, std::size_t call) {
    thread_local std::chrono::steady_clock::time_point begin;
    if (call == 0) begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_until(begin + std::chrono::milliseconds(call == 0 ? 24 : 34));
  };
  std::vector<LeveledStep> steps;
  append(110, {50000, 80000}, &steps);
  const auto uniform = run_leveled(3, steps, {{"RINGPRESS_DETERMINISTIC", "1"}});
  const auto leveled = run_leveled(3, steps, {{"RINGPRESS_ADJUST_STEPS", "16"}}, wait);
  expect_equal_ranks(leveled);
  EXPECT_LE(squares_lost(leveled[0], 60, 3), 1.05 * squares_lost(uniform[0], 60, 3));
}

// A call by parts is as wide as the plan's algorithm allows.
TEST(LeveledCalls, ARingHasOneLevelForACall) {
  std::vector<LeveledStep> steps;
  append(30, {40000, 44000}, &steps);
  const auto ranks = run_leveled(
      3, steps,
      {{"RINGPRESS_ADJUST_STEPS", "10"}, {"RINGPRESS_ALGO", "ring"}, {"RINGPRESS_CODEC", "q4"}});
  expect_equal_ranks(ranks);
  EXPECT_EQ(ranks[0].calls_by_part, 0u);
}

// Of a codec that the user has named, also where nothing is chosen from measured times.
TEST(LeveledCalls, DensitiesRanksAndBitsAreLevels) {
  std::vector<LeveledStep> steps;
  append(14, {10000, kFaint}, &steps);
  append(2, {41000}, &steps);
  append(12, {kFaint, 10000}, &steps);
  for (const char* const codec : {"topk:density=0.02", "powersgd:rank=4", "q4"}) {
    for (int world = 2; world <= 3; ++world) {
      const std::vector<std::pair<std::string, std::string>> environment{
          {"RINGPRESS_ADJUST_STEPS", "6"},
          {"RINGPRESS_CODEC", codec},
          {"RINGPRESS_DETERMINISTIC", "1"}};
      const auto ranks = run_leveled(world, steps, environment);
      expect_equal_ranks(ranks);
      EXPECT_GT(ranks[0].codecs.size(), 1u) << codec;
      if (world > 2) continue;
      const auto again = run_leveled(world, steps, environment);
      EXPECT_TRUE(again[0].results == ranks[0].results) << codec;
    }
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
