// Door A with codecs that all-reduce a projection of the tensor: what lasts from call to call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/calls/workspace.h"
#include "nccl_plugin/interposer/devices.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kElements = 6000;
constexpr const char* kCodecs[] = {"randk:density=0.1", "randk:density=0.1,code=q8",
                                   "powersgd:rank=2"};

using Floats = std::vector<float>;

Settings settings_for(const std::string& codec, const char* feedback = "1") {
  return make_settings({{"RINGPRESS_CODEC", codec}, {"RINGPRESS_EF", feedback}});
}

/// By step, what all ranks got, which must be the same. send(rank, step) gives what a rank sends.
template <typename Send>
std::vector<Floats> run_steps(const Settings& settings, int steps, Send send,
                              ncclRedOp_t op = ncclSum) {
  Job job(settings);
  std::vector<std::vector<Floats>> results(kRanks);
  run_ranks(job, kRanks, [&](ncclComm_t comm, int rank) {
    for (int step = 0; step < steps; ++step) {
      const Floats& values = send(rank, step);
      Floats receive(values.size());
      ASSERT_EQ(job.all_reduce(comm, values, receive, op), ncclSuccess);
      results[static_cast<std::size_t>(rank)].push_back(receive);
    }
  });
  for (const auto& of_rank : results) {
    for (std::size_t step = 0; step < of_rank.size(); ++step) {
      EXPECT_EQ(std::memcmp(of_rank[step].data(), results[0][step].data(),
                            of_rank[step].size() * sizeof(float)),
                0)
          << to_text(settings.codec) << " step " << step;
    }
  }
  return results[0];
}

/// By rank, always the same values at the same place.
std::vector<Floats> constant_values(unsigned salt = 0) {
  std::vector<Floats> all;
  for (int rank = 0; rank < kRanks; ++rank) all.push_back(make_values(rank, kElements, salt));
  return all;
}

double error_of_mean(const std::vector<Floats>& results, const std::vector<Floats>& sent) {
  double squared = 0, norm = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    double mean = 0, exact = 0;
    for (const Floats& result : results) mean += result[i] / static_cast<double>(results.size());
    for (const Floats& values : sent) exact += values[i] / static_cast<double>(kRanks);
    squared += (mean - exact) * (mean - exact);
    norm += exact * exact;
  }
  return std::sqrt(squared / norm);
}

TEST(InterposerProjection, WhatIsLeftOutComesLater) {
  for (const char* codec : kCodecs) {
    const std::vector<Floats> sent = constant_values();
    const auto send = [&](int rank, int) -> const Floats& {
      return sent[static_cast<std::size_t>(rank)];
    };
    const double with = error_of_mean(run_steps(settings_for(codec), 40, send, ncclAvg), sent);
    const double without =
        error_of_mean(run_steps(settings_for(codec, "0"), 40, send, ncclAvg), sent);
    EXPECT_LT(with, 0.75 * without) << codec;
    EXPECT_LT(with, 0.9) << codec;
  }
}

TEST(InterposerProjection, WhatIsNotFiniteComesOutAndDoesNotStay) {
  for (const char* codec : kCodecs) {
    std::vector<Floats> sent = constant_values();
    std::vector<Floats> broken = sent;
    broken[1][kElements / 2] = std::numeric_limits<float>::infinity();
    const auto results = run_steps(settings_for(codec), 7, [&](int rank, int step) -> Floats& {
      // The same place, so that it is the same tensor.
      Floats& values = sent[static_cast<std::size_t>(rank)];
      if (rank == 1) values[kElements / 2] = step == 4 ? broken[1][kElements / 2] : 1;
      return values;
    });
    const auto is_finite = [](float value) { return std::isfinite(value); };
    for (std::size_t step = 0; step < results.size(); ++step) {
      const Floats& result = results[step];
      if (step == 4) {
        EXPECT_TRUE(std::none_of(result.begin(), result.end(), is_finite)) << codec;
      } else {
        EXPECT_TRUE(std::all_of(result.begin(), result.end(), is_finite)) << codec << ' ' << step;
      }
    }
  }
}

