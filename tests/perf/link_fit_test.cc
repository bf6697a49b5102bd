// A link's speed from made-up times: a line, and what disturbs its measurement.
#include "perf/step/link_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace ringpress::perf {
namespace {

constexpr LinkSpeed kTruth = {25e-6, 119e6};
constexpr std::size_t kRounds = 5;

double seconds_of(double bytes) {
  return 2 * kTruth.latency_seconds + bytes / kTruth.bytes_per_second;
}

/// As calls take them that nothing disturbs.
std::vector<SizeTimes> undisturbed() {
  std::vector<SizeTimes> sizes;
  for (const double bytes : {96.0, 192.0, 384.0, 3e6, 6e6, 12e6}) {
    sizes.push_back({bytes, std::vector<double>(kRounds, seconds_of(bytes))});
  }
  return sizes;
}

void expect_near(const LinkSpeed& found, double latency_error, double rate_error) {
  EXPECT_NEAR(found.latency_seconds, kTruth.latency_seconds,
              latency_error * kTruth.latency_seconds);
  EXPECT_NEAR(found.bytes_per_second, kTruth.bytes_per_second,
              rate_error * kTruth.bytes_per_second);
}

TEST(LinkFit, FindsTheLine) {
  expect_near(fit_link(undisturbed(), 2), 1e-6, 1e-6);
}

// As in a measurement that found 109 us where others found 25: small calls took four times as long
// all the while that they were made.
TEST(LinkFit, RoundsThatWereHeldUpDoNotCount) {
  for (std::size_t quiet = 0; quiet < kRounds; ++quiet) {
    std::vector<SizeTimes> sizes = undisturbed();
    for (SizeTimes& size : sizes) {
      for (std::size_t round = 0; round < kRounds; ++round) {
        if (round != quiet) size.round_seconds[round] *= size.sent_bytes < 1e6 ? 4.36 : 1.06;
      }
    }
    expect_near(fit_link(sizes, 2), 1e-6, 1e-6);
  }
}

// Each size has a quiet round of its own.
TEST(LinkFit, NoRoundNeedsToBeQuietAsAWhole) {
  std::vector<SizeTimes> sizes = undisturbed();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      if (round != i % kRounds) sizes[i].round_seconds[round] += 200e-6;
    }
  }
  expect_near(fit_link(sizes, 2), 1e-6, 1e-6);
}

// What is too long counts less, as errors are relative to it.
TEST(LinkFit, ASizeThatWasAlwaysHeldUpCountsLittle) {
  for (std::size_t held_up = 0; held_up < 3; ++held_up) {
    std::vector<SizeTimes> sizes = undisturbed();
    for (double& seconds : sizes[held_up].round_seconds) seconds *= 4;
    expect_near(fit_link(sizes, 2), 0.15, 0.01);
  }
}

TEST(LinkFit, NoiseOfSmallAndLargeCallsStaysWithThem) {
  std::mt19937 random(1);
  std::exponential_distribution<double> slower(1 / 0.2);
  for (int i = 0; i < 100; ++i) {
    std::vector<SizeTimes> sizes = undisturbed();
    for (SizeTimes& size : sizes) {
      for (double& seconds : size.round_seconds) seconds *= 1 + slower(random);
    }
    expect_near(fit_link(sizes, 2), 0.2, 0.2);
  }
}

TEST(LinkFit, WhatGivesNoLineGivesASpeedAllTheSame) {
  // Large calls that take no longer than small ones, hardly longer, or longer in proportion.
  for (const auto& [small, large] : {std::pair{50e-6, 40e-6}, std::pair{50e-6, 50e-6},
                                     std::pair{50e-6, 51e-6}, std::pair{1e-12, 1.0}}) {
    const LinkSpeed found = fit_link({{96, {small}}, {12e6, {large}}}, 2);
    EXPECT_GE(found.latency_seconds, 0);
    EXPECT_TRUE(std::isfinite(found.latency_seconds));
    EXPECT_GT(found.bytes_per_second, 0);
    EXPECT_TRUE(std::isfinite(found.bytes_per_second));
  }
}

}  // namespace
}  // namespace ringpress::perf
