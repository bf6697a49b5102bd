// RINGPRESS_LAZY: calls that are put off, by all ranks together, until enough has come together.
#include "nccl_plugin/session/lazy/lazy_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/lazy/lazy_votes.h"
#include "nccl_plugin/session/mesh_communicator.h"
#include "nccl_plugin/session/statistics_file.h"
#include "tests/support/random_tensor.h"
#include "tests/support/rules_file.h"
#include "tests/support/thread_mesh.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kLazyCount = 20000;
constexpr int kLazyRanks = 3;

struct LazyRecord {
  std::vector<std::vector<float>> results;
  Statistics statistics;
};

/// Runs body(communicator, rank) as so many ranks, each on a host of its own. Gives what their mesh
/// failed with, if it did.
template <typename Body>
std::string run_communicators(int ranks, const Settings& settings, Body body) {
  const auto fabric = std::make_shared<testing::ThreadFabric>(ranks, false);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      body(communicator, rank);
    });
  }
  threads.clear();
  return fabric->failure().message();
}

/// All-reduces of what gradient(rank, call) gives.
template <typename Gradient>
std::vector<LazyRecord> run_lazily(std::vector<std::pair<std::string, std::string>> environment,
                                   int calls, Gradient gradient, bool is_in_place = false) {
  environment.insert(environment.begin(), {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "3.9"}});
  const Settings settings = parse_settings(environment, nullptr);
  std::vector<LazyRecord> records(kLazyRanks);
  run_communicators(kLazyRanks, settings, [&](MeshCommunicator& communicator, int rank) {
    LazyRecord& record = records[static_cast<std::size_t>(rank)];
    std::vector<float> send(kLazyCount), other(kLazyCount);
    std::vector<float>& receive = is_in_place ? send : other;
    for (int call = 0; call < calls; ++call) {
      const std::vector<float> values = gradient(rank, call);
      std::copy(values.begin(), values.end(), send.begin());
      const Status status = communicator.all_reduce(send.data(), receive.data(), kLazyCount,
                                                    DType::kFloat32, Reduction());
      ASSERT_TRUE(status.is_ok()) << status.message();
      record.results.push_back(receive);
    }
    ASSERT_TRUE(communicator.finalize().is_ok());
    record.statistics = communicator.statistics();
  });
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
  EXPECT_NEAR(records[0].results[kBadCall][9],
              testing::random_gradient(kLazyCount, 1, 0)[9] +
                  testing::random_gradient(kLazyCount, 1, 1)[9] +
                  testing::random_gradient(kLazyCount, 1, 2)[9],
              1e-5)
      << "of that call alone: what was put off is not lost with it";
  for (std::size_t call = kBadCall + 1; call < 30; ++call) {
    EXPECT_TRUE(std::isfinite(records[0].results[call][7])) << call;
  }
}

/// What one rank flushes before the last step leaves nothing behind, of any tensor. After an
/// earlier flush, calls are put off as before.
TEST(LazyCalls, WhatIsFlushedIsSentWithTheNextCall) {
  const Settings settings =
      parse_settings({{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}}, nullptr);
  std::vector<std::vector<float>> totals(2);
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int rank) {
    std::vector<std::vector<float>> send, receive;
    std::vector<float>& total = totals[static_cast<std::size_t>(rank)];
    for (const std::size_t count : {20000u, 50000u, 33000u}) {
      send.emplace_back(count, 1.0F);
      receive.emplace_back(count);
      total.push_back(0);
    }
    constexpr int kSteps = 20;
    for (int step = 0; step < kSteps; ++step) {
      const bool is_flushed = step == 14 || step == kSteps - 1;
      if (rank == 1 && is_flushed) {
        ASSERT_TRUE(communicator.flush_lazy().is_ok());
      }
      for (std::size_t tensor = 0; tensor < send.size(); ++tensor) {
        ASSERT_TRUE(communicator
                        .all_reduce(send[tensor].data(), receive[tensor].data(),
                                    send[tensor].size(), DType::kFloat32, Reduction())
                        .is_ok());
        total[tensor] += receive[tensor][5];
        if (step < 10) continue;
        EXPECT_EQ(receive[tensor][5] != 0, is_flushed) << step;
      }
    }
    ASSERT_TRUE(communicator.finalize().is_ok());
    EXPECT_EQ(communicator.statistics().unsent_tensors, 0u);
    EXPECT_EQ(communicator.flush_lazy().code(), Code::kInvalidUsage);
  });
  EXPECT_EQ(totals[0], std::vector<float>(3, 40));
  EXPECT_EQ(totals[1], totals[0]);
}

