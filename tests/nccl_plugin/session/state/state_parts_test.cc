// What is kept of tensors goes on in another process as if there had been none: random programs,
// saved between any two steps.
#include "tests/support/state_parts.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ringpress::testing {
namespace {

/// A program: steps of some calls, values that are logged now and then, an evaluation at times.
class RandomSteps {
 public:
  explicit RandomSteps(unsigned seed) : engine_(seed) {
    const std::size_t calls = 1 + engine_() % 6;
    for (std::size_t i = 0; i < calls; ++i) shapes_.push_back(10 + 10 * (engine_() % 4));
    logs_every_ = engine_() % 3 == 0 ? 2 + engine_() % 4 : 0;
    evaluates_every_ = engine_() % 3 == 0 ? 4 + engine_() % 3 : 0;
  }

  /// Buffer numbers and counts of step `step`.
  std::vector<std::pair<std::size_t, std::size_t>> calls_of(std::size_t step) const {
    std::vector<std::pair<std::size_t, std::size_t>> calls;
    for (std::size_t i = 0; i < shapes_.size(); ++i) calls.emplace_back(i, shapes_[i]);
    if (logs_every_ != 0 && step % logs_every_ == 1) calls.emplace_back(50, 1);
    if (evaluates_every_ == 0 || step % evaluates_every_ != 3) return calls;
    for (std::size_t batch = 0; batch < 3; ++batch) {
      for (std::size_t i = 0; i < shapes_.size(); ++i) calls.emplace_back(60 + i, 10 * shapes_[i]);
    }
    return calls;
  }

 private:
  std::mt19937 engine_;
  std::vector<std::size_t> shapes_;
  std::size_t logs_every_ = 0;
  std::size_t evaluates_every_ = 0;
};

/// The calls of a step, with buffers from `memory` on, in another order there if `turned`.
std::vector<PlaceInState> make_step(const RandomSteps& program, std::size_t step,
                                    std::uintptr_t memory, bool turned, StateParts* parts) {
  std::vector<PlaceInState> places;
  float number = static_cast<float>(100 * step);
  for (const auto& [buffer, count] : program.calls_of(step)) {
    const std::uintptr_t place = turned ? 99 - buffer : buffer;
    places.push_back(parts->call(call_in_state(count, memory + 4096 * place), number++));
  }
  return places;
}

TEST(StateParts, GoOnWithBuffersElsewhere) {
  constexpr std::size_t kSteps = 16;
  std::mt19937 engine(7);
  for (unsigned seed = 0; seed < 300; ++seed) {
    const RandomSteps program(seed);
    const std::size_t saved_after = 1 + engine() % (kSteps - 1);
    StateParts unbroken, resumed;
    for (std::size_t step = 0; step < saved_after; ++step) {
      make_step(program, step, 1 << 20, false, &unbroken);
    }
    ASSERT_TRUE(resumed.load(unbroken.save()));
    const std::uintptr_t memory = engine() % 2 == 0 ? (1 << 20) + 3 * 4096 : 1 << 24;
    for (std::size_t step = saved_after; step < kSteps; ++step) {
      const auto expected = make_step(program, step, 1 << 20, false, &unbroken);
      const auto found = make_step(program, step, memory, seed % 3 == 0, &resumed);
      ASSERT_EQ(expected, found) << "program " << seed << ", saved after " << saved_after
                                 << ", step " << step;
    }
  }
}

/// As PyTorch's first step has other buckets than those that follow.
TEST(StateParts, AreFoundAgainAfterAStepOfOtherCalls) {
  const RandomSteps program(3);
  StateParts before, after;
  for (std::size_t step = 0; step < 10; ++step) make_step(program, step, 1 << 20, false, &before);
  ASSERT_TRUE(after.load(before.save()));
  for (std::size_t i = 0; i < 3; ++i) after.call(call_in_state(77 + i, (1 << 23) + 4096 * i), -5);
  std::vector<PlaceInState> places;
  for (std::size_t step = 10; step < 12; ++step) {
    places = make_step(program, step, 1 << 24, true, &after);
  }
  ASSERT_GE(program.calls_of(0).size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(places[i].residual, static_cast<float>(900 + i)) << i;
  }
}

/// A tensor of its own at any place of the step, that is small enough to be taken for a stray.
TEST(StateParts, ATensorMoreThanTheStateHasGetsAResidual) {
  constexpr std::uintptr_t kMemory = 1 << 24;
  for (std::size_t added = 0; added < 4; ++added) {
    StateParts before, after;
    const auto make = [](StateParts* parts, std::size_t tensor, int step, std::uintptr_t memory) {
      constexpr std::array<std::size_t, 4> kCounts = {200, 150, 90, 50};
      return parts->call(call_in_state(kCounts[tensor], memory + 4096 * tensor),
                         static_cast<float>(10 * step) + static_cast<float>(tensor));
    };
    for (int step = 0; step < 10; ++step) {
      for (std::size_t tensor = 0; tensor < 3; ++tensor) make(&before, tensor, step, 1 << 20);
    }
    ASSERT_TRUE(after.load(before.save()));
    for (int step = 10; step < 40; ++step) {
      for (std::size_t call = 0; call < 4; ++call) {
        const std::size_t tensor = call == added ? 3 : call - (call > added ? 1 : 0);
        const PlaceInState place = make(&after, tensor, step, kMemory);
        const float last = static_cast<float>(10 * (step - 1)) + static_cast<float>(tensor);
        if (tensor < 3) {
          EXPECT_EQ(place.residual, last) << added << " " << step;
        } else if (step == 17) {
          EXPECT_EQ(place.residual, 0.0F) << added << ": it is known after eight steps";
        } else if (step > 17) {
          EXPECT_EQ(place.residual, last) << added << " " << step;
        }
      }
    }
  }
}

using Counts = std::vector<std::size_t>;

void make_steps_of(const Counts& counts, int steps, std::uintptr_t memory, StateParts* parts) {
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      parts->call(call_in_state(counts[i], memory + 4096 * i), 1);
    }
  }
}

