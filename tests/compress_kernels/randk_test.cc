// What is special to randk: the permutation, its slices, how densities are spelled.
#include "compress_kernels/randk/randk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels::randk::randk_test {
namespace {

TEST(RandK, PermutationsVisitEveryNumberOnce) {
  for (std::uint64_t count = 1; count < 300; ++count) {
    for (const std::uint64_t seed : {0U, 7U}) {
      const Permutation permutation(seed, count);
      std::vector<int> visits(count);
      for (std::uint64_t i = 0; i < count; ++i) ++visits.at(permutation(i));
      ASSERT_EQ(visits, std::vector<int>(count, 1)) << count;
    }
  }
  for (const std::uint64_t count : {65535U, 65536U, 65537U, 100003U}) {
    const Permutation permutation(1, count);
    std::vector<bool> visited(count);
    for (std::uint64_t i = 0; i < count; ++i) visited.at(permutation(i)) = true;
    EXPECT_EQ(std::count(visited.begin(), visited.end(), true), static_cast<long>(count));
  }
}

// A hundredth of the numbers falls evenly on tenths of the range.
TEST(RandK, SlicesAreSpreadEvenly) {
  const std::uint64_t count = 1000000;
  const Permutation permutation(5, count);
  std::vector<double> tenths(10);
  for (std::uint64_t i = 0; i < count / 100; ++i) ++tenths[permutation(i) * 10 / count];
  double chi_squared = 0;
  for (const double visits : tenths) chi_squared += (visits - 1000) * (visits - 1000) / 1000;
  EXPECT_LT(chi_squared, 30);  // 9 degrees of freedom: 1 in 2000.
  EXPECT_GT(chi_squared, 0.5);
}

TEST(RandK, SlicesCoverTheTensor) {
  for (const double density : {1e-6, 0.01, 0.1, 0.3, 0.7, 1.0}) {
    for (std::size_t count = 1; count < 500; ++count) {
      const Slices slices(density, count);
      std::size_t next = 0;
      for (std::size_t slice = 0; slice < slices.number; ++slice) {
        ASSERT_EQ(slices.first(slice), next);
        ASSERT_GE(slices.length(slice), 1U);
        ASSERT_LE(slices.length(slice), slices.longest());
        next += slices.length(slice);
      }
      ASSERT_EQ(next, count);
      ASSERT_LE(static_cast<double>(slices.longest()),
                std::ceil(density * static_cast<double>(count)));
    }
  }
}

std::vector<std::size_t> of_turns(const Slices& slices, std::uint64_t first, std::uint64_t step) {
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < slices.number; ++i) {
    taken.push_back(slices.of_place({0, static_cast<float>(first + i * step)}));
  }
  return taken;
}

TEST(RandK, OneTensorTakesAllSlicesInEachCycleOfTurns) {
  EXPECT_EQ(of_turns(Slices(1, 100), 7, 1), std::vector<std::size_t>{0});
  for (std::size_t number = 2; number <= 9; ++number) {
    const Slices slices(1.0 / static_cast<double>(number), 10 * number);
    ASSERT_EQ(slices.number, number);
    std::vector<std::size_t> all(number);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(of_turns(slices, 0, 1), all);
    for (std::uint64_t cycle = 1; cycle < 1000; ++cycle) {
      std::vector<std::size_t> taken = of_turns(slices, cycle * number, 1);
      std::sort(taken.begin(), taken.end());
      ASSERT_EQ(taken, all) << number << " slices, cycle " << cycle;
    }
  }
}

TEST(RandK, TwoTensorsTakeAllSlicesInEachCycleOfTheirTurns) {
  for (std::size_t number = 2; number <= 9; ++number) {
    const Slices slices(1.0 / static_cast<double>(number), 10 * number);
    std::vector<std::size_t> all(number);
    std::iota(all.begin(), all.end(), 0);
    for (std::uint64_t turn = 0; turn < 1000 * number; turn += 2 * number) {
      for (const std::uint64_t tensor : {0U, 1U}) {
        std::vector<std::size_t> taken = of_turns(slices, turn + tensor, 2);
        std::sort(taken.begin(), taken.end());
        ASSERT_EQ(taken, all) << number << " slices, turn " << turn + tensor;
      }
    }
  }
}

