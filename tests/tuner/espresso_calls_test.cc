// Plans for calls on host memory, whose prices are by size or of each tensor alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "perf/espresso/brute_force.h"
#include "perf/espresso/random_job.h"
#include "ringpress/internal/espresso.h"

namespace ringpress::espresso {
namespace {

constexpr double kNoise = 0.1;  // What a price may be off by, as a part of it.

Job host_job() {
  Job job;
  job.cluster = {2, 1, {0, 1}, {0, 1}};
  return job;
}

/// For each tensor, whether it is compressed.
std::vector<bool> compressed(const Plan& found) {
  std::vector<bool> all;
  for (const Choice& choice : found.choices) {
    all.push_back(call_options()[choice.option].compresses());
  }
  return all;
}

using Compressed = std::vector<bool>;

// By the mean of the two, both would be compressed, or neither.
TEST(EspressoCalls, OfTwoTensorsOfASizeTheCheapOneIsCompressed) {
  Job job = host_job();
  job.tensors = {{"cheap", 1000, 0.25, CallPrice{3, 1}}, {"dear", 1000, 0.25, CallPrice{3, 4}}};
  const Plan found = plan(job, call_options());
  EXPECT_EQ(compressed(found), (Compressed{true, false}));
  EXPECT_NEAR(found.seconds, 0.25 + 1 + 3, 1e-9);
  EXPECT_NEAR(plan_everything(job, call_options()).seconds, 0.25 + 1 + 4, 1e-9);
  EXPECT_NEAR(plan_nothing(job, call_options()).seconds, 0.25 + 3 + 3, 1e-9);
  std::swap(job.tensors[0], job.tensors[1]);
  EXPECT_EQ(compressed(plan(job, call_options())), (Compressed{false, true}));
}

// Both gain by it, but only as much is compressed as the last tensor is not made to wait.
TEST(EspressoCalls, OfTwoTensorsOfASizeTheOneThatSavesEnoughIsCompressed) {
  Job job = host_job();
  job.tensors = {{"cheap", 1000, 0, CallPrice{40, 5}},
                 {"dear", 1000, 0, CallPrice{40, 20}},
                 {"last", 4, 50, CallPrice{1, 1}}};
  const Plan found = plan(job, call_options());
  EXPECT_EQ(compressed(found), (Compressed{true, false, false}));
  EXPECT_NEAR(found.seconds, 51, 1e-9);
}

TEST(EspressoCalls, ATensorsPriceIsBeforeThatOfItsSize) {
  Job job = host_job();
  job.calls = {{1000, 3, 1}};
  job.tensors = {{"by size", 1000, 0}, {"its own", 1000, 0, CallPrice{7, 9}}};
  EXPECT_NEAR(plan_nothing(job, call_options()).seconds, 3 + 7, 1e-9);
  EXPECT_NEAR(plan_everything(job, call_options()).seconds, 1 + 9, 1e-9);
  EXPECT_NEAR(plan(job, call_options()).seconds, 1 + 7, 1e-9);
  job.calls.clear();
  EXPECT_THROW(static_cast<void>(plan(job, call_options())), std::logic_error);
  // What prices all anew leaves nothing of before.
  CodecSpeed exact, codec;
  codec.ratio = 0.5;
  ASSERT_TRUE(price_calls(exact, codec, 0, &job).is_ok());
  EXPECT_NEAR(plan_nothing(job, call_options()).seconds, 1000 + 1000, 1e-6);
}

TEST(EspressoCalls, APriceThatCannotBeIsNamed) {
  Job job = host_job();
  job.tensors = {{"first", 4, 0, CallPrice{1, 1}}};
  EXPECT_TRUE(check(job).is_ok());
  for (const CallPrice& call : {CallPrice{-1, 1}, CallPrice{1, INFINITY}, CallPrice{NAN, 1}}) {
    job.tensors[0].call = call;
    EXPECT_NE(check(job).message().find("first"), std::string::npos);
  }
}

/// Tensors of three sizes, each with a codec of its own: compressed, a call takes from an eighth of
/// what it takes exact to somewhat more than that.
Job random_calls(std::uint64_t seed, std::size_t tensors) {
  perf::RandomNumbers random(seed);
  Job job = host_job();
  const double longest = random.log_uniform(0.2, 2);  // Of backward, beside calls.
  for (std::size_t i = 0; i < tensors; ++i) {
    const double exact = random.one_of({0.125, 0.5, 2.0});
    const double codec = random.one_of({0.125, 0.25, 0.5, 1.05});
    job.tensors.push_back({"t", static_cast<std::size_t>(exact * 8000), random.uniform(0, longest),
                           CallPrice{exact, exact * codec}});
  }
  return job;
}

/// Every price off by up to kNoise, upwards or downwards.
Job with_noise(Job job, perf::RandomNumbers* random) {
  for (Tensor& tensor : job.tensors) {
    tensor.call->exact *= random->uniform(1 - kNoise, 1 + kNoise);
    tensor.call->compressed *= random->uniform(1 - kNoise, 1 + kNoise);
  }
  return job;
}

/// No step is shorter than with each call at its lowest price: there is one lane.
double shortest(Job job) {
  for (Tensor& tensor : job.tensors) {
    tensor.call->exact = std::min(tensor.call->exact, tensor.call->compressed);
  }
  return plan_nothing(job, call_options()).seconds;
}

TEST(EspressoCalls, ThePlanIsTheBestOfAll) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Job job = random_calls(seed, 2 + seed % 7);
    const double best = perf::best_of_all(job, call_options());
    EXPECT_NEAR(shortest(job), best, 1e-9 * best);
    EXPECT_NEAR(plan(job, call_options()).seconds, best, 1e-9 * best) << "job " << seed;
  }
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Job job = random_calls(seed, 100);
    EXPECT_NEAR(plan(job, call_options()).seconds, shortest(job), 1e-9 * shortest(job));
  }
}