/// Ranks that send their sums, and hear only then that another's values are not finite, lose
/// nothing.
void lose_nothing_of_late_news(bool is_in_place) {
  const auto gradient = [](int rank, int) { return testing::random_gradient(kLazyCount, 1, rank); };
  const std::vector<std::pair<std::string, std::string>> environment = {
      {"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "5"}};
  const auto clean = run_lazily(environment, 30, gradient, is_in_place);
  std::size_t sent = 20;  // A call that every rank votes to send.
  while (is_zero(clean[0].results[sent])) ++sent;
  const auto records = run_lazily(
      environment, 30,
      [&](int rank, int call) {
        std::vector<float> values = gradient(rank, call);
        if (rank == 1 && call == static_cast<int>(sent))
          values[7] = std::numeric_limits<float>::infinity();
        return values;
      },
      is_in_place);
  EXPECT_FALSE(std::isfinite(records[0].results[sent][7]));
  const std::vector<float>& next = records[0].results[sent + 1];
  for (std::size_t i = 0; i < kLazyCount; i += 31) {
    ASSERT_NEAR(next[i], clean[0].results[sent][i], 1e-4 * (1 + std::abs(next[i])))
        << "the five gradients but the one beside the bad one, and the next";
  }
}

/// Six calls of three ranks would come to more than 2 to the 128th: what does not fit is not added
/// up, and what has been is sent with smaller values.
TEST(LazyCalls, SumsDoNotBecomeInfinite) {
  const Settings settings = parse_settings(
      {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "8"}},
      nullptr);
  run_communicators(kLazyRanks, settings, [&](MeshCommunicator& communicator, int) {
    constexpr float kLarge = 0x1p124F;
    constexpr int kLargeCalls = 20;
    std::vector<float> send(kLazyCount), receive(kLazyCount);
    double total = 0;
    int put_off = 0;
    for (int call = 0; call < kLargeCalls + 10; ++call) {
      send[5] = call < kLargeCalls ? kLarge : 0;
      ASSERT_TRUE(
          communicator
              .all_reduce(send.data(), receive.data(), kLazyCount, DType::kFloat32, Reduction())
              .is_ok());
      ASSERT_TRUE(std::isfinite(receive[5])) << call;
      total += double{receive[5]};
      put_off += call < kLargeCalls && receive[5] == 0 ? 1 : 0;
    }
    EXPECT_EQ(total, kLazyRanks * kLargeCalls * double{kLarge});
    EXPECT_GT(put_off, 0);
  });
}

/// No buffer is there for it: what is lost at the end is said and counted.
TEST(LazyCalls, WhatIsNeverSentIsSaid) {
  const auto gradient = [](int rank, int) { return testing::random_gradient(kLazyCount, 1, rank); };
  ::testing::internal::CaptureStderr();
  const auto records =
      run_lazily({{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "5"}}, 33, gradient);
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t unsent = 0;  // Calls at the end.
  while (is_zero(records[0].results[32 - unsent])) ++unsent;
  ASSERT_GT(unsent, 0u);
  for (int rank = 0; rank < kLazyRanks; ++rank) {
    const Statistics& statistics = records[static_cast<std::size_t>(rank)].statistics;
    EXPECT_EQ(statistics.unsent_tensors, 1u);
    EXPECT_EQ(statistics.unsent_elements, kLazyCount);
    double squares = 0;
    for (const float value : gradient(rank, 0)) squares += double{value} * value;
    const double expected = static_cast<double>(unsent) * std::sqrt(squares);
    EXPECT_NEAR(statistics.unsent_norm, expected, 1e-3 * expected);
    EXPECT_NE(log.find("rank " + std::to_string(rank) +
                       " ends with gradients of 1 tensors put off (20000 elements"),
              std::string::npos)
        << log;
    EXPECT_NE(statistics_line(rank, 3, statistics).find("\"unsent_elements\": 20000, "),
              std::string::npos);
  }
}

TEST(LazyCalls, WhatIsAllSentIsNotSpokenOf) {
  const auto gradient = [](int rank, int) { return testing::random_gradient(kLazyCount, 1, rank); };
  ::testing::internal::CaptureStderr();
  const auto records = run_lazily({{"RINGPRESS_LAZY_CALLS", "1"}}, 33, gradient);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(records[0].statistics.unsent_tensors, 0u);
  EXPECT_NE(statistics_line(0, 3, records[0].statistics).find("\"unsent_norm\": 0, "),
            std::string::npos);
}

TEST(LazyCalls, LateNewsOfValuesThatAreNotFinite) {
  lose_nothing_of_late_news(false);
  lose_nothing_of_late_news(true);
}

/// As any other calls they are compressed when they are made.
TEST(LazyCalls, AreCompressedAsOthers) {
  const auto records = run_lazily({{"RINGPRESS_CODEC", "q8"}}, 43, [](int rank, int) {
    return testing::random_gradient(kLazyCount, 1, rank);
  });
  EXPECT_GE(records[0].statistics.compressed_calls, 10u);
  EXPECT_GE(count_zeros(records), 43 * 3 / 4 - 6);
}

/// All-reduces each tensor of a step, all full of ones; what came of them in all, by tensor.
std::vector<double> add_up_steps(std::vector<std::pair<std::string, std::string>> environment,
                                 const std::vector<std::vector<std::size_t>>& steps) {
  environment.insert(environment.begin(), {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "3.9"}});
  const Settings settings = parse_settings(environment, nullptr);
  std::vector<std::vector<double>> totals(2, std::vector<double>(8));
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int rank) {
    std::vector<std::vector<float>> sent(8), received(8);
    for (const std::vector<std::size_t>& step : steps) {
      for (std::size_t tensor = 0; tensor < step.size(); ++tensor) {
        sent[tensor].reserve(100000);
        sent[tensor].assign(step[tensor], 1.0F);
        received[tensor].resize(step[tensor]);
        ASSERT_TRUE(communicator
                        .all_reduce(sent[tensor].data(), received[tensor].data(), step[tensor],
                                    DType::kFloat32, Reduction())
                        .is_ok());
        totals[static_cast<std::size_t>(rank)][tensor] += static_cast<double>(received[tensor][5]);
      }
    }
  });
  EXPECT_EQ(totals[0], totals[1]);
  return totals[0];
}

