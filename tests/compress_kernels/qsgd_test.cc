// qsgd and qsgd-ms: widths, random bits, levels and parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compress_kernels/qsgd/dither.h"
#include "compress_kernels/qsgd/grid.h"
#include "compress_kernels/qsgd/lane_pack.h"
#include "compress_kernels/qsgd/merge.h"
#include "tests/compress_kernels/qsgd_ring.h"

namespace ringpress::compress_kernels::testing::qsgd_test {
namespace {

TEST(QsgdWidth, IsTheLeastThatHoldsASum) {
  for (int bits = 1; bits <= 8; ++bits) {
    const std::uint64_t steps = qsgd::steps_of(bits);
    for (std::uint64_t summed = 1; summed <= 1024; ++summed) {
      const int width = qsgd::width_of_sum(summed, qsgd::steps_of(bits));
      EXPECT_EQ(width, std::ceil(std::log2(static_cast<double>(2 * summed * steps + 1))));
    }
  }
}

TEST(QsgdWidth, MakesTheBytesOfAllFormsIn64Ranks) {
  struct Row {
    int bits;
    double scatter;
    double gather;
  };
  for (const Row& row : {Row{2, 7.7, 9}, Row{4, 10, 11}, Row{6, 12, 13}, Row{8, 14, 15}}) {
    const auto codec = make_float_codec("qsgd:bits=" + std::to_string(row.bits));
    constexpr std::size_t kCount = 65536;
    double bytes = 0;  // Of a ring: partial sums of 1 to 63, and the agreement there and back.
    for (std::size_t summed = 1; summed < 64; ++summed) {
      bytes += static_cast<double>(codec->wire_bytes(kCount, {summed, 64})) / 63;
    }
    bytes += static_cast<double>(codec->wire_bytes(kCount, {64, 64}));
    bytes += 2 * static_cast<double>(codec->agreement()->round_bytes(0, kCount));
    EXPECT_NEAR(8 * bytes / kCount / (row.scatter + row.gather), 1, 0.03) << row.bits;
  }
}

/// Each of the 2^15 offsets that random bits can make.
TEST(QsgdDither, MovesEveryFractionUpAsOftenAsItIsLarge) {
  for (const std::uint32_t steps : {1u, 15u, 255u}) {
    for (const float fraction : {0.0f, 1e-5f, 0.001f, 0.1f, 0.37f, 0.5f, 0.75f, 0.999f}) {
      for (const float whole : {-1.0f, 0.0f}) {
        double sum = 0;
        for (int low = 0; low < 128; ++low) {
          const float bias =
              static_cast<float>(256 * steps) + static_cast<float>(2 * low + 1) / 256;
          for (std::uint32_t byte = 0; byte < 256; ++byte) {
            sum += qsgd::stochastic_code(whole + fraction, 256.0f, steps, bias, byte);
          }
        }
        const double expected = double{whole} + double{fraction} + steps;
        EXPECT_NEAR(sum / 32768, expected, 0x1p-15) << steps << ' ' << whole + fraction;
      }
    }
  }
}

TEST(QsgdDither, DiffersBetweenRanksStepsAndPlaces) {
  const auto bytes_of = [](const RandomKey& random, std::size_t first) {
    std::vector<std::uint32_t> bytes;
    const qsgd::Dither dither = qsgd::dither_of_tile(random, first, 0);
    for (std::size_t i = 0; i < kTileElements; ++i) bytes.push_back(qsgd::dither_byte(dither, i));
    return bytes;
  };
  const std::vector<std::vector<std::uint32_t>> draws = {
      bytes_of({1, 2, 3, 0}, 0), bytes_of({1, 2, 4, 0}, 0), bytes_of({1, 3, 3, 0}, 0),
      bytes_of({2, 2, 3, 0}, 0), bytes_of({1, 2, 3, 0}, 1024)};
  for (std::size_t a = 0; a < draws.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      std::size_t equal = 0;
      for (std::size_t i = 0; i < kTileElements; ++i) equal += draws[a][i] == draws[b][i] ? 1 : 0;
      EXPECT_LT(equal, 20u) << a << ' ' << b;  // 4 of 1024 by chance.
    }
  }
  EXPECT_EQ(bytes_of({1, 2, 3, 1024}, 0), draws[4]);
}

TEST(QsgdLevels, MergeToTheSmallerOfEachPair) {
  for (std::uint64_t a = 0; a < 4; ++a) {
    for (std::uint64_t b = 0; b < 4; ++b) {
      for (int place = 0; place < 64; place += 2) {
        const std::uint64_t others = 0x9C27B1E4D8365A0Fu & ~(std::uint64_t{3} << place);
        const std::uint64_t merged =
            qsgd::smaller_levels(others | a << place, others | b << place, 2);
        EXPECT_EQ(merged, others | std::min(a, b) << place);
      }
    }
  }
  EXPECT_EQ(qsgd::smaller_levels(0b1100, 0b1010, 1), 0b1000u);
}

/// Every rank's levels, and what comes of them: the finest grid that fits on all ranks.
TEST(QsgdLevels, AreTheFinestThatFitOnAllRanks) {
  constexpr std::size_t kCount = 1500;
  const Tensors inputs = draw(3, kCount, [](float x, std::size_t) { return x * x * x; });
  const auto codec = make_float_codec("qsgd-ms:bits=3/5/7,norm=global");
  std::vector<perf::RankValues> ranks;
  for (const auto& input : inputs) ranks.push_back({input.data()});
  const auto tensor = perf::LocalAgreement::of_tensor(*codec, ranks, 0, kCount);
  const auto chunk = perf::LocalAgreement::of_chunk(*codec, ranks, kCount, tensor);
  std::reverse(ranks.begin(), ranks.end());
  EXPECT_TRUE(perf::LocalAgreement::of_chunk(*codec, ranks, kCount, tensor) == chunk);
  const Agreed agreed = perf::LocalAgreement::agreed(tensor, chunk);
  std::uint32_t norm_bits = 0;
  std::memcpy(&norm_bits, agreed.tensor, 4);
  float norm = 0;
  norm_bits <<= 16;
  std::memcpy(&norm, &norm_bits, 4);
  std::vector<std::uint32_t> levels(kCount - kTileElements);  // Of the tail: plain bits.
  qsgd::unpack_add_plain(agreed.chunk + kTileElements / 4, levels.size(), 2, ~0u, levels.data());
  std::size_t seen[3] = {};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    float largest = 0;
    for (const auto& input : inputs) {
      largest = std::max(largest, std::abs(input[kTileElements + i]));
    }
    const std::uint32_t expected = largest / norm * 127 <= 7 ? 2 : largest / norm * 31 <= 7 ? 1 : 0;
    EXPECT_EQ(levels[i], expected) << i;
    ++seen[levels[i]];
  }
  for (const std::size_t count : seen) EXPECT_GT(count, 0u);
}

