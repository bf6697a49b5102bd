// What is kept of tensors from call to call, over real transports. The figures:
// feedback_perf.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/communicator_ranks.h"
#include "tests/support/feedback_runs.h"

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

}  // namespace
}  // namespace ringpress::communicator_feedback_test