/// Where memory is for one tensor alone, the others are not put off, and none is lost.
TEST(LazyCalls, WhatHasNoMemoryIsSentAtOnce) {
  const std::vector<std::vector<std::size_t>> steps(200, {20000, 50000, 33000});
  const auto totals = add_up_steps({{"RINGPRESS_EF_MAX_BYTES", "140000"}}, steps);
  for (std::size_t tensor = 0; tensor < 3; ++tensor)
    EXPECT_GE(totals[tensor], 2 * 200 - 8) << tensor;
}

/// A tensor more now and then: what had been added up comes with the next call of its tensor.
TEST(LazyCalls, AnotherOrderOfCallsLosesNothing) {
  std::vector<std::vector<std::size_t>> steps(200, {20000, 50000, 33000});
  for (std::size_t step = 9; step < steps.size(); step += 10) steps[step].push_back(25000);
  const auto totals = add_up_steps({}, steps);
  for (std::size_t tensor = 0; tensor < 3; ++tensor)
    EXPECT_GE(totals[tensor], 2 * 200 - 8) << tensor;
}

/// What came of tensors of ones, by tensor, and what rank 0 booked.
struct Moved {
  std::vector<double> totals;
  Statistics statistics;
};

/// Steps of 2 ranks, whose buffers are elsewhere from some of them on. The last one is flushed.
Moved run_moving(std::vector<std::pair<std::string, std::string>> environment,
                 const std::vector<std::size_t>& counts, std::size_t steps,
                 const std::set<std::size_t>& moves) {
  environment.insert(environment.begin(),
                     {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}});
  const Settings settings = parse_settings(environment, nullptr);
  std::vector<Moved> moved(2);
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int rank) {
    Moved& own = moved[static_cast<std::size_t>(rank)];
    own.totals.resize(counts.size());
    std::vector<std::vector<float>> sent;  // All that there have been: addresses are new.
    for (std::size_t step = 0; step < steps; ++step) {
      if (step == 0 || moves.count(step) > 0) {
        for (const std::size_t count : counts) sent.emplace_back(count, 1.0F);
      }
      if (step + 1 == steps) {
        ASSERT_TRUE(communicator.flush_lazy().is_ok());
      }
      for (std::size_t tensor = 0; tensor < counts.size(); ++tensor) {
        const std::vector<float>& values = sent[sent.size() - counts.size() + tensor];
        std::vector<float> received(values.size());
        ASSERT_TRUE(communicator
                        .all_reduce(values.data(), received.data(), values.size(), DType::kFloat32,
                                    Reduction())
                        .is_ok());
        own.totals[tensor] += static_cast<double>(received[5]);
      }
    }
    ASSERT_TRUE(communicator.finalize().is_ok());
    own.statistics = communicator.statistics();
  });
  EXPECT_EQ(moved[0].totals, moved[1].totals);
  return moved[0];
}