TEST(QsgdParameters, AreCheckedAndSpelledOut) {
  const auto spelled = [](const char* text) { return normalize_specification(text).value(); };
  EXPECT_EQ(spelled("qsgd"), "qsgd:bits=4,block=512,norm=bucket,round=stochastic");
  EXPECT_EQ(spelled("qsgd:norm=global"), "qsgd:bits=4,norm=global,round=stochastic");
  EXPECT_EQ(spelled("qsgd-ms"), "qsgd-ms:bits=4/8,block=512,norm=bucket,round=stochastic");
  for (const char* text :
       {"qsgd:bits=9", "qsgd:bits=0", "qsgd:bits=4/8", "qsgd-ms:bits=4", "qsgd-ms:bits=8/4",
        "qsgd-ms:bits=4/4", "qsgd-ms:bits=9/10", "qsgd-ms:bits=2/17", "qsgd-ms:bits=1/2/3/4/5",
        "qsgd-ms:bits=4/8/", "qsgd:block=48", "qsgd:norm=l2", "qsgd:round=nearest"}) {
    const auto refused = normalize_specification(text);
    ASSERT_FALSE(refused.is_ok()) << text;
    const std::string key = std::string(text).substr(std::string(text).find(':') + 1);
    EXPECT_NE(refused.status().message().find(key.substr(0, key.find('='))), std::string::npos);
    EXPECT_NE(refused.status().message().find("must be"), std::string::npos)
        << refused.status().message();
  }
  EXPECT_FALSE(normalize_specification("qsgd:norm=global,block=64").is_ok());
}

TEST(QsgdTraits, SumsAreExactAndKeepTheirSize) {
  const auto codec = make_float_codec("qsgd:round=zero");
  EXPECT_TRUE(codec->traits().summable);
  EXPECT_TRUE(codec->traits().deterministic);
  EXPECT_TRUE(codec->traits().fixed_size);
  EXPECT_FALSE(make_float_codec("qsgd-ms")->traits().deterministic);
  EXPECT_EQ(codec->wire_bytes(1024), 2u * 2u + 640u);
  EXPECT_EQ(codec->wire_bytes(1024, {1, 8}), 640u);
  EXPECT_EQ(codec->wire_bytes(1034, {8, 8}), 1034u);
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::qsgd_test