/// From the first call on, also before the sequence of calls is known.
TEST(InterposerProjection, EachCallTakesTheNextCoordinates) {
  const std::vector<Floats> sent = constant_values();
  constexpr std::size_t kSlices = 10;
  for (const char* const codec : {"randk:density=0.1", "randk:density=0.1,unbiased=1"}) {
    for (const char* const feedback : {"0", "1"}) {
      const auto results = run_steps(
          settings_for(codec, feedback), 2 * static_cast<int>(kSlices),
          [&](int rank, int) -> const Floats& { return sent[static_cast<std::size_t>(rank)]; });
      for (const std::size_t first : {std::size_t{0}, kSlices}) {
        std::vector<int> visits(kElements);
        for (std::size_t call = first; call < first + kSlices; ++call) {
          for (std::size_t i = 0; i < kElements; ++i) visits[i] += results[call][i] != 0;
        }
        EXPECT_EQ(visits, std::vector<int>(kElements, 1)) << codec << " from call " << first;
      }
    }
  }
}

/// Two tensors of one shape, in turn: each goes through all of its coordinates, from its first call
/// on.
TEST(InterposerProjection, EachTensorHasItsOwnState) {
  const std::vector<Floats> tensors[2] = {constant_values(1), constant_values(2)};
  constexpr int kSlices = 10;
  const auto results = run_steps(settings_for("randk:density=0.1", "0"), 4 * kSlices,
                                 [&](int rank, int step) -> const Floats& {
                                   return tensors[step % 2][static_cast<std::size_t>(rank)];
                                 });
  for (const int first : {0, 1, 2 * kSlices, 2 * kSlices + 1}) {
    std::vector<int> visits(kElements);
    for (int step = first; step < first + 2 * kSlices; step += 2) {
      const Floats& result = results[static_cast<std::size_t>(step)];
      for (std::size_t i = 0; i < kElements; ++i) visits[i] += result[i] != 0;
    }
    EXPECT_EQ(visits, std::vector<int>(kElements, 1)) << first;
  }
}

/// One rank's buffers are never where they were, so that it keeps less than the others do.
TEST(InterposerProjection, RanksThatKeepDifferentThingsAgree) {
  for (const char* codec : kCodecs) {
    const std::vector<Floats> sent = constant_values();
    std::vector<Floats> others(8, sent[2]);
    run_steps(settings_for(codec), 8, [&](int rank, int step) -> const Floats& {
      return rank == 2 && step >= 3 ? others[static_cast<std::size_t>(step)]
                                    : sent[static_cast<std::size_t>(rank)];
    });
  }
}

TEST(InterposerProjection, ReduceScattersAreExact) {
  Job job(settings_for("powersgd"));
  run_ranks(job, kRanks, [&](ncclComm_t comm, int rank) {
    Floats values(kElements * kRanks, static_cast<float>(rank)), own(kElements);
    ASSERT_EQ(job.engine.reduce({CollectiveKind::kReduceScatter, values.data(), own.data(),
                                 kElements, ncclFloat32, ncclSum, comm, nullptr}),
              ncclSuccess);
    EXPECT_EQ(own, Floats(kElements, 3));
  });
}

TEST(InterposerProjection, MemoryGrowsAndStays) {
  const std::unique_ptr<Device> device = make_host_device();
  WorkspaceShape shape{{1, 1, 1, 1}, {}, 1000};
  auto workspace = Workspace::make(*device, shape).value();
  std::byte* const first = workspace->projected(1000).value();
  EXPECT_EQ(workspace->projected(10).value(), first);
  std::byte* const second = workspace->projected(1500).value();
  EXPECT_NE(second, first);
  EXPECT_EQ(workspace->projected(2000).value(), second) << "it doubles";
  first[999] = second[1999] = std::byte{1};  // Both are there: a graph may use the first.
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