/// Its place among the calls says whose a sum is.
TEST(LazyCalls, WhatMovesLosesNothing) {
  for (const std::vector<std::size_t>& counts :
       {std::vector<std::size_t>{20000, 50000, 33000}, {20000, 50000, 20000}, {20000}}) {
    constexpr std::size_t kSteps = 90;
    const Moved moved = run_moving({}, counts, kSteps, {30, 60});
    EXPECT_EQ(moved.totals, std::vector<double>(counts.size(), 2 * kSteps)) << counts.size();
    EXPECT_EQ(moved.statistics.unsent_tensors, 0u);
    const std::size_t elements = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    EXPECT_EQ(moved.statistics.residual_bytes, elements * sizeof(float)) << "a sum a tensor";
    EXPECT_GT(moved.statistics.exact_calls.at("put off: RINGPRESS_LAZY"), 70u * counts.size());
  }
}

/// A step whose beginning looks like all of it: what was put off then is not another tensor's.
TEST(LazyCalls, AWrongBeginningMixesNothing) {
  const Settings settings =
      parse_settings({{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}}, nullptr);
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int) {
    const std::vector<float> first(kLazyCount, 1.0F), second(kLazyCount, 100.0F);
    std::vector<float> received(kLazyCount);
    constexpr int kSteps = 20;
    double of_first = 0, of_second = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (step == kSteps - 1) {
        ASSERT_TRUE(communicator.flush_lazy().is_ok());
      }
      for (const std::vector<float>* values : {&first, &first, &second}) {
        ASSERT_TRUE(communicator
                        .all_reduce(values->data(), received.data(), kLazyCount, DType::kFloat32,
                                    Reduction())
                        .is_ok());
        (values == &first ? of_first : of_second) += static_cast<double>(received[5]);
      }
    }
    EXPECT_EQ(of_first, 2 * 2 * kSteps);
    EXPECT_EQ(of_second, 2 * 100 * kSteps);
  });
}

/// Tensors of one shape that change places, or memory, from step 21 on.
struct Exchange {
  std::size_t back = 0;       // Step of the old order.
  bool has_landmark = false;  // Beside a third tensor, of another shape.
  bool has_extra = false;     // At once with a call of yet another tensor.
  bool loses_nothing = false;
};