// What is kept of a tensor goes on as it began, for as long as anybody calls.
TEST(RandK, APlaceGoesOnInCycles) {
  for (const std::size_t number : {1U, 2U, 3U, 100U, 1000U}) {
    const Slices slices(1.0 / static_cast<double>(number), 10 * number);
    ASSERT_EQ(slices.number, number);
    SlicePlace place{static_cast<float>(number - 1), 0};
    EXPECT_EQ(slices.of_place(place), number - 1);
    // And the last cycle of whole numbers that a float tells apart.
    const std::size_t turns = (std::size_t{1} << 24) / (2 * number) * (2 * number);
    for (const std::size_t from : {std::size_t{0}, turns - number}) {
      place.turn = static_cast<float>(from);
      std::vector<bool> taken(number);
      for (std::size_t i = 0; i < number; ++i) {
        taken.at(slices.of_place(place)) = true;
        const float turn = place.turn;
        place = slices.place_after(place);
        EXPECT_TRUE(place.turn == turn + 1 || place.turn == 0);
      }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), true), static_cast<long>(number));
    }
  }
}

// Tensors of one length take the turns one after the other, step by step.
TEST(RandK, EachOfSeveralTensorsTakesAllSlicesAlike) {
  for (std::size_t number = 2; number <= 8; ++number) {
    const Slices slices(1.0 / static_cast<double>(number), 10 * number);
    for (std::uint64_t tensors = 1; tensors <= 70; ++tensors) {
      for (const std::uint64_t tensor : {std::uint64_t{0}, tensors - 1}) {
        const std::uint64_t steps = 4096;
        std::vector<double> taken(number);
        for (std::uint64_t step = 0; step < steps; ++step) {
          ++taken[slices.of_place({0, static_cast<float>(step * tensors + tensor)})];
        }
        const double each = static_cast<double>(steps) / static_cast<double>(number);
        for (const double times : taken) {
          ASSERT_NEAR(times / each, 1, 0.3) << number << " slices, " << tensors << " tensors";
        }
      }
    }
  }
}

TEST(RandK, SpellsADensityInOneWay) {
  const std::string rest = ",code=none,unbiased=0";
  EXPECT_EQ(normalize_specification("randk").value(), "randk:density=0.01" + rest);
  EXPECT_EQ(normalize_specification("randk:density=0.010").value(), "randk:density=0.01" + rest);
  EXPECT_EQ(normalize_specification("randk:density=1e-2").value(), "randk:density=0.01" + rest);
  EXPECT_EQ(normalize_specification("randk:density=1e-6").value(), "randk:density=0.000001" + rest);
  EXPECT_EQ(normalize_specification("randk:density=1.0").value(), "randk:density=1" + rest);
  for (const char* text : {"0", "-1", "2", "nan", "inf", "x", "1e-7", ""}) {
    const auto refused = normalize_specification(std::string("randk:density=") + text);
    ASSERT_FALSE(refused.is_ok()) << text;
    EXPECT_NE(refused.status().message().find("density"), std::string::npos);
    EXPECT_NE(refused.status().message().find("from 0.000001 to 1"), std::string::npos);
  }
  EXPECT_NE(normalize_specification("randk:density=0").status().message().find("maybe 0.000001?"),
            std::string::npos);
}

TEST(RandK, BitsAreAMatterOfTheCodesThatHaveThem) {
  EXPECT_EQ(normalize_specification("randk:code=qsgd").value(),
            "randk:density=0.01,bits=4,code=qsgd,unbiased=0");
  EXPECT_EQ(normalize_specification("randk:code=qsgd-ms").value(),
            "randk:density=0.01,bits=4/8,code=qsgd-ms,unbiased=0");
  EXPECT_TRUE(normalize_specification("randk:code=qsgd-ms,bits=6/10/16").is_ok());
  for (const char* text : {"randk:bits=4", "randk:code=q8,bits=4", "randk:code=qsgd,bits=4/8",
                           "randk:code=qsgd-ms,bits=4", "randk:code=qsgd,bits=9"}) {
    const auto refused = normalize_specification(text);
    ASSERT_FALSE(refused.is_ok()) << text;
    EXPECT_NE(refused.status().message().find("bits"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::randk::randk_test
