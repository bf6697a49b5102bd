// What is kept of tensors from call to call, over real transports. The figures:
// feedback_perf.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/communicator_ranks.h"
#include "tests/support/feedback_runs.h"
#include "tests/support/random_tensor.h"

namespace ringpress::communicator_feedback_test {
namespace {

using testing::cumulative_errors;
using testing::failures_of;
using testing::resumed_on_host;
using testing::run_communicators;

TEST(Communicator, ErrorFeedbackIsBackSoonAfterOtherCalls) {
  EXPECT_EQ(resumed_on_host({"A", 100, "X"}), 2U);
  EXPECT_EQ(resumed_on_host({"A", 30, "XYXYXYX"}), 2U);
  EXPECT_EQ(resumed_on_host({"ABCD", 10, "EFEFEF"}), 4U);
}

/// What error feedback leaves does not go on growing. Without it, it is twice as much after twice
/// the calls, or with random errors 1.41 times. What one bit keeps needs as many calls to come to
/// rest as values share a scale (sign_test.cc).
TEST(Communicator, WhatErrorFeedbackLeavesDoesNotGrowWithTheCalls) {
  for (const char* codec : {"fp16",
                            "bf16",
                            "fp8",
                            "fp8:format=e5m2",
                            "q2",
                            "q2:grid=lloyd",
                            "q3",
                            "q4",
                            "q4:grid=minmax",
                            "q5",
                            "q6",
                            "q7",
                            "q8",
                            "qsgd",
                            "qsgd:round=zero",
                            "qsgd-ms",
                            "powersgd:rank=8",
                            "randk:density=0.1",
                            "topk:density=0.1",
                            "topk:density=0.1,select=chunk"}) {
    const auto errors = cumulative_errors(codec, std::array<std::size_t, 2>{50, 100});
    EXPECT_LT(errors[1], 1.1 * errors[0] + 1e-5) << codec;
  }
  for (const char* codec : {"q1", "q1:grid=lloyd", "sign:block=64"}) {
    const auto errors = cumulative_errors(codec, std::array<std::size_t, 2>{200, 400});
    EXPECT_LT(errors[1], 1.1 * errors[0]) << codec;
  }
}

/// A value that is logged every few calls leaves a tensor its one residual.
TEST(Communicator, ALoggedValueLeavesErrorFeedbackAsItIs) {
  constexpr std::array<std::size_t, 1> kCalls = {200};
  const double alone = cumulative_errors("topk:density=0.1", kCalls)[0];
  for (const std::size_t every : {2, 3, 9}) {
    for (const bool is_anew : {false, true}) {
      const double logged = cumulative_errors("topk:density=0.1", kCalls, {every, is_anew})[0];
      EXPECT_LT(logged, 1.05 * alone) << "every " << every << (is_anew ? ", in new memory" : "");
    }
  }
}

// Three tensors of one size in a step: each has a cycle of its own, from its first call on.
TEST(Communicator, EachTensorKeepsItsPlaceInTheCycleOfRandomCoordinates) {
  constexpr std::size_t kCount = 40000;
  constexpr int kSlices = 10;
  std::vector<std::vector<int>> visits(3, std::vector<int>(kCount));
  const auto body = [&](Communicator* communicator) -> Status {
    std::vector<std::vector<float>> tensors(3);
    for (int step = 0; step < kSlices; ++step) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        tensors[i].assign(kCount, 1.0F);
        RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(tensors[i].data(), tensors[i].data(),
                                                           kCount, DType::kFloat32, {}));
        if (communicator->rank() != 0) continue;
        for (std::size_t k = 0; k < kCount; ++k) visits[i][k] += tensors[i][k] != 0 ? 1 : 0;
      }
    }
    return Status::ok();
  };
  EXPECT_EQ(failures_of(run_communicators(2, {{"RINGPRESS_CODEC", "randk:density=0.1"}}, body)),
            "");
  for (const auto& tensor : visits) EXPECT_EQ(tensor, std::vector<int>(kCount, 1));
}

/// By the settings, how far the sum of the results of `calls` reduce-scatters of the same values is
/// from the exact one, over the length of the latter; the worst rank's. As optimizers that shard
/// gradients make them: of two tensors by turns, with a small all-reduce after each.
double scattered_error(std::vector<std::pair<std::string, std::string>> settings, int world,
                       std::size_t calls) {
  constexpr std::size_t kShard = 21000;
  std::vector<double> errors(static_cast<std::size_t>(world));
  const auto body = [&](Communicator* communicator) -> Status {
    const int rank = communicator->rank();
    const auto shards = static_cast<std::size_t>(world);
    std::vector<double> sums(kShard), exact(kShard);
    for (int peer = 0; peer < world; ++peer) {
      const auto values = testing::random_gradient(kShard * shards, 3, peer);
      for (std::size_t i = 0; i < kShard; ++i) {
        exact[i] += double{values[static_cast<std::size_t>(rank) * kShard + i]};
      }
    }
    const auto own = testing::random_gradient(kShard * shards, 3, rank);
    const auto other = testing::random_gradient(16384 * shards, 4, rank);
    std::vector<float> result(kShard), norm(8, 1.0F);
    for (std::size_t call = 0; call < calls; ++call) {
      RINGPRESS_RETURN_IF_ERROR(
          communicator->reduce_scatter(own.data(), result.data(), kShard, DType::kFloat32, {}));
      for (std::size_t i = 0; i < kShard; ++i) sums[i] += double{result[i]};
      RINGPRESS_RETURN_IF_ERROR(
          communicator->reduce_scatter(other.data(), result.data(), 16384, DType::kFloat32, {}));
      RINGPRESS_RETURN_IF_ERROR(
          communicator->all_reduce(norm.data(), norm.data(), norm.size(), DType::kFloat32, {}));
    }
    double lost = 0, whole = 0;
    for (std::size_t i = 0; i < kShard; ++i) {
      lost += std::pow(sums[i] - static_cast<double>(calls) * exact[i], 2);
      whole += exact[i] * exact[i];
    }
    errors[static_cast<std::size_t>(rank)] = std::sqrt(lost / whole);
    const bool has_any = communicator->statistics().residual_bytes > 0;
    const bool wants_any = settings.back().second != "0";
    return has_any == wants_any ? Status::ok() : Status(Code::kInternal, "residuals");
  };
  EXPECT_EQ(failures_of(run_communicators(world, settings, body)), "");
  return *std::max_element(errors.begin(), errors.end());
}

TEST(Communicator, WhatReduceScattersLeaveDoesNotGrowWithTheCalls) {
  for (const char* const codec : {"q1:block=32", "q2", "q3:grid=lloyd", "q4", "fp8"}) {
    for (const char* const algorithm : {"sra", "ring"}) {
      for (const int world : {2, 3}) {
        const auto error = [&](std::size_t calls, const std::string& feedback) {
          return scattered_error({{"RINGPRESS_CODEC", codec},
                                  {"RINGPRESS_ALGO", algorithm},
                                  {"RINGPRESS_EF", feedback}},
                                 world, calls);
        };
        EXPECT_LT(error(80, "auto"), 1.3 * error(40, "auto") + 1e-3)
            << codec << ' ' << algorithm << ' ' << world;
        EXPECT_LT(error(80, "auto"), 0.5 * error(80, "0"))
            << codec << ' ' << algorithm << ' ' << world;
      }
    }
  }
}

}  // namespace
}  // namespace ringpress::communicator_feedback_test