/// None is sent as the other. `is_of_memory`: each has its turn as before, in the other's buffer.
void expect_that_nothing_is_mixed(const Exchange& exchange, bool is_of_memory) {
  const Settings settings =
      parse_settings({{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}}, nullptr);
  constexpr std::size_t kSteps = 60;
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int) {
    std::vector<float> first(kLazyCount, 1.0F), second(kLazyCount, 1000.0F);
    const std::vector<float> third(2 * kLazyCount, 3.0F), extra(kLazyCount + 7, 5.0F);
    std::vector<float> received(2 * kLazyCount);
    std::map<float, double> totals;  // By the values of a tensor, which tell them apart.
    for (std::size_t step = 0; step < kSteps; ++step) {
      std::vector<const std::vector<float>*> tensors{&first, &second};
      if (step >= 21 && step < exchange.back) std::swap(tensors[0], tensors[1]);
      if (is_of_memory && (step == 21 || step == exchange.back)) {
        std::swap_ranges(first.begin(), first.end(), second.begin());
      }
      if (exchange.has_landmark) tensors.push_back(&third);
      if (exchange.has_extra && step == 21) tensors.insert(tensors.begin(), &extra);
      if (step + 1 == kSteps) {
        ASSERT_TRUE(communicator.flush_lazy().is_ok());
      }
      for (const std::vector<float>* tensor : tensors) {
        ASSERT_TRUE(communicator
                        .all_reduce(tensor->data(), received.data(), tensor->size(),
                                    DType::kFloat32, Reduction())
                        .is_ok());
        totals[tensor->front()] += static_cast<double>(received[5]);
      }
    }
    // Others than the first two are found again in any case.
    if (exchange.has_landmark) {
      EXPECT_EQ(totals[3], 2 * 3 * kSteps);
    }
    EXPECT_EQ(std::fmod(totals[1000], 1000), 0);
    EXPECT_LE(totals[1000], 2 * 1000 * kSteps);
    EXPECT_LE(totals[1], 2 * kSteps);
    if (exchange.loses_nothing) {
      EXPECT_EQ(totals[1], 2 * kSteps);
      EXPECT_EQ(totals[1000], 2 * 1000 * kSteps);
    }
  });
}

TEST(LazyCalls, AnExchangeOfEqualShapesMixesNothing) {
  for (const bool is_of_memory : {false, true}) {
    expect_that_nothing_is_mixed({22, true, false, true}, is_of_memory);
    expect_that_nothing_is_mixed({60, true, false, false}, is_of_memory);
    expect_that_nothing_is_mixed({60, true, true, false}, is_of_memory);
    expect_that_nothing_is_mixed({60, false, false, false}, is_of_memory);
    expect_that_nothing_is_mixed({22, false, false, false}, is_of_memory);
  }
}

/// Tensors that only their addresses told apart: better unsent than sent as another one's.
TEST(LazyCalls, WhatIsNotFoundAgainIsGivenUp) {
  ::testing::internal::CaptureStderr();
  const Moved moved = run_moving({{"RINGPRESS_LAZY_CALLS", "5"}}, {20000, 20000, 20000}, 80, {11});
  const std::string log = ::testing::internal::GetCapturedStderr();
  // Of the first two tensors the calls of steps 7 to 10 had been put off.
  EXPECT_EQ(moved.totals, (std::vector<double>{2 * 76, 2 * 76, 2 * 80}));
  EXPECT_EQ(moved.statistics.unsent_tensors, 2u);
  EXPECT_EQ(moved.statistics.unsent_elements, 40000u);
  EXPECT_NEAR(moved.statistics.unsent_norm, std::sqrt(2 * 20000 * 16.0), 1e-3);
  EXPECT_EQ(moved.statistics.residual_bytes, 3 * 20000 * sizeof(float)) << "no memory is left over";
  for (const char* rank : {"rank 0", "rank 1"}) {
    const std::string warning = std::string(rank) + " gives up gradients of 20000 elements";
    const std::size_t at = log.find(warning);
    ASSERT_NE(at, std::string::npos) << log;
    EXPECT_EQ(log.find(warning, at + 1), std::string::npos) << log;
  }
}

/// Calls that are sent have the residual of those before, with any number of tensors.
void expect_that_error_feedback_goes_on(
    std::vector<std::pair<std::string, std::string>> environment) {
  environment.insert(environment.begin(), {{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_LAZY", "3.9"}});
  const Settings settings = parse_settings(environment, nullptr);
  std::vector<double> error(2), norm(2);
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int rank) {
    std::vector<std::vector<float>> sent, received, sums;
    for (const std::size_t count : {20000u, 50000u, 33000u}) {
      sent.push_back(testing::random_gradient(count, count, rank));
      received.emplace_back(count);
      sums.emplace_back(count);
    }
    constexpr int kSteps = 360;
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t tensor = 0; tensor < sent.size(); ++tensor) {
        ASSERT_TRUE(communicator
                        .all_reduce(sent[tensor].data(), received[tensor].data(),
                                    sent[tensor].size(), DType::kFloat32, Reduction())
                        .is_ok());
        for (std::size_t i = 0; i < sums[tensor].size(); ++i)
          sums[tensor][i] += received[tensor][i];
      }
    }
    for (std::size_t tensor = 0; tensor < sent.size(); ++tensor) {
      const std::size_t count = sent[tensor].size();
      const auto first = testing::random_gradient(count, count, 0);
      const auto second = testing::random_gradient(count, count, 1);
      for (std::size_t i = 0; i < count; ++i) {
        const double exact = kSteps * (double{first[i]} + second[i]);
        error[static_cast<std::size_t>(rank)] += std::pow(sums[tensor][i] - exact, 2);
        norm[static_cast<std::size_t>(rank)] += exact * exact;
      }
    }
  });
  EXPECT_LT(std::sqrt(error[0] / norm[0]), 0.055) << "0.3 without residuals";
}

