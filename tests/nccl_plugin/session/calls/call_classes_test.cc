#include "nccl_plugin/session/calls/call_classes.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "nccl_plugin/session/calls/comm_shape.h"
#include "tests/support/ballots.h"
#include "tests/support/training_calls.h"

namespace ringpress::nccl_plugin {
namespace {

using testing::Parallelism;
using testing::TrainingCall;
using testing::TrainingCalls;

constexpr std::size_t kFirstCountedStep = 10, kStepsOfJob = 40;
// Of a job whose step is one call.
constexpr std::size_t kFirstOfEqualSteps = 140, kEqualSteps = 200;
// Of one with sums every 2nd to 13th step, which are a part of the step that repeats.
constexpr std::size_t kFirstScoredStep = 60, kScoredSteps = 100;
constexpr std::uint32_t kClassJobs = 50;
constexpr double kCallSeconds = 1e-3;

Settings settings_with(const std::string& gradients) {
  return parse_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", gradients}}, nullptr);
}

PlanRequest request_for(const TensorCall& call) {
  CommShape shape;
  shape.world = 4;
  shape.crosses_hosts = true;
  return request_of(shape, call.kind, call.count, call.dtype, {call.op});
}

/// Which steps of a job are to be compressed, and how many it has.
struct CountedSteps {
  std::size_t first = kFirstCountedStep;
  std::size_t end = kStepsOfJob;
};

CountedSteps counted_steps_of(Parallelism parallelism) {
  switch (parallelism) {
    case Parallelism::kOneBucket:
    case Parallelism::kEmbeddings:
      return {kFirstOfEqualSteps, kEqualSteps};
    case Parallelism::kScoring:
      return {kFirstScoredStep, kScoredSteps};
    default:
      return {};
  }
}

/// Bytes of a job in those steps.
struct ClassedBytes {
  double gradients = 0, found = 0, wrong = 0;

  double recall() const { return gradients == 0 ? 1 : found / gradients; }
};

/// What a door is shown.
enum class Seen {
  kAll,
  kSums,      // The sums of all-reduces alone, as CollNet is.
  kNoValues,  // All calls, whose values are in device memory.
};

bool is_seen(const TensorCall& call, Seen seen) {
  const bool is_sum = call.op == ReduceOp::kSum || call.op == ReduceOp::kAvg;
  return seen != Seen::kSums || (call.kind == CollectiveKind::kAllReduce && is_sum);
}

ClassedBytes bytes_of_job(Parallelism parallelism, std::uint32_t seed, const std::string& name = "",
                          Seen seen = Seen::kAll) {
  const Settings settings = settings_with("known");
  CallClasses classes(settings, name, std::make_shared<CallSequence>());
  TrainingCalls job(parallelism, seed);
  ClassedBytes bytes;
  const CountedSteps counted = counted_steps_of(parallelism);
  double unseen_seconds = 0;
  for (std::size_t step = 0; step < counted.end; ++step) {
    for (const TrainingCall& call : job.step(step)) {
      if (!is_seen(call.call, seen)) {
        unseen_seconds += call.pause_seconds + kCallSeconds;
        continue;
      }
      const PlanRequest request = request_for(call.call);
      const double pause = call.pause_seconds + std::exchange(unseen_seconds, 0);
      const bool has_values = seen != Seen::kNoValues && classes.next_vote().wants_values();
      classes.observe(request, {call.call.address, pause, kCallSeconds},
                      has_values ? call.values : ValueSample{});
      if (classes.is_vote_due()) classes.apply(classes.vote());
      const auto size = static_cast<double>(call.call.count * dtype_size(call.call.dtype));
      if (is_too_small(request, settings.minimum_bytes)) continue;
      const bool is_taken = classes.class_of(request) == CallClass::kGradient &&
                            call.call.kind != CollectiveKind::kAllGather;
      if (is_taken && !call.is_gradient) bytes.wrong += size;
      if (step < counted.first || !call.is_gradient) continue;
      bytes.gradients += size;
      if (is_taken) bytes.found += size;
    }
  }
  return bytes;
}

TEST(CallClasses, TakeGradientsAndNothingElse) {
  for (const Parallelism parallelism : testing::kParallelisms) {
    ClassedBytes all;
    for (std::uint32_t seed = 0; seed < kClassJobs; ++seed) {
      const ClassedBytes bytes = bytes_of_job(parallelism, seed);
      EXPECT_EQ(bytes.wrong, 0) << static_cast<int>(parallelism) << " seed " << seed;
      all.gradients += bytes.gradients;
      all.found += bytes.found;
    }
    EXPECT_GE(all.recall(), 0.95) << static_cast<int>(parallelism);
  }
}

/// Sums of three sizes that have buffers of their own and come after a pause look like gradients.
TEST(CallClasses, ValuesTellWhatBuffersAndPausesDoNot) {
  for (const Parallelism parallelism : testing::kParallelisms) {
    const bool is_told_by_values =
        parallelism == Parallelism::kEvaluations || parallelism == Parallelism::kCentroids ||
        parallelism == Parallelism::kModels || parallelism == Parallelism::kHistograms ||
        parallelism == Parallelism::kModelBeside;
    double wrong = 0;
    for (std::uint32_t seed = 0; seed < kClassJobs; ++seed) {
      wrong += bytes_of_job(parallelism, seed, "", Seen::kNoValues).wrong;
    }
    EXPECT_EQ(wrong > 0, is_told_by_values) << static_cast<int>(parallelism);
  }
}

TEST(CallClasses, TakeGradientsAndNothingElseWhereSumsAloneAreSeen) {
  for (const Parallelism parallelism : testing::kParallelisms) {
    ClassedBytes all;
    for (std::uint32_t seed = 0; seed < kClassJobs; ++seed) {
      const ClassedBytes bytes = bytes_of_job(parallelism, seed, "", Seen::kSums);
      EXPECT_EQ(bytes.wrong, 0) << static_cast<int>(parallelism) << " seed " << seed;
      all.gradients += bytes.gradients;
      all.found += bytes.found;
    }
    EXPECT_GE(all.recall(), 0.95) << static_cast<int>(parallelism);
  }
}

/// Whatever else speaks for it.
TEST(CallClasses, ANameSaysWhatACommunicatorIsFor) {
  for (const char* const name : {"tp_0", "TENSOR_MODEL_PARALLEL_GROUP", "mesh_tp", "mesh.cp", "pp",
                                 "TENSOR_AND_DATA_PARALLEL_GROUP", "mp", "MODEL_PARALLEL_GROUP"}) {
    EXPECT_EQ(named_for(name), NamedFor::kOthers) << name;
    EXPECT_EQ(bytes_of_job(Parallelism::kReplicas, 1, name).found, 0) << name;
  }
  for (const char* const name : {"dp", "DATA_PARALLEL_GROUP_WITH_CP", "model_dp", "mesh_dp_shard",
                                 "EXPERT_DATA_PARALLEL_GROUP", "my gradients", "FSDP"}) {
    EXPECT_EQ(named_for(name), NamedFor::kGradients) << name;
    EXPECT_GE(bytes_of_job(Parallelism::kShardedReplicas, 1, name).recall(), 0.95) << name;
  }
  for (const char* const name :
       {"", "0", "default_pg", "adapter", "models", "my_model", "parallel", "stp"}) {
    EXPECT_EQ(named_for(name), NamedFor::kNothing) << name;
  }
}

/// Maxima of such values are taken by no step of data-parallel training.
TEST(CallClasses, ANameDoesNotSpeakForAStepWithMaxima) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const ClassedBytes bytes = bytes_of_job(Parallelism::kTwoStacks, seed, "world");
    EXPECT_EQ(bytes.wrong, 0);
  }
}

