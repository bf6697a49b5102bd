// The timeline, against cases worked out by hand.
#include <gtest/gtest.h>

#include "perf/espresso/random_job.h"
#include "tuner/espresso/trial.h"

namespace ringpress::espresso {
namespace {

constexpr Resource kWire = Resource::kWire, kGpu = Resource::kGpu, kCpu = Resource::kCpu;

Chain chain_of(std::initializer_list<std::pair<Resource, double>> tasks) {
  Chain chain;
  for (const auto& [lane, seconds] : tasks) {
    chain.tasks.push_back({lane, seconds, chain.tasks.size()});
    chain.seconds[static_cast<std::size_t>(lane)] += seconds;
  }
  chain.tasks.push_back({Resource::kCompute, 0, chain.tasks.size()});
  return chain;
}

/// As "wire 0: 3-5".
std::vector<std::string> boxes_of(const Simulation& simulation) {
  static const char* const kNames[] = {"wire", "gpu", "cpu", "compute"};
  std::vector<std::string> all;
  for (const Box& box : simulation.boxes()) {
    char text[60];
    std::snprintf(text, sizeof text, "%s %zu: %g-%g", kNames[static_cast<int>(box.resource)],
                  box.tensor, box.begin_seconds, box.end_seconds);
    all.push_back(text);
  }
  return all;
}

using Boxes = std::vector<std::string>;

TEST(EspressoTimeline, TheWireOverlapsWithBackward) {
  const Chain five = chain_of({{kWire, 5}}), one = chain_of({{kWire, 1}});
  Simulation simulation({2, 4, 1}, 10);
  EXPECT_EQ(simulation.set({&five, &one, &one}), 19);
  EXPECT_EQ(boxes_of(simulation),
            (Boxes{"wire 0: 12-17", "wire 1: 17-18", "wire 2: 18-19", "compute 0: 10-12",
                   "compute 1: 12-16", "compute 2: 16-17"}));
}

// Codecs on the GPU stop backward, those on the CPU do not.
TEST(EspressoTimeline, OnlyTheGpusCodecsStopBackward) {
  const Chain gpu = chain_of({{kGpu, 1}, {kWire, 1}, {kGpu, 2}});
  const Chain cpu = chain_of({{kCpu, 1}, {kWire, 1}, {kCpu, 2}});
  const Chain wire = chain_of({{kWire, 1}});
  Simulation simulation({2, 4}, 0);
  EXPECT_EQ(simulation.set({&gpu, &wire}), 10);
  EXPECT_EQ(boxes_of(simulation), (Boxes{"wire 0: 3-4", "wire 1: 9-10", "gpu 0: 2-3", "gpu 0: 4-6",
                                         "compute 0: 0-2", "compute 1: 3-4", "compute 1: 6-9"}));
  EXPECT_EQ(simulation.set({&cpu, &wire}), 7);
  EXPECT_EQ(boxes_of(simulation), (Boxes{"wire 0: 3-4", "wire 1: 6-7", "cpu 0: 2-3", "cpu 0: 4-6",
                                         "compute 0: 0-2", "compute 1: 2-6"}));
}

// First come, first served: what tensor 0 has still to send waits behind tensor 1.
TEST(EspressoTimeline, LanesAreQueues) {
  const Chain two = chain_of({{kWire, 2}, {kCpu, 1}, {kWire, 1}}), one = chain_of({{kWire, 4}});
  Simulation simulation({1, 1}, 0);
  EXPECT_EQ(simulation.set({&two, &one}), 8);
  EXPECT_EQ(boxes_of(simulation), (Boxes{"wire 0: 1-3", "wire 1: 3-7", "wire 0: 7-8", "cpu 0: 3-4",
                                         "compute 0: 0-1", "compute 1: 1-2"}));
}

TEST(EspressoTimeline, BubblesAreBetweenTensors) {
  const Chain one = chain_of({{kWire, 1}});
  const Chain coded = chain_of({{kGpu, 1}, {kWire, 1}, {kGpu, 1}, {kWire, 1}});
  Simulation simulation({1, 1, 5, 1}, 0);
  simulation.set({&one, &one, &one, &one});
  EXPECT_EQ(simulation.before_a_bubble(), (std::vector<bool>{true, true, false, false}));
  // The wire waits for a codec of tensor 3 between its two parts: no bubble.
  simulation.set({&one, &one, &one, &coded});
  EXPECT_EQ(simulation.before_a_bubble(), (std::vector<bool>{true, true, true, false}));
  Simulation short_one({1, 1}, 0);
  const Chain three = chain_of({{kWire, 3}});
  short_one.set({&three, &coded});
  EXPECT_EQ(short_one.before_a_bubble(), (std::vector<bool>{false, false}));
}

TEST(EspressoTimeline, NoTensorsAndNothingToSend) {
  EXPECT_EQ(Simulation({}, 3).set({}), 3);
  const Chain nothing = chain_of({});
  EXPECT_EQ(Simulation({1, 2}, 0).set({&nothing, &nothing}), 3);
}

// Whatever was changed before, a part simulated again is what all of it is.
TEST(EspressoTimeline, ChangesAreSimulatedAsTheWhole) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Job job = perf::random_job(seed, 12, 5);
    const Menus menus(job, tree_options(false));
    perf::RandomNumbers random(seed);
    Trial trial(job, menus);
    for (int change = 0; change < 40; ++change) {
      const auto tensor = static_cast<std::size_t>(random.uniform(0, 12));
      const auto count = static_cast<double>(trial.menu(tensor).candidates.size());
      const auto candidate = static_cast<std::size_t>(random.uniform(0, count));
      const double attempted = trial.attempt(tensor, candidate, kNever);
      trial.take(tensor, candidate);
      const double changed = trial.seconds();
      Trial whole(job, menus);
      whole.load(trial.strategy());
      EXPECT_NEAR(attempted, whole.seconds(), 1e-9 * whole.seconds());
      EXPECT_NEAR(changed, whole.seconds(), 1e-9 * whole.seconds());
      // A limit only hides what is above it.
      const auto other = static_cast<std::size_t>(random.uniform(0, count));
      const double exact = trial.attempt(tensor, other, kNever);
      const double limit = exact * random.uniform(0.98, 1.02);
      const double limited = trial.attempt(tensor, other, limit);
      EXPECT_EQ(limited, exact <= limit ? exact : kNever);
    }
  }
}

}  // namespace
}  // namespace ringpress::espresso