TEST(LazyCalls, ErrorFeedbackGoesOn) {
  expect_that_error_feedback_goes_on({});
}

/// One of the tensors, of 80 kB, has no residual.
TEST(LazyCalls, ErrorFeedbackGoesOnBesideExactTensors) {
  const test::RulesFile file("allreduce,80000,80000,-1,-1,-1,-1,-1,-1,-1,none\n");
  expect_that_error_feedback_goes_on({{"RINGPRESS_RULES", file.path()}});
}

TEST(LazyCalls, WhatARuleLeavesAsItIsIsNotPutOff) {
  const test::RulesFile file("allreduce,0,100000,-1,-1,-1,-1,-1,-1,-1,none\n");
  const Settings settings = parse_settings(
      {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_RULES", file.path()}},
      nullptr);
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int) {
    std::size_t zeros = 0;
    const std::vector<float> left(kLazyCount, 1.0F), put_off(2 * kLazyCount, 1.0F);
    std::vector<float> receive(put_off.size());
    for (int step = 0; step < 20; ++step) {
      for (const std::vector<float>* send : {&left, &put_off}) {
        ASSERT_TRUE(communicator
                        .all_reduce(send->data(), receive.data(), send->size(), DType::kFloat32,
                                    Reduction())
                        .is_ok());
        if (send == &left) {
          ASSERT_EQ(receive[9], 2) << step;
        }
        zeros += receive[9] == 0 ? 1 : 0;
      }
    }
    EXPECT_GT(zeros, 0u) << "the larger one is put off";
  });
}

/// Sums might not fit it.
TEST(LazyCalls, Float16IsNotPutOff) {
  const Settings settings =
      parse_settings({{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}}, nullptr);
  run_communicators(2, settings, [&](MeshCommunicator& communicator, int) {
    constexpr std::uint16_t k30720 = 0x7780, k61440 = 0x7B80;
    const std::vector<std::uint16_t> send(40000, k30720);
    std::vector<std::uint16_t> receive(send.size());
    for (int call = 0; call < 60; ++call) {
      ASSERT_TRUE(
          communicator
              .all_reduce(send.data(), receive.data(), send.size(), DType::kFloat16, Reduction())
              .is_ok());
      ASSERT_EQ(receive[7], k61440) << call;
    }
  });
}

/// Others have begun with a call that a rank voted on: one that cannot make it ends all of them.
TEST(LazyCalls, WhoCannotMakeACallThatWasVotedOnEndsAll) {
  const Settings settings =
      parse_settings({{"RINGPRESS_CODEC", "q99"}, {"RINGPRESS_LAZY", "4"}}, nullptr);
  const std::string failure =
      run_communicators(2, settings, [&](MeshCommunicator& communicator, int) {
        std::vector<float> values(kLazyCount, 1.0F);
        for (int call = 0; call < 2; ++call) {
          const Status status = communicator.all_reduce(values.data(), values.data(), kLazyCount,
                                                        DType::kFloat32, Reduction());
          EXPECT_NE(status.message().find("q99"), std::string::npos) << status.message();
        }
      });
  EXPECT_NE(failure.find("q99"), std::string::npos);
}

