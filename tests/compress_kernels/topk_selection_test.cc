// Which values topk selects, and how many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "compress_kernels/topk/threshold.h"
#include "compress_kernels/topk/topk.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/topk_rank.h"

namespace ringpress::compress_kernels::testing::topk_selection_test {
namespace {

std::size_t sent_of(const Codec& codec, const Floats& values) {
  const Bytes wire = Rank(codec, values, nullptr).encode(0, values.size());
  const Floats decoded = decode(codec, wire, values.size());
  return decoded.size() - static_cast<std::size_t>(std::count(decoded.begin(), decoded.end(), 0));
}

/// Laws that a window from a sample has difficulties with are among them: runs, ties, rows of other
/// scales, and few values.
std::vector<std::function<Floats(std::size_t)>> laws() {
  return {
      [](std::size_t n) { return draw(n, std::normal_distribution<double>()); },
      [](std::size_t n) { return draw(n, std::student_t_distribution<double>(2)); },
      [](std::size_t n) { return draw(n, std::lognormal_distribution<double>(0, 4)); },
      [](std::size_t n) { return draw(n, std::uniform_int_distribution<int>(1, 3)); },
      [](std::size_t n) { return Floats(n, -0.25f); },
      [](std::size_t n) {
        Floats values(n, 1e-3f);
        std::iota(values.begin() + static_cast<std::ptrdiff_t>(n / 2), values.end(), 1.0f);
        return values;
      },
      [](std::size_t n) {
        Floats values = draw(n, std::normal_distribution<double>());
        for (std::size_t i = 0; i < n; ++i) {
          values[i] *= std::exp2(static_cast<float>(topk::hash_of(i / 1000) % 20));
        }
        return values;
      },
      [](std::size_t n) {  // All that is large lies in one place.
        Floats values = draw(n, std::normal_distribution<double>());
        for (std::size_t i = n / 3; i < n / 3 + n / 7; ++i) values[i] *= 1e6f;
        return values;
      },
  };
}

TEST(TopkSelection, SelectsAsManyAsAskedFor) {
  for (const double density : {0.001, 0.01, 0.1, 0.5}) {
    const auto codec = make(topk_of(density) + ",value=16");  // Of which none become zero.
    for (const std::size_t count : {1000u, 8192u, 8193u, 65536u, 300001u}) {
      for (std::size_t law = 0; law < laws().size(); ++law) {
        const std::size_t wanted = topk::selected_count(density, count);
        EXPECT_EQ(wanted, static_cast<std::size_t>(std::ceil(density * count - 1e-6)));
        const double sent = static_cast<double>(sent_of(*codec, laws()[law](count)));
        EXPECT_LE(std::abs(sent - static_cast<double>(wanted)), 0.005 * wanted)
            << density << " of " << count << ", law " << law;
      }
    }
  }
}

TEST(TopkSelection, SelectsAsManyOfNarrowTypesWhichHaveManyTies) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    const auto codec = make("topk", dtype);
    const std::size_t count = 400000;
    const Bytes values = to_elements(draw(count, std::normal_distribution<double>(0, 1e-3)), dtype);
    const std::uint64_t summary = summarise(*codec, values.data(), count);
    std::size_t selected = 0;
    const Floats wide = to_floats(values.data(), count, dtype);
    for (std::size_t i = 0; i < count; ++i) {
      if (topk::key_of(core::magnitude_bits(wide[i]), i) >= summary) ++selected;
    }
    EXPECT_EQ(selected, 4000u);
  }
}

TEST(TopkSelection, NeverSelectsZeros) {
  const auto codec = make("topk:density=0.1");
  for (const std::size_t count : {1000u, 100000u}) {
    Floats values(count, -0.0f);
    EXPECT_EQ(Rank(*codec, values, nullptr).encode(0, count).size(), (count + 65535) / 65536);
    values[7] = 1e-39f;
    values[count - 1] = -3;
    EXPECT_EQ(sent_of(*make("topk:density=0.1,value=16"), values), 2u);
  }
}

TEST(TopkSelection, TakesTheLargest) {
  const auto codec = make("topk:density=0.05,value=16");
  const Floats values = draw(70000, std::normal_distribution<double>());
  const Floats decoded =
      decode(*codec, Rank(*codec, values, nullptr).encode(0, values.size()), values.size());
  float smallest_sent = std::numeric_limits<float>::max();
  float largest_kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float magnitude = std::abs(values[i]);
    if (decoded[i] != 0) smallest_sent = std::min(smallest_sent, magnitude);
    if (decoded[i] == 0) largest_kept = std::max(largest_kept, magnitude);
  }
  EXPECT_GE(smallest_sent, largest_kept);
}

TEST(TopkSelection, NonFiniteValuesAreAlwaysSelected) {
  const auto codec = make("topk:density=0.001");
  Floats values = draw(20000, std::normal_distribution<double>());
  for (std::size_t i = 0; i < 100; ++i) {
    values[i * 7] = i % 2 == 0 ? std::nanf("") : -std::numeric_limits<float>::infinity();
  }
  const Floats decoded =
      decode(*codec, Rank(*codec, values, nullptr).encode(0, values.size()), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isfinite(decoded[i]), std::isfinite(values[i])) << i;
  }
}

/// A pass that finds nothing useful makes the search go the long way.
TEST(TopkSelection, FindsTheThresholdWithoutHelp) {
  for (const auto& law : laws()) {
    const Floats values = law(20000);
    const topk::Source source{values.data(), DType::kFloat32, nullptr, values.size(), 5};
    const auto give_up = [](const topk::Source&, const topk::Window&,
                            topk::Candidates* candidates) { candidates->gave_up = true; };
    for (const std::size_t k : {std::size_t{1}, std::size_t{200}, values.size()}) {
      EXPECT_EQ(topk::find_threshold_with(give_up, source, k),
                topk::reference_kernels().find_threshold(source, k));
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::topk_selection_test
