#include "ringpress/planner.h"

#include <gtest/gtest.h>

#include "tuner/factory.h"

namespace ringpress {
namespace {

Settings settings_with(std::vector<std::pair<std::string, std::string>> environment) {
  return parse_settings(environment, nullptr);
}

PlanRequest gradient() {
  PlanRequest request;
  request.count = 1 << 20;
  request.world = 4;
  request.crosses_hosts = true;
  request.recurrences = 10;
  return request;
}

TEST(Planner, AutoCompressesRecurringGradientsBetweenHosts) {
  const auto planner = tuner::make_planner(settings_with({}));
  const Plan plan = planner->plan(gradient());
  EXPECT_EQ(plan.codec, "q4");
  EXPECT_EQ(plan.algorithm, Algorithm::kSra);
  EXPECT_TRUE(plan.error_feedback);
  EXPECT_EQ(plan.reason, "");
}

TEST(Planner, AutoLeavesFirstCallsAndOneHostAlone) {
  const auto planner = tuner::make_planner(settings_with({}));
  PlanRequest request = gradient();
  request.recurrences = 0;
  EXPECT_EQ(planner->plan(request).codec, "none");
  EXPECT_EQ(planner->plan(request).reason, "has not recurred yet");
  request = gradient();
  request.crosses_hosts = false;
  EXPECT_EQ(planner->plan(request).reason, "all ranks share one host");
}

TEST(Planner, AnExplicitCodecAppliesAtOnceAndEverywhere) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "q2"}}));
  PlanRequest request = gradient();
  request.recurrences = 0;
  request.crosses_hosts = false;
  EXPECT_EQ(planner->plan(request).codec, "q2");
}

TEST(Planner, AllGathersAreCompressedOnlyAtADoorThatIsAskedTo) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "q8"}}));
  PlanRequest request = gradient();
  request.kind = CollectiveKind::kAllGather;
  EXPECT_EQ(planner->plan(request).codec, "none");
  request.may_gather = true;
  EXPECT_EQ(planner->plan(request).codec, "q8");
  EXPECT_FALSE(planner->plan(request).error_feedback);
  request.dtype = DType::kInt32;
  EXPECT_EQ(planner->plan(request).codec, "none");
}

// Whatever the settings, what must be exact is exact, and the reason says why.
TEST(Planner, WhatIsNeverLossy) {
  const auto planner =
      tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_MIN_BYTES", "0"}}));
  for (int kind = 0; kind <= static_cast<int>(CollectiveKind::kSendRecv); ++kind) {
    for (int type = 0; type < kDTypeCount; ++type) {
      for (int op = 0; op < kReduceOpCount; ++op) {
        PlanRequest request = gradient();
        request.kind = static_cast<CollectiveKind>(kind);
        request.dtype = static_cast<DType>(type);
        request.op = static_cast<ReduceOp>(op);
        const bool eligible =
            (request.kind == CollectiveKind::kAllReduce ||
             request.kind == CollectiveKind::kReduceScatter) &&
            (request.dtype == DType::kFloat32 || request.dtype == DType::kFloat16 ||
             request.dtype == DType::kBfloat16) &&
            (request.op == ReduceOp::kSum || request.op == ReduceOp::kAvg);
        const Plan plan = planner->plan(request);
        EXPECT_EQ(plan.codec, eligible ? "q4" : "none");
        EXPECT_EQ(plan.reason.empty(), eligible);
      }
    }
  }
  PlanRequest request = gradient();
  request.pre_multiplied = true;
  EXPECT_EQ(planner->plan(request).codec, "none");
  request = gradient();
  request.world = 1;
  EXPECT_EQ(planner->plan(request).codec, "none");
}

TEST(Planner, SmallCallsOffAndObserve) {
  PlanRequest request = gradient();
  request.count = 16383;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(request).reason,
            "smaller than RINGPRESS_MIN_BYTES");
  request.count = 16384;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(request).codec, "q4");
  for (const char* mode : {"off", "observe"}) {
    const Plan plan = tuner::make_planner(settings_with({{"RINGPRESS", mode}}))->plan(gradient());
    EXPECT_EQ(plan.codec, "none");
    EXPECT_NE(plan.reason.find(mode), std::string::npos);
  }
}

// The same calls as would be compressed otherwise, whatever the codec; no others.
TEST(Planner, LosslessTakesThePlaceOfEveryLossyCodec) {
  for (const char* codec : {"auto", "q4", "fp16", "none"}) {
    const auto lossy = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", codec}}));
    const auto planner =
        tuner::make_planner(settings_with({{"RINGPRESS_CODEC", codec}, {"RINGPRESS", "lossless"}}));
    for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 20}) {
      for (const std::uint64_t recurrences : {0, 10}) {
        for (const bool crosses_hosts : {false, true}) {
          PlanRequest request = gradient();
          request.count = count;
          request.recurrences = recurrences;
          request.crosses_hosts = crosses_hosts;
          const Plan expected = lossy->plan(request);
          const Plan plan = planner->plan(request);
          EXPECT_EQ(plan.codec, expected.codec == "none" ? "none" : "lossless");
          EXPECT_EQ(plan.reason, expected.reason);
          EXPECT_EQ(plan.algorithm, expected.algorithm);
          EXPECT_FALSE(plan.error_feedback);
        }
      }
    }
  }
}

TEST(Planner, TheCodecLosslessHasNoErrorFeedback) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "lossless"}}));
  EXPECT_EQ(planner->plan(gradient()).codec, "lossless");
  EXPECT_FALSE(planner->plan(gradient()).error_feedback);
}

TEST(Planner, CodecsForAllReducesLeaveTheRestExact) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "powersgd"}}));
  PlanRequest request = gradient();
  request.all_reduces_only = true;
  EXPECT_EQ(planner->plan(request).codec, "powersgd");
  request.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(planner->plan(request).codec, "none");
  EXPECT_EQ(planner->plan(request).reason, "powersgd compresses all-reduces only");
}

TEST(Planner, AlgorithmAndChunkFollowTheSettings) {
  const auto planner = tuner::make_planner(
      settings_with({{"RINGPRESS_ALGO", "ring"}, {"RINGPRESS_CHUNK_BYTES", "5000"}}));
  const Plan plan = planner->plan(gradient());
  EXPECT_EQ(plan.algorithm, Algorithm::kRing);
  EXPECT_EQ(plan.chunk_elements, 2048U);  // 1250 floats, in whole tiles.
  PlanRequest many = gradient();
  many.world = 64;
  many.dtype = DType::kInt32;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(many).algorithm, Algorithm::kRing);
}

TEST(Planner, HierIsChosenBetweenHostsWithAsManyRanks) {
  PlanRequest request = gradient();
  request.crosses_hosts = true;
  request.ranks_per_host = 2;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(request).algorithm, Algorithm::kHier);
  for (const char* name : {"ring", "sra"}) {
    const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_ALGO", name}}));
    EXPECT_STREQ(algorithm_name(planner->plan(request).algorithm), name);
  }
  // Without such hosts, and for reduce-scatters, it is sra.
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_ALGO", "hier"}}));
  EXPECT_EQ(planner->plan(request).algorithm, Algorithm::kHier);
  request.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(planner->plan(request).algorithm, Algorithm::kSra);
  request = gradient();
  request.ranks_per_host = 0;
  EXPECT_EQ(planner->plan(request).algorithm, Algorithm::kSra);
}

}  // namespace
}  // namespace ringpress
