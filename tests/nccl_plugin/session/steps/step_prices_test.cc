// What calls of a recorded step are priced at: by their own times, though layers of one size have
// codecs of their own, and though times are noisy.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "nccl_plugin/session/steps/step_planner.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr int kRecordedRanks = 2;  // So that an exact call sends its bytes once.
constexpr std::size_t kSmallestCompressedBytes = 1000;
constexpr double kLinkRate = 1e6;
constexpr double kForwardSeconds = 0.5;

struct TimedLayer {
  std::size_t bytes = 0;
  double ratio = 1;          // Of what is sent.
  double ready_seconds = 0;  // After forward.

  double seconds(bool exact) const {
    return static_cast<double>(bytes) * (exact ? 1 : ratio) / kLinkRate;
  }
};
using TimedLayers = std::vector<TimedLayer>;
using WhichExact = std::vector<bool>;

/// As a recorder sees it, all compressed, where each call takes its time multiplied by its factor.
RecordedStep recorded(const TimedLayers& layers, const std::vector<double>& factors) {
  RecordedStep step;
  step.steps = 10;
  double end = 0;  // Of the call before.
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double begin = std::max(kForwardSeconds + layers[i].ready_seconds, end + 1e-6);
    StepCall call;
    call.call.count = layers[i].bytes / sizeof(float);
    call.gap_seconds = begin - end;
    call.call_seconds = factors[i] * layers[i].seconds(false);
    call.sent_bytes =
        static_cast<std::size_t>(layers[i].ratio * static_cast<double>(layers[i].bytes));
    end = begin + call.call_seconds;
    step.calls.push_back(call);
  }
  return step;
}

WhichExact exact_calls_of(const TimedLayers& layers, const std::vector<double>& factors) {
  return calls_to_leave_exact(recorded(layers, factors), kRecordedRanks, kSmallestCompressedBytes);
}

WhichExact exact_calls_of(const TimedLayers& layers) {
  return exact_calls_of(layers, std::vector<double>(layers.size(), 1.0));
}

/// What the step takes if these calls are exact.
double seconds_with(const TimedLayers& layers, const WhichExact& exact) {
  double end = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    end = std::max(end, kForwardSeconds + layers[i].ready_seconds) + layers[i].seconds(exact[i]);
  }
  return end;
}

/// Two layers of 40 ms, which take 5 ms and 20 ms compressed, and what comes so much later.
TimedLayers cheap_and_dear(double until_last) {
  return {{40000, 0.125, 0}, {40000, 0.5, 0}, {400, 1, until_last}};
}

// An exact call is taken for 44 ms: with the dear one compressed too little time would be left for
// it. Half the sum of both, 12.5 ms, would leave none exact at first, and then the wrong one.
TEST(StepPrices, OfTwoCallsOfASizeTheDearOneStaysExact) {
  EXPECT_EQ(exact_calls_of(cheap_and_dear(0.047)), (WhichExact{false, false, false}));
  for (const double until_last : {0.052, 0.058}) {
    TimedLayers layers = cheap_and_dear(until_last);
    EXPECT_EQ(exact_calls_of(layers), (WhichExact{false, true, false})) << until_last;
    std::swap(layers[0].ratio, layers[1].ratio);
    EXPECT_EQ(exact_calls_of(layers), (WhichExact{true, false, false})) << until_last;
  }
  EXPECT_EQ(exact_calls_of(cheap_and_dear(0.089)), (WhichExact{true, true, false}));
}

// Calls of one size and codec, whose times are off by a tenth: as many of them stay exact as there
// is time for, whichever they are, and the step is as long as it would be.
TEST(StepPrices, NoiseChangesOnlyWhichOfEqualCallsStayExact) {
  TimedLayers layers(12, {40000, 0.125, 0});
  layers.push_back({400, 1, 12 * 0.005 + 5 * 0.045});  // Time for five of 44 ms.
  const WhichExact all_compressed(layers.size(), false);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  for (int i = 0; i < 100; ++i) {
    std::vector<double> factors;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) factors.push_back(noise(random));
    const WhichExact exact = exact_calls_of(layers, factors);
    const auto count = std::count(exact.begin(), exact.end(), true);
    EXPECT_GE(count, 5);
    EXPECT_LE(count, 6);
    EXPECT_NEAR(seconds_with(layers, exact), seconds_with(layers, all_compressed), 1e-9);
  }
}

TimedLayers random_layers(std::mt19937* random) {
  std::uniform_int_distribution<std::size_t> of_three(0, 2);
  std::uniform_real_distribution<double> uniform(0, 1);
  const double longest = 0.05 * (*random)() / std::mt19937::max();
  TimedLayers layers(3 + (*random)() % 30);
  double ready = 0;
  for (TimedLayer& layer : layers) {
    layer.bytes = std::vector<std::size_t>{4000, 16000, 64000}[of_three(*random)];
    layer.ratio = std::vector<double>{0.125, 0.25, 0.5}[of_three(*random)];
    layer.ready_seconds = ready += longest * uniform(*random);
  }
  return layers;
}

// Whatever the step, and whatever codecs its calls have: with noise of a tenth in each time it is
// hardly longer than with all compressed, which is the shortest.
TEST(StepPrices, NoisyPricesMakeTheStepHardlyLonger) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  std::ptrdiff_t left_exact = 0;
  for (int i = 0; i < 300; ++i) {
    const TimedLayers layers = random_layers(&random);
    std::vector<double> factors;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) factors.push_back(noise(random));
    const WhichExact exact = exact_calls_of(layers, factors);
    const double shortest =
        seconds_with(layers, WhichExact(layers.size(), false)) - kForwardSeconds;
    const double seconds = seconds_with(layers, exact) - kForwardSeconds;
    EXPECT_LE(seconds, 1.01 * shortest) << "step " << i;
    left_exact += std::count(exact.begin(), exact.end(), true);
  }
  EXPECT_GT(left_exact, 1000);  // Else nothing was tried.
}

}  // namespace
}  // namespace ringpress::nccl_plugin