constexpr const char* kDropped =
    "the calls are not those of the state that was loaded: what it has of tensors is dropped\n";

/// How often a program says that it drops the state of one of other steps, if it first makes
/// `first` for so many steps and then the state's.
std::size_t times_dropped(const Counts& saved, const Counts& first, int steps) {
  StateParts before, after;
  make_steps_of(saved, 10, 1 << 20, &before);
  EXPECT_TRUE(after.load(before.save()));
  ::testing::internal::CaptureStderr();
  make_steps_of(first, steps, 1 << 24, &after);
  make_steps_of(saved, 10, 1 << 25, &after);
  const std::string text = ::testing::internal::GetCapturedStderr();
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(kDropped, at)) != text.npos; ++at) ++times;
  return times;
}

/// Whatever of its buffers look like those of the state.
TEST(StateParts, OfAnotherProgramAreDroppedWithALine) {
  const Counts saved = {300, 500, 400};
  for (const Counts& other :
       {Counts{300, 500, 450, 200}, Counts{300, 400, 500}, Counts{400, 400, 400},
        Counts{300, 300, 300}, Counts{500, 500, 500}, Counts{300}, Counts{300, 500}, Counts{40},
        Counts{600, 700, 800}, Counts{700, 300, 500, 400}, Counts{300, 500, 700, 400},
        Counts{300, 500, 450, 200, 100, 700, 300, 40}}) {
    std::string name;
    for (const std::size_t count : other) name += std::to_string(count) + " ";
    EXPECT_EQ(times_dropped(saved, other, 20), 1U) << name;
  }
}

TEST(StateParts, OfThisProgramAreNotDropped) {
  const Counts saved = {300, 500, 400};
  EXPECT_EQ(times_dropped(saved, {300, 500, 400}, 20), 0U);
  EXPECT_EQ(times_dropped(saved, {500, 400, 300}, 20), 0U) << "from another call on";
  for (const Counts& strays : {Counts{300, 20, 500, 400}, Counts{20, 300, 500, 400}}) {
    EXPECT_EQ(times_dropped(saved, strays, 20), 0U) << strays.size() << " " << strays[0];
  }
  for (const Counts& other : {Counts{700, 800, 900}, Counts{300, 400, 500}}) {
    EXPECT_EQ(times_dropped(saved, other, 2), 0U) << "they are not proven";
  }
}

/// What was dropped takes no memory, but for states that are known by addresses.
TEST(StateParts, NothingIsKeptOfWhatWasDropped) {
  StateParts before, after;
  make_steps_of({300, 500, 400}, 10, 1 << 20, &before);
  ASSERT_TRUE(after.load(before.save()));
  constexpr std::size_t kState = 2 * sizeof(float);  // Of each tensor.
  EXPECT_EQ(after.residual_bytes(), 1200 * sizeof(float) + 3 * kState);
  ::testing::internal::CaptureStderr();
  make_steps_of({300, 500, 450, 200}, 20, 1 << 24, &after);
  ::testing::internal::GetCapturedStderr();
  EXPECT_LE(after.residual_bytes(), 1450 * sizeof(float) + 7 * kState);
}

/// A state of a state of a state.
TEST(StateParts, GoOnAgainAndAgain) {
  const RandomSteps program(3);
  StateParts unbroken;
  auto resumed = std::make_unique<StateParts>();
  for (std::size_t step = 0; step < 40; ++step) {
    const std::uintptr_t memory = ((step / 5) % 3 + 1) << 20;
    if (step >= 5 && step % 5 == 0) {
      auto next = std::make_unique<StateParts>();
      ASSERT_TRUE(next->load(resumed->save()));
      resumed = std::move(next);
    }
    ASSERT_EQ(make_step(program, step, 1 << 20, false, &unbroken),
              make_step(program, step, memory, false, resumed.get()))
        << step;
  }
}

TEST(StateParts, ChangedBytesAreRefusedOrOfUse) {
  const LogLevel before = internal::log_level;
  set_log_level(LogLevel::kError);  // Most are of other calls.
  StateParts parts;
  make_state_steps(&parts, 12, 5000);
  const std::vector<std::byte> real = parts.save();
  std::mt19937 engine(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> changed = real;
    const unsigned changes = 1 + engine() % 3;
    for (unsigned change = 0; change < changes; ++change) {
      changed[engine() % changed.size()] =
          static_cast<std::byte>(engine() % 2 == 0 ? engine() : engine() % 4);
    }
    if (engine() % 8 == 0) changed.resize(engine() % changed.size());
    load_state_bytes(changed);
  }
  set_log_level(before);
}

}  // namespace
}  // namespace ringpress::testing
