// The parts that calls send, in random programs whose tensors nobody names.
#include "nccl_plugin/session/calls/slice_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ringpress::nccl_plugin::slice_turns_test {
namespace {

/// The same in each step; of some tensors several have the same size.
struct Program {
  std::vector<std::size_t> tensors;  // Their counts, in order.
  std::size_t cycle = 2;
  std::size_t stray_every = 0;  // Steps, after which a call of another size comes; 0: never.

  std::size_t most_of_a_size() const {
    std::map<std::size_t, std::size_t> times;
    std::size_t most = 0;
    for (const std::size_t count : tensors) most = std::max(most, ++times[count]);
    return most;
  }
  /// Whether the step has calls of different sizes, and does not consist of shorter ones.
  bool shows_its_steps() const {
    for (std::size_t part = 1; part < tensors.size(); ++part) {
      if (tensors.size() % part == 0 &&
          std::equal(tensors.begin() + static_cast<std::ptrdiff_t>(part), tensors.end(),
                     tensors.begin())) {
        return false;
      }
    }
    return tensors.size() > 1;
  }
};

Program random_program(std::mt19937& random) {
  const auto draw = [&random](std::size_t most) { return random() % most; };
  Program program;
  const std::size_t sizes = 1 + draw(4);
  for (std::size_t count = 1 + draw(6); count > 0; --count) {
    program.tensors.push_back(1000 * (1 + draw(sizes)));
  }
  program.cycle = 2 + draw(9);
  if (draw(3) == 0) program.stray_every = 2 + draw(6);
  return program;
}

using Turns = std::vector<std::vector<std::size_t>>;  // By tensor, of its calls.

/// Each call has a new address.
Turns turns_of(const Program& program, std::size_t steps) {
  SliceTurns turns;
  Turns taken(program.tensors.size());
  std::uintptr_t address = 0;
  const auto call = [&](std::size_t count) {
    TensorCall made;
    made.count = count;
    made.address = reinterpret_cast<const void*>(address += 1 << 20);
    return turns.next(made, program.cycle).turn % program.cycle;
  };
  for (std::size_t step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < taken.size(); ++i) taken[i].push_back(call(program.tensors[i]));
    const bool is_with_stray = program.stray_every != 0 && step % program.stray_every == 0;
    if (is_with_stray) call(77777);
  }
  return taken;
}

/// Of a tensor: cycles, counted from its first call on, in which a part does not come.
std::vector<std::size_t> cycles_with_gaps(const std::vector<std::size_t>& turns,
                                          std::size_t cycle) {
  std::vector<std::size_t> found;
  for (std::size_t first = 0; first + cycle <= turns.size(); first += cycle) {
    const auto begin = turns.begin() + static_cast<std::ptrdiff_t>(first);
    const std::set<std::size_t> parts(begin, begin + static_cast<std::ptrdiff_t>(cycle));
    if (parts.size() < cycle) found.push_back(first / cycle);
  }
  return found;
}

/// RINGPRESS_TEST_SLICE_TURNS: programs.
long programs_to_try() {
  const char* const wanted = std::getenv("RINGPRESS_TEST_SLICE_TURNS");
  return wanted == nullptr ? 300 : std::atol(wanted);
}

struct Seen {
  long programs = 0, tensors = 0, cycles = 0, first_with_gaps = 0, later_with_gaps = 0;
};

void print(const std::string& which, const Seen& seen) {
  std::printf("%-34s %5ld programs, %6ld tensors, %7ld cycles; with gaps: %5ld first, %6ld later\n",
              which.c_str(), seen.programs, seen.tensors, seen.cycles, seen.first_with_gaps,
              seen.later_with_gaps);
}

TEST(SliceTurns, EachTensorOfAStepTakesAllPartsInEachCycle) {
  constexpr std::size_t kCycles = 12;
  Seen one_or_two, several, hidden;
  for (long number = 0; number < programs_to_try(); ++number) {
    std::mt19937 random(static_cast<unsigned>(number));
    const Program program = random_program(random);
    const bool is_certain = program.tensors.size() == 1 || program.shows_its_steps();
    Seen& seen = !is_certain ? hidden : program.most_of_a_size() < 3 ? one_or_two : several;
    ++seen.programs;
    for (const auto& turns : turns_of(program, kCycles * program.cycle)) {
      const std::vector<std::size_t> gaps = cycles_with_gaps(turns, program.cycle);
      const bool has_first = !gaps.empty() && gaps.front() == 0;
      ++seen.tensors;
      seen.cycles += kCycles;
      seen.first_with_gaps += has_first ? 1 : 0;
      seen.later_with_gaps += static_cast<long>(gaps.size()) - (has_first ? 1 : 0);
    }
  }
  print("one or two tensors of a size", one_or_two);
  print("more of a size", several);
  print("equal tensors, or equal half steps", hidden);
  EXPECT_EQ(one_or_two.first_with_gaps + one_or_two.later_with_gaps, 0);
  EXPECT_EQ(several.later_with_gaps, 0);
  // The calls of the first step and of the second may look like a shorter one.
  EXPECT_LT(5 * several.first_with_gaps, several.tensors);
}

// Which of the two it is makes no difference to the calls.
TEST(SliceTurns, AreThoseOfOneTensorToo) {
  for (long number = 0; number < programs_to_try(); ++number) {
    std::mt19937 random(static_cast<unsigned>(number));
    Program program = random_program(random);
    program.tensors.assign(program.tensors.size(), 1000);
    const Turns turns = turns_of(program, 12 * program.cycle);
    std::vector<std::size_t> all;
    for (std::size_t step = 0; step < turns[0].size(); ++step) {
      for (const auto& tensor : turns) all.push_back(tensor[step]);
    }
    EXPECT_EQ(cycles_with_gaps(all, program.cycle), std::vector<std::size_t>{});
  }
}

// With new buffers nothing is to be found at an address, with two by turns only half of it.
TEST(SliceTurns, GoByAddressesWhereTheseTellTensorsFromEachOther) {
  for (const std::size_t buffers : {1U, 2U, 3U, 6U}) {
    SliceTurns turns;
    for (std::size_t i = 0; i < 10 * buffers; ++i) {
      TensorCall call;
      call.count = 1000;
      call.address = reinterpret_cast<const void*>((1 + i % buffers) << 20);
      EXPECT_EQ(turns.next(call, 4).is_by_address, i < buffers || buffers > 2) << i;
    }
    for (int i = 0; i < 20; ++i) {
      TensorCall call;
      call.count = i % 3 == 0 ? 500 : 1000;
      call.address = reinterpret_cast<const void*>(std::uintptr_t{1} << 20);
      EXPECT_TRUE(!turns.next(call, 4).is_by_address || i < 12);
    }
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::slice_turns_test
