#include "nccl_plugin/session/calls/value_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kStepCalls = 3, kSteps = 4;

bool any_call(std::size_t) {
  return true;
}

/// Values of a step after the other: `keep` of those before, and new ones, and `mean`.
ValueEvidence evidence_of(float keep, float mean, std::uint32_t seed) {
  std::mt19937 dice(seed);
  std::normal_distribution<float> normal;
  std::vector<ValueSample> places(kStepCalls);
  ValueEvidence evidence;
  for (std::size_t i = 0; i < kSteps * kStepCalls; ++i) {
    ValueSample& values = places[i % kStepCalls];
    const float share = i < kStepCalls ? 0.0F : keep;
    for (float& value : values) {
      value = share * value + std::sqrt(1 - share * share) * normal(dice);
    }
    ValueSample sample = values;
    for (float& value : sample) value += mean;
    evidence.note(sample);
  }
  return evidence;
}

TEST(ValueEvidence, NewValuesOfBothSignsMayBeGradients) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    EXPECT_FALSE(evidence_of(0.0F, 0, seed).speak_against_gradients(kStepCalls, any_call));
    EXPECT_FALSE(evidence_of(0.6F, 0, seed).speak_against_gradients(kStepCalls, any_call));
    EXPECT_FALSE(evidence_of(0.0F, 1, seed).speak_against_gradients(kStepCalls, any_call));
  }
}

TEST(ValueEvidence, ValuesOfOneSignAreNone) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    EXPECT_TRUE(evidence_of(0.0F, 6, seed).speak_against_gradients(kStepCalls, any_call));
    EXPECT_TRUE(evidence_of(0.0F, -6, seed).speak_against_gradients(kStepCalls, any_call));
  }
}

TEST(ValueEvidence, ValuesThatHardlyChangeAreNone) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    EXPECT_TRUE(evidence_of(0.999F, 0, seed).speak_against_gradients(kStepCalls, any_call));
  }
}

TEST(ValueEvidence, OfEachShapeSpeakForThemselves) {
  std::mt19937 dice(1);
  std::normal_distribution<float> normal;
  ValueEvidence evidence;
  for (std::size_t i = 0; i < 6; ++i) {
    ValueSample values;
    for (float& value : values) value = i % 2 == 0 ? normal(dice) : 1;
    evidence.note(values);
  }
  EXPECT_FALSE(evidence.speak_against_gradients(2, [](std::size_t i) { return i % 2 == 0; }));
  EXPECT_TRUE(evidence.speak_against_gradients(2, [](std::size_t i) { return i % 2 == 1; }));
}

TEST(ValueEvidence, OneStepSaysNothing) {
  ValueEvidence evidence;
  ValueSample ones;
  ones.fill(1);
  EXPECT_FALSE(evidence.speak_against_gradients(1, any_call));
  evidence.note(ones);
  EXPECT_FALSE(evidence.speak_against_gradients(1, any_call));
  evidence.note(ones);
  EXPECT_TRUE(evidence.speak_against_gradients(1, any_call));
  evidence.clear();
  EXPECT_FALSE(evidence.speak_against_gradients(1, any_call));
}

/// An embedding's gradient has few rows; an overflow has none that are numbers.
TEST(ValueEvidence, FewOrInfiniteValuesSayNothing) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    ValueEvidence evidence;
    ValueSample sample{};
    for (std::size_t i = 0; i < sample.size(); i += 10) sample[i] = 1;
    for (std::size_t i = 1; i < sample.size(); i += 2) sample[i] = value;
    for (int i = 0; i < 4; ++i) evidence.note(sample);
    EXPECT_FALSE(evidence.speak_against_gradients(1, any_call));
  }
}

TEST(ValueEvidence, TheLastCallMayBeCompletedLater) {
  ValueEvidence evidence;
  ValueSample ones;
  ones.fill(1);
  evidence.complete_last(ones);
  evidence.note({});
  evidence.complete_last(ones);
  evidence.note({});
  EXPECT_FALSE(evidence.speak_against_gradients(1, any_call));
  evidence.complete_last(ones);
  EXPECT_TRUE(evidence.speak_against_gradients(1, any_call));
}

TEST(ValueSample, IsTakenEvenlyFromTheWholeTensor) {
  for (const std::size_t count : {1, 63, 64, 65, 1000, 100003}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
    const ValueSample sample = sample_values(values.data(), count, DType::kFloat32);
    const std::size_t step = std::max<std::size_t>(count / sample.size(), 1);
    for (std::size_t i = 0; i < sample.size(); ++i) {
      EXPECT_EQ(sample[i], i * step < count ? static_cast<float>(i * step + 1) : 0.0F);
    }
  }
}

TEST(ValueSample, OfTypesThatAreNeverCompressedIsEmpty) {
  const std::vector<std::int64_t> values(64, 7);
  EXPECT_EQ(sample_values(values.data(), values.size(), DType::kInt64), ValueSample{});
}

TEST(ValueSample, KnowsHalfPrecision) {
  const std::vector<std::uint16_t> ones(64, 0x3f80);
  ValueSample expected;
  expected.fill(1);
  EXPECT_EQ(sample_values(ones.data(), ones.size(), DType::kBfloat16), expected);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