TEST(CallClasses, OneRankOfThoseThatVoteCanSayNo) {
  const Settings settings = settings_with("known");
  CallClasses classes(settings, "", std::make_shared<CallSequence>());
  const TensorCall call{CollectiveKind::kAllReduce, 1 << 20, DType::kFloat32, ReduceOp::kSum};
  const PlanRequest request = request_for(call);
  std::size_t votes = 0;
  for (int i = 0; i < 100; ++i) {
    classes.observe(request, {&classes, 0, 1});
    if (classes.is_vote_due()) {
      ClassBallot of_all = classes.vote();
      if (++votes <= 3) of_all.add(ballot_of_no());
      classes.apply(of_all);
    }
    const CallClass expected = votes > 3 ? CallClass::kGradient
                               : i == 0  ? CallClass::kUnknown
                                         : CallClass::kUnsaid;
    EXPECT_EQ(classes.class_of(request), expected) << i;
  }
  EXPECT_GT(votes, 3u);
}

TEST(CallClasses, AllThatRecursIsTakenIfTheUserSaysSo) {
  const Settings settings = settings_with("all");
  CallClasses classes(settings, "tp", std::make_shared<CallSequence>());
  const PlanRequest request =
      request_for({CollectiveKind::kAllReduce, 1 << 20, DType::kFloat32, ReduceOp::kSum});
  for (int i = 0; i < 5; ++i) {
    classes.observe(request, {&i});
    EXPECT_FALSE(classes.is_vote_due());
    EXPECT_EQ(classes.class_of(request), i < 2 ? CallClass::kUnknown : CallClass::kGradient);
  }
}

/// All ranks have to come to vote at the same calls, whatever they have seen themselves.
TEST(CallClasses, WhatARankHasSeenDoesNotSayWhenItVotes) {
  const Settings settings = settings_with("known");
  std::mt19937 dice(7);
  for (const Parallelism parallelism : testing::kParallelisms) {
    CallClasses one(settings, "", std::make_shared<CallSequence>());
    CallClasses other(settings, "", std::make_shared<CallSequence>());
    TrainingCalls job(parallelism, dice());
    for (std::size_t step = 0; step < kStepsOfJob; ++step) {
      for (const TrainingCall& call : job.step(step)) {
        const PlanRequest request = request_for(call.call);
        one.observe(request, {call.call.address, call.pause_seconds, 1e-3});
        const auto chance = reinterpret_cast<const void*>(std::uintptr_t{dice()} << 20);
        other.observe(request, {chance, 1e-6 * dice(), 1e-3});
        ASSERT_EQ(one.is_vote_due(), other.is_vote_due());
        if (!one.is_vote_due()) continue;
        ClassBallot both = one.vote();
        both.add(other.vote());
        one.apply(both);
        other.apply(both);
        ASSERT_EQ(one.class_of(request), other.class_of(request));
      }
    }
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