/// Two calls of 3 s, or 1 s compressed, for the second of which the program waits.
Job waiting_job(double overlapping, double after) {
  Job job = host_job();
  job.forward_seconds = 2;
  job.tensors = {{"first", 1000, 0.5, CallPrice{3, 1}},
                 {"second", 1000, overlapping, CallPrice{3, 1}, after}};
  return job;
}

TEST(EspressoCalls, AProgramThatWaitsOverlapsNothing) {
  // 2 + 0.5 + 3 + 4 + 3.
  EXPECT_NEAR(plan_nothing(waiting_job(0, 4), call_options()).seconds, 12.5, 1e-9);
  EXPECT_NEAR(plan_everything(waiting_job(0, 4), call_options()).seconds, 8.5, 1e-9);
  // What it does before it waits goes on during the call, as far as that lasts.
  EXPECT_NEAR(plan_nothing(waiting_job(2, 4), call_options()).seconds, 12.5, 1e-9);
  EXPECT_NEAR(plan_everything(waiting_job(2, 4), call_options()).seconds, 9.5, 1e-9);
  const Job job = waiting_job(2, 4);
  const Plan found = plan(job, call_options());
  EXPECT_EQ(compressed(found), (Compressed{true, true}));
  EXPECT_NEAR(found.seconds, 9.5, 1e-9);
  EXPECT_EQ(predict(job, call_options(), found.choices).boxes.size(), 5U);
  EXPECT_THROW(static_cast<void>(plan(job, engine_options(job.cluster))), std::logic_error);
}

/// Whatever some tensors wait for.
Job random_waits(std::uint64_t seed, std::size_t tensors) {
  Job job = random_calls(seed, tensors);
  perf::RandomNumbers random(seed + 1000);
  for (Tensor& tensor : job.tensors) {
    if (random.uniform(0, 1) < 0.5) tensor.after_seconds = random.uniform(0, 1);
  }
  return job;
}

TEST(EspressoCalls, ThePlanOfAProgramThatWaitsIsTheBestOfAll) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Job job = random_waits(seed, 2 + seed % 7);
    double best = INFINITY;
    for (std::size_t which = 0; which < std::size_t{1} << job.tensors.size(); ++which) {
      std::vector<Choice> choices;
      for (std::size_t i = 0; i < job.tensors.size(); ++i) choices.push_back({which >> i & 1});
      best = std::min(best, predict(job, call_options(), choices).seconds);
    }
    const Plan found = plan(job, call_options());
    EXPECT_NEAR(found.seconds, best, 1e-9 * best) << "job " << seed;
    EXPECT_NEAR(predict(job, call_options(), found.choices).seconds, found.seconds, 1e-9 * best);
  }
}

/// A tensor that has nothing to wait for is as if it did not.
TEST(EspressoCalls, AWaitForNothingChangesNothing) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Job job = random_calls(seed, 8);
    Job waits = job;
    waits.tensors[0].after_seconds = 7;  // The first does not look at it.
    EXPECT_NEAR(plan(waits, call_options()).seconds, plan(job, call_options()).seconds, 1e-9);
    EXPECT_NEAR(plan_nothing(waits, call_options()).seconds,
                plan_nothing(job, call_options()).seconds, 1e-9);
  }
}

// Noise makes each sum of prices that a step may consist of at most so much longer or shorter, and
// so the step that a plan comes to: what is chosen by noisy prices takes no more than
// (1 + noise) / (1 - noise) of the shortest step. Mostly far less: it is the last few tensors that
// fit into a pause, or do not, that change places.
TEST(EspressoCalls, NoisyPricesMakeTheStepLittleLonger) {
  constexpr double kMost = (1 + kNoise) / (1 - kNoise);
  constexpr int kJobs = 300;
  double sum = 0;
  int longer = 0;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const Job job = random_calls(seed, 3 + seed % 40);
    perf::RandomNumbers random(seed + kJobs);
    const Plan found = plan(with_noise(job, &random), call_options());
    const double ratio = predict(job, call_options(), found.choices).seconds / shortest(job);
    EXPECT_GE(ratio, 1 - 1e-9);
    EXPECT_LE(ratio, kMost) << "job " << seed;
    sum += ratio - 1;
    longer += ratio > 1 + 1e-9 ? 1 : 0;
  }
  EXPECT_LE(sum / kJobs, 0.01);
  EXPECT_GT(longer, kJobs / 10);  // Else nothing was tried.
}

}  // namespace
}  // namespace ringpress::espresso