/// Two ranks whose votes one thread casts in turn: what waits for what is not yet said never
/// returns.
class LazyVotesOfTwo : public ::testing::Test {
 protected:
  TensorCall call_{CollectiveKind::kAllReduce, 20000, DType::kFloat32, ReduceOp::kSum};
  const std::shared_ptr<testing::ThreadFabric> fabric_ =
      std::make_shared<testing::ThreadFabric>(2, false);
  testing::ThreadMesh first_mesh_{fabric_, 0}, second_mesh_{fabric_, 1};
  std::uint64_t first_sequence_ = 0, second_sequence_ = 0;
  LazyVotes first_{first_mesh_, first_sequence_}, second_{second_mesh_, second_sequence_};
};

TEST_F(LazyVotesOfTwo, WhoSendsWaitsForNobody) {
  EXPECT_EQ(first_.cast(call_, LazyVote::kSend).value(), LazyVote::kSend);
  EXPECT_EQ(second_.cast(call_, LazyVote::kPutOff).value(), LazyVote::kSend);
  EXPECT_EQ(first_.conclude().value(), LazyVote::kSend);
  EXPECT_EQ(second_.conclude().value(), LazyVote::kSend);
  EXPECT_TRUE(fabric_->is_drained());
  EXPECT_EQ(first_mesh_.open_requests() + second_mesh_.open_requests(), 0u);
}

TEST_F(LazyVotesOfTwo, TheLargestIsKnownInTheEnd) {
  EXPECT_EQ(first_.cast(call_, LazyVote::kSend).value(), LazyVote::kSend);
  EXPECT_EQ(second_.cast(call_, LazyVote::kNotFinite).value(), LazyVote::kNotFinite);
  EXPECT_EQ(first_.conclude().value(), LazyVote::kNotFinite);
  EXPECT_EQ(second_.conclude().value(), LazyVote::kNotFinite);
}

/// Also of calls that would have been put off.
TEST_F(LazyVotesOfTwo, AnotherCallIsFoundOut) {
  EXPECT_TRUE(first_.cast(call_, LazyVote::kSend).is_ok());
  call_.count = 30000;
  const Status status = second_.cast(call_, LazyVote::kPutOff).status();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("20000"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("30000"), std::string::npos) << status.message();
}

TEST_F(LazyVotesOfTwo, WhatIsNoVoteIsRefused) {
  const FrameLabel label{{0, call_.count, 0, call_.kind, Algorithm::kRing, call_.dtype, call_.op}};
  const std::byte wrong{3};
  ASSERT_TRUE(first_mesh_.isend(1, ConstBuffer{&wrong, 1}, label).is_ok());
  const Status status = second_.cast(call_, LazyVote::kPutOff).status();
  EXPECT_NE(status.message().find("rank 0 voted 3"), std::string::npos) << status.message();
}

TEST(LazyCalls, SmallIntegerAndOtherCallsGoOn) {
  const Settings settings = parse_settings({{"RINGPRESS_LAZY", "4"}}, nullptr);
  const std::unique_ptr<Planner> planner = tuner::make_planner(settings);
  const auto takes = [&](std::size_t count, DType dtype, ReduceOp op = ReduceOp::kSum) {
    return may_be_put_off(settings, *planner,
                          {CollectiveKind::kAllReduce, count, dtype, op, false, 2});
  };
  EXPECT_TRUE(takes(20000, DType::kFloat32));
  EXPECT_TRUE(takes(40000, DType::kBfloat16));
  EXPECT_FALSE(takes(100, DType::kFloat32));
  EXPECT_FALSE(takes(20000, DType::kInt32));
  EXPECT_FALSE(takes(20000, DType::kFloat32, ReduceOp::kMax));
  EXPECT_FALSE(may_be_put_off(
      settings, *planner,
      {CollectiveKind::kAllReduce, 20000, DType::kFloat32, ReduceOp::kSum, true, 2}));
  EXPECT_FALSE(may_be_put_off(
      settings, *planner,
      {CollectiveKind::kReduceScatter, 20000, DType::kFloat32, ReduceOp::kSum, false, 2}));
  EXPECT_FALSE(takes(0, DType::kFloat32));
  EXPECT_FALSE(may_be_put_off(
      parse_settings({}, nullptr), *planner,
      {CollectiveKind::kAllReduce, 20000, DType::kFloat32, ReduceOp::kSum, false, 2}));
}

}  // namespace
}  // namespace ringpress::nccl_plugin
