#include "ringpress/cost_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "tuner/factory.h"

namespace ringpress {
namespace {

constexpr LinkSpeed kLink{50e-6, 125e6};  // 1 Gb/s.

CodecSpeed none() {
  return {"none", 1, 0, {}, {}, {0, 1e-10}};
}
CodecSpeed small() {
  return {"small", 0.125, 0.1, {1e-6, 2e-10}, {1e-6, 1e-10}, {1e-6, 4e-10}};
}

CallCost predict(const CallShape& shape, const CodecSpeed& codec, Algorithm algorithm,
                 std::size_t chunks = 1, const LinkSpeed& link = kLink) {
  return tuner::predict_call(shape, link, codec, algorithm, chunks).value();
}

TEST(CostModel, OfSraIsTwoLatenciesTheWireAndTheCodec) {
  const CallCost cost = predict({4000000, 4}, small(), Algorithm::kSra);
  EXPECT_EQ(cost.wire_bytes, 750000u);  // 2 * 3/4 of an eighth.
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 100e-6);
  EXPECT_DOUBLE_EQ(cost.wire_seconds, 6e-3);
  // 3 shards of 1 MB encoded, 1 hop and 2 more parts decoded, 3 decoded.
  EXPECT_DOUBLE_EQ(cost.codec_seconds, 9e-6 + 3e6 * 2e-10 + 1e6 * 4e-10 + 5e6 * 1e-10);
  EXPECT_DOUBLE_EQ(cost.seconds, cost.latency_seconds + cost.wire_seconds + cost.codec_seconds);
}

TEST(CostModel, OfARingHasALatencyAStage) {
  for (const auto& [world, stages] : {std::pair(2, 2.0), {3, 2.0}, {4, 4.0}, {9, 8.0}}) {
    const CallCost cost = predict({9000000, world}, small(), Algorithm::kRing);
    EXPECT_DOUBLE_EQ(cost.latency_seconds, stages * 50e-6) << world;
    EXPECT_EQ(cost.wire_bytes, predict({9000000, world}, small(), Algorithm::kSra).wire_bytes);
  }
  // 2 shards encoded, 2 hops, 3 decoded.
  const CallCost cost = predict({4000000, 4}, small(), Algorithm::kRing);
  EXPECT_DOUBLE_EQ(cost.codec_seconds, 7e-6 + 2e6 * 2e-10 + 2e6 * 4e-10 + 3e6 * 1e-10);
}

TEST(CostModel, ChunksOverlapTheCodecWithTheWire) {
  const CallCost one = predict({4000000, 4}, small(), Algorithm::kSra, 1);
  const CallCost eight = predict({4000000, 4}, small(), Algorithm::kSra, 8);
  EXPECT_DOUBLE_EQ(eight.codec_seconds, one.codec_seconds + 7 * 9e-6);
  EXPECT_DOUBLE_EQ(eight.seconds,
                   eight.latency_seconds + eight.wire_seconds + eight.codec_seconds / 8);
  EXPECT_EQ(predict({4000000, 4}, small(), Algorithm::kSra, 0).chunks, 1u);
  EXPECT_EQ(predict({4000000, 4}, small(), Algorithm::kSra, 1000).chunks, 64u);
}

TEST(CostModel, OfASingleRankIsNothing) {
  const CallCost cost = predict({4000000, 1}, small(), Algorithm::kSra);
  EXPECT_EQ(cost.seconds, 0);
  EXPECT_EQ(cost.wire_bytes, 0u);
}

/// Slow links are worth compression, quick ones and small calls are not.
TEST(CostModel, RanksByTime) {
  const std::vector<CodecSpeed> codecs = {none(), small()};
  const auto best = [&](const CallShape& shape, const LinkSpeed& link) {
    return tuner::rank_calls(shape, link, codecs).value().front().codec;
  };
  EXPECT_EQ(best({std::size_t{64} << 20, 4}, kLink), "small");
  EXPECT_EQ(best({std::size_t{64} << 20, 4}, {1e-6, 1e12}), "none");
  EXPECT_EQ(best({8, 4}, kLink), "none");
  const auto all = tuner::rank_calls({std::size_t{64} << 20, 4}, kLink, codecs).value();
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].seconds, all[i].seconds);
}

TEST(CostModel, MoreBytesNeverTakeLess) {
  for (const Algorithm algorithm : {Algorithm::kSra, Algorithm::kRing}) {
    for (const int world : {2, 3, 8, 64}) {
      double before = 0;
      for (std::size_t bytes = 8; bytes <= std::size_t{256} << 20; bytes *= 2) {
        const CallCost cost = predict({bytes, world}, small(), algorithm, 4);
        EXPECT_GE(cost.seconds, before);
        before = cost.seconds;
      }
    }
  }
}

TEST(CostModel, SaysWhatIsWrong) {
  const auto refusal = [](const CallShape& shape, const LinkSpeed& link, Algorithm algorithm) {
    return tuner::predict_call(shape, link, none(), algorithm, 1).status().message();
  };
  EXPECT_EQ(refusal({8, 0}, kLink, Algorithm::kSra), "there must be a rank at least");
  EXPECT_EQ(refusal({8, 2}, {0, 0}, Algorithm::kSra), "a link's rate must be a number above 0");
  EXPECT_EQ(refusal({8, 2}, {-1, 1}, Algorithm::kSra),
            "a link's latency must be a number from 0 on");
  EXPECT_EQ(refusal({8, 2}, kLink, Algorithm::kHier), "only sra and ring have a model");
}

}  // namespace
}  // namespace ringpress
