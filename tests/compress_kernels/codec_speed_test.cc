// What is said of a codec's speed is of what it does: bytes as it writes them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/projection.h"

namespace ringpress::compress_kernels {
namespace {

constexpr std::size_t kCount = std::size_t{1} << 17;

class CodecSpeeds : public ::testing::TestWithParam<std::string> {};

TEST_P(CodecSpeeds, AreKnownOfEveryTypeAndWorld) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    for (const int world : {2, 8}) {
      const auto measured = measure_codec(GetParam(), dtype, {world});
      ASSERT_TRUE(measured.is_ok()) << measured.status().message();
      const CodecSpeed& speed = measured.value();
      EXPECT_EQ(speed.codec, normalize_specification(GetParam()).value());
      EXPECT_GT(speed.ratio, 0);
      EXPECT_GE(speed.error, 0);
      EXPECT_LE(speed.error, 1.2);
      EXPECT_GT(speed.hop.seconds_per_byte, 0);
      EXPECT_LE(speed.sent_ratio(1e6), 4.01 / static_cast<double>(dtype_size(dtype)));
      const auto error = measure_codec_error(GetParam(), dtype);
      ASSERT_TRUE(error.is_ok());
      EXPECT_NEAR(error.value(), speed.error, 1e-9);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodecSpeeds,
                         ::testing::Values("none", "bf16", "fp8", "q4", "q2:grid=lloyd", "qsgd",
                                           "qsgd:norm=global", "qsgd-ms:bits=4/8", "tern", "sign",
                                           "topk:density=0.01", "randk:density=0.01",
                                           "powersgd:rank=4", "lossless"));

TEST(CodecSpeed, OfSumsIsOfAsManyRanksAsAreAskedAbout) {
  for (const char* const name : {"qsgd:bits=4", "qsgd-ms:bits=4/8"}) {
    const auto codec = make_codec(name, DType::kFloat32, ReduceOp::kSum).value();
    const auto share = [&](std::size_t summed, std::size_t world) {
      return static_cast<double>(codec->wire_bytes(kCount, {summed, world})) / (4.0 * kCount);
    };
    double before = 0;
    for (const std::size_t world : {2U, 8U, 64U}) {
      const auto speed = measure_codec(name, DType::kFloat32, {static_cast<int>(world)}).value();
      EXPECT_TRUE(speed.sums_exactly);
      EXPECT_FALSE(speed.requantises());
      EXPECT_DOUBLE_EQ(speed.ratio, share(1, world));
      EXPECT_DOUBLE_EQ(speed.sum_ratio, share(world, world));
      EXPECT_GT(speed.sum_ratio, before);
      EXPECT_GE(speed.partial_sum_ratio, speed.ratio);
      EXPECT_LE(speed.partial_sum_ratio, speed.sum_ratio);
      EXPECT_DOUBLE_EQ(speed.alone_ratio, share(1, 1));
      before = speed.sum_ratio;
    }
  }
  const auto q4 = make_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  const CodecSpeed speed = measure_codec("q4", DType::kFloat32, {4}).value();
  EXPECT_TRUE(speed.requantises());
  // A ring that goes two ways: sums of one and of two ranks to the right, and such that count as of
  // two to the left.
  const auto bytes_of = [&](std::size_t summed) {
    return static_cast<double>(q4->wire_bytes(kCount, {summed, 4}));
  };
  EXPECT_DOUBLE_EQ(speed.partial_sum_ratio, (bytes_of(1) + 2 * bytes_of(2)) / 3 / (4.0 * kCount));
  EXPECT_FALSE(measure_codec("q4", DType::kFloat32, {1}).is_ok());
}

TEST(CodecSpeed, SaysWhatRanksTellEachOther) {
  const auto agreement_of = [](const char* name) {
    return measure_codec(name, DType::kFloat32, {4}).value().agreement;
  };
  EXPECT_EQ(agreement_of("q4").rounds, 0);
  EXPECT_EQ(agreement_of("q4").tensor_bytes, 0u);
  EXPECT_EQ(agreement_of("qsgd:norm=global").tensor_bytes, 4u);
  EXPECT_EQ(agreement_of("qsgd:norm=global").rounds, 0);
  const AgreementCost qsgd = agreement_of("qsgd");
  EXPECT_EQ(qsgd.rounds, 1);
  EXPECT_GT(qsgd.ratio, 0);
  EXPECT_LT(qsgd.ratio, 0.05);
  EXPECT_GT(qsgd.summarise.seconds_per_byte, 0);
  EXPECT_EQ(agreement_of("qsgd-ms:bits=4/8").rounds, 2);
  EXPECT_GT(agreement_of("qsgd-ms:bits=4/8").ratio, qsgd.ratio);
  // A threshold of its own for each rank is nothing to tell.
  const auto topk = measure_codec("topk:density=0.01", DType::kFloat32, {4}).value();
  EXPECT_EQ(topk.agreement.tensor_bytes, 0u);
  EXPECT_GT(topk.look.seconds_per_byte, 0);
}

TEST(CodecSpeed, OfProjectionsIsOfWhatTheyProject) {
  for (const char* const name :
       {"randk:density=0.01", "randk:density=0.1", "powersgd:rank=1", "powersgd:rank=16"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      const auto codec = make_codec(name, dtype, ReduceOp::kSum).value();
      const Projection& projection = *codec->projection();
      const CodecSpeed speed = measure_codec(name, dtype, {4}).value();
      EXPECT_EQ(speed.projection.rounds, projection.rounds());
      EXPECT_GT(speed.look.seconds_per_byte, 0);
      for (const std::size_t count : {1000U, 100000U, 1234567U, 50000000U}) {
        double projected = 0;
        for (int round = 0; round < projection.rounds(); ++round) {
          projected += 4.0 * static_cast<double>(projection.projected_count(round, {count, {}}));
        }
        const double bytes = static_cast<double>(count * dtype_size(dtype));
        // Whole rows, columns and blocks.
        EXPECT_NEAR(speed.projection.bytes(bytes), projected, 0.03 * projected + 600)
            << name << ' ' << count;
      }
    }
  }
}

/// The bytes of two_way_ring.cc's frames: the longer side's sums are of 1, 2, .. N / 2 ranks; the
/// shorter one's of as many less, of which the last counts as one more.
TEST(CodecSpeed, OfARingIsOfTheFramesThatItSends) {
  const auto q4 = make_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  for (const int world : {2, 3, 4, 5, 6, 8, 9}) {
    const std::size_t ranks = static_cast<std::size_t>(world), longer = ranks / 2;
    const std::size_t shorter = ranks - 1 - longer;
    double bytes = 0;
    for (std::size_t hop = 1; hop <= longer; ++hop) {
      bytes += static_cast<double>(q4->wire_bytes(kCount, {hop, ranks}));
    }
    for (std::size_t hop = 1; hop <= shorter; ++hop) {
      const std::size_t summed = hop == shorter ? longer : hop;
      bytes += static_cast<double>(q4->wire_bytes(kCount, {summed, ranks}));
    }
    const CodecSpeed speed = measure_codec("q4", DType::kFloat32, {world}).value();
    EXPECT_NEAR(speed.partial_sum_ratio, bytes / (ranks - 1) / (4.0 * kCount), 1e-12) << world;
  }
  // However many there are.
  EXPECT_GT(measure_codec("qsgd", DType::kFloat32, {1 << 20}).value().partial_sum_ratio, 0.5);
}

TEST(CodecSpeed, IsLessInMemoryThanInACache) {
  for (const char* const name : {"q4", "topk:density=0.01", "powersgd:rank=4"}) {
    const CodecSpeed cache = measure_codec(name, DType::kFloat32, {2, 2}).value();
    const CodecSpeed memory =
        measure_codec(name, DType::kFloat32, {2, 2, ValuesIn::kMemory}).value();
    EXPECT_EQ(memory.error, cache.error);
    EXPECT_NEAR(memory.ratio, cache.ratio, 0.05 * cache.ratio);
    EXPECT_EQ(memory.projection.rounds, cache.projection.rounds);
    EXPECT_GT(memory.hop.seconds_per_byte, 0);
  }
}

TEST(CodecSpeed, OfHostsIsOfTheirSums) {
  const CodecSpeed speed = measure_codec("qsgd:bits=4", DType::kFloat32, {16, 2}).value();
  EXPECT_DOUBLE_EQ(speed.hosts_sum_ratio,
                   measure_codec("qsgd:bits=4", DType::kFloat32, {2}).value().sum_ratio);
  EXPECT_LT(speed.hosts_sum_ratio, speed.sum_ratio);
}

/// Ranks whose largest values are at other places: a sum has those of all.
TEST(CodecSpeed, OfSparseSumsIsOfMoreTheMoreRanksThereAre) {
  double before = measure_codec("topk:density=0.01", DType::kFloat32, {2}).value().ratio;
  for (const int world : {2, 8, 32}) {
    const CodecSpeed speed = measure_codec("topk:density=0.01", DType::kFloat32, {world}).value();
    EXPECT_GT(speed.sum_ratio, 1.5 * before) << world;
    EXPECT_LE(speed.sum_ratio, world * speed.ratio * 1.1) << world;
    EXPECT_LE(speed.partial_sum_ratio, speed.sum_ratio) << world;
    before = speed.sum_ratio;
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels
