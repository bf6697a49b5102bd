#include "ringpress/internal/cost_model.h"

#include <gtest/gtest.h>

#include <set>
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
  return tuner::predict_call(shape, {link, {}}, codec, algorithm, chunks).value();
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
  // 2 shards encoded, 2 hops, the second sum of the own shard and 3 others decoded.
  const CallCost cost = predict({4000000, 4}, small(), Algorithm::kRing);
  EXPECT_DOUBLE_EQ(cost.codec_seconds, 8e-6 + 2e6 * 2e-10 + 2e6 * 4e-10 + 4e6 * 1e-10);
  // Between two ranks there is one.
  EXPECT_DOUBLE_EQ(predict({4000000, 2}, small(), Algorithm::kRing).codec_seconds,
                   3e-6 + 2e6 * (2e-10 + 4e-10 + 1e-10));
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

/// Sums that lose nothing go round one way, as far as it takes.
TEST(CostModel, OfARingThatLosesNothingTheSidesAreOne) {
  CodecSpeed exact = small();
  exact.sums_exactly = true;
  CodecSpeed lossless = small();
  lossless.error = 0;
  for (const CodecSpeed& codec : {exact, lossless}) {
    const CallCost cost = predict({4000000, 4}, codec, Algorithm::kRing);
    EXPECT_DOUBLE_EQ(cost.latency_seconds, 6 * 50e-6);
    // 1 shard encoded, 3 hops, 3 decoded.
    EXPECT_DOUBLE_EQ(cost.codec_seconds, 7e-6 + 1e6 * 2e-10 + 3e6 * 4e-10 + 3e6 * 1e-10);
    EXPECT_DOUBLE_EQ(predict({4000000, 4}, codec, Algorithm::kSra).latency_seconds, 2 * 50e-6);
  }
}

/// As of qsgd, whose codes take more bits the more of them are summed.
TEST(CostModel, SumsMayTakeMoreBytesThanParts) {
  CodecSpeed widening = small();
  widening.partial_sum_ratio = 0.15625;
  widening.sum_ratio = 0.1875;
  widening.alone_ratio = 0.25;
  const auto sent = [&](CollectiveKind kind, Algorithm algorithm) {
    return predict({4000000, 4, 1, kind}, widening, algorithm).wire_bytes;
  };
  EXPECT_EQ(sent(CollectiveKind::kReduceScatter, Algorithm::kSra), 375000u);
  EXPECT_EQ(sent(CollectiveKind::kReduceScatter, Algorithm::kRing), 468750u);
  EXPECT_EQ(sent(CollectiveKind::kAllReduce, Algorithm::kSra), 375000u + 562500u);
  EXPECT_EQ(sent(CollectiveKind::kAllReduce, Algorithm::kRing), 468750u + 562500u);
  EXPECT_EQ(sent(CollectiveKind::kAllGather, Algorithm::kSra), 750000u);
  EXPECT_DOUBLE_EQ(widening.gathered_ratio(4000000), 0.1875);
  EXPECT_DOUBLE_EQ(small().gathered_ratio(4000000), 0.125);
}

TEST(CostModel, WhatRanksTellEachOtherTravelsBeforeCodesDo) {
  CodecSpeed talking = small();
  talking.agreement = {0, 2, 0.01, {1e-6, 1e-11}};
  for (const Algorithm algorithm : {Algorithm::kSra, Algorithm::kRing}) {
    const CallCost without = predict({4000000, 4}, small(), algorithm);
    const CallCost with = predict({4000000, 4}, talking, algorithm);
    EXPECT_DOUBLE_EQ(with.latency_seconds, without.latency_seconds + 4 * 50e-6);
    // 3/4 of a hundredth there, and as much back.
    EXPECT_EQ(with.wire_bytes, without.wire_bytes + 60000u);
    EXPECT_DOUBLE_EQ(with.wire_seconds, without.wire_seconds + 60000 / 125e6);
    // Four shards.
    EXPECT_NEAR(with.codec_seconds, without.codec_seconds + 4e-6 + 4e6 * 1e-11, 1e-12);
    const CallCost half =
        predict({4000000, 4, 1, CollectiveKind::kReduceScatter}, talking, algorithm);
    EXPECT_EQ(half.wire_bytes, 375000u + 60000u) << "it is needed before any sum";
    const CallShape gather{4000000, 4, 1, CollectiveKind::kAllGather};
    EXPECT_DOUBLE_EQ(predict(gather, talking, algorithm).seconds,
                     predict(gather, small(), algorithm).seconds);
  }
}

TEST(CostModel, ASummaryOfTheTensorGoesToEverybodyFirst) {
  CodecSpeed talking = small();
  talking.look = {1e-6, 5e-11};
  talking.agreement.tensor_bytes = 4;
  const CallCost without = predict({4000000, 4}, small(), Algorithm::kSra, 8);
  const CallCost with = predict({4000000, 4}, talking, Algorithm::kSra, 8);
  EXPECT_DOUBLE_EQ(with.seconds, without.seconds + 201e-6 + 50e-6);
  EXPECT_EQ(with.wire_bytes, without.wire_bytes + 12u);
  EXPECT_EQ(predict({4000000, 1}, talking, Algorithm::kSra, 8).wire_bytes, 0u);
}

/// Of 4 MB: two all-reduces of 1 % + 40 B a root, uncompressed.
TEST(CostModel, AProjectionIsAllReducedInstead) {
  CodecSpeed projecting{"projecting", 1, 0.9, {}, {}, {1e-6, 1e-10}};
  projecting.look = {2e-6, 1e-10};
  projecting.sums_exactly = true;
  projecting.projection = {2, 0.01, 40, 1};
  const CallCost cost = predict({4000000, 4}, projecting, Algorithm::kSra);
  EXPECT_EQ(cost.wire_bytes, 2 * 3 * (40000 + 80000) / 4 + 3 * 16u) << "tags, too";
  EXPECT_DOUBLE_EQ(cost.latency_seconds, (1 + 2 * 2) * 50e-6);
  // A hop of three parts in each of two rounds: what is not decoded is added.
  EXPECT_DOUBLE_EQ(cost.codec_seconds, 2e-6 + 4e6 * 1e-10 + 3 * (2e-6 + 30000 * 1e-10));
  EXPECT_DOUBLE_EQ(cost.seconds, cost.latency_seconds + cost.wire_seconds + cost.codec_seconds);
  EXPECT_DOUBLE_EQ(projecting.sent_ratio(4000000), 0.03);
  EXPECT_DOUBLE_EQ(projecting.gathered_ratio(4000000), 0.03);
  // Never more than all of it.
  EXPECT_DOUBLE_EQ(projecting.sent_ratio(100), 1);
  EXPECT_EQ(predict({100, 4}, projecting, Algorithm::kSra).wire_bytes, 200u + 3 * 16u)
      << "whole, in two steps each";
  const CallShape half{4000000, 4, 1, CollectiveKind::kReduceScatter};
  EXPECT_EQ(
      tuner::predict_call(half, {kLink, {}}, projecting, Algorithm::kSra, 1).status().message(),
      "projecting takes part in all-reduces only");
}

TEST(CostModel, ALookAtTheWholeTensorComesBeforeAllElse) {
  CodecSpeed looking = small();
  looking.look = {1e-6, 5e-11};
  for (const Algorithm algorithm : {Algorithm::kSra, Algorithm::kRing}) {
    for (const std::size_t chunks : {1U, 8U}) {
      const CallCost without = predict({4000000, 4}, small(), algorithm, chunks);
      const CallCost with = predict({4000000, 4}, looking, algorithm, chunks);
      EXPECT_DOUBLE_EQ(with.codec_seconds, without.codec_seconds + 201e-6);
      EXPECT_DOUBLE_EQ(with.seconds, without.seconds + 201e-6);
    }
  }
}

TEST(CostModel, SmallExactCallsAreExchangedWhole) {
  for (const Algorithm algorithm : {Algorithm::kSra, Algorithm::kRing}) {
    // Two ranks send the same bytes either way, in one latency less.
    const CallCost pair = predict({256 * 1024, 2}, none(), algorithm);
    EXPECT_DOUBLE_EQ(pair.latency_seconds, 50e-6);
    EXPECT_EQ(pair.wire_bytes, 256 * 1024u);
    EXPECT_DOUBLE_EQ(pair.codec_seconds, 256 * 1024 * 1e-10);
    EXPECT_DOUBLE_EQ(predict({256 * 1024 + 4, 2}, none(), algorithm).latency_seconds, 100e-6);
    // Four double what they have, three send to each other.
    const CallCost four = predict({16 * 1024, 4}, none(), algorithm, 8);
    EXPECT_DOUBLE_EQ(four.latency_seconds, 100e-6);
    EXPECT_EQ(four.wire_bytes, 2 * 16 * 1024u);
    EXPECT_EQ(four.chunks, 1u);
    const CallCost three = predict({16 * 1024, 3}, none(), algorithm);
    EXPECT_DOUBLE_EQ(three.latency_seconds, 50e-6);
    EXPECT_EQ(three.wire_bytes, 2 * 16 * 1024u);
    EXPECT_DOUBLE_EQ(three.seconds,
                     three.latency_seconds + three.wire_seconds + three.codec_seconds);
    EXPECT_EQ(predict({16 * 1024 + 4, 4}, none(), algorithm).wire_bytes, 24 * 1024u + 6);
    EXPECT_DOUBLE_EQ(predict({8, 2}, small(), algorithm).latency_seconds, 100e-6)
        << "values that are encoded are not";
  }
  // Of two hosts: both ranks of each share a link.
  const auto of_hosts = [](const CallShape& shape) {
    return tuner::predict_call(shape, {kLink, {5e-6, 10e9}}, none(), Algorithm::kSra, 1).value();
  };
  // The first of two steps is within them.
  const CallCost hosts = of_hosts({16 * 1024, 4, 2});
  EXPECT_DOUBLE_EQ(hosts.latency_seconds, 55e-6);
  EXPECT_DOUBLE_EQ(hosts.wire_seconds, 2 * 16 * 1024 / 125e6 + 16 * 1024 / 10e9);
  // Each of three sends to the three of the other host.
  const CallCost six = of_hosts({8 * 1024, 6, 3});
  EXPECT_DOUBLE_EQ(six.latency_seconds, 50e-6);
  EXPECT_DOUBLE_EQ(six.wire_seconds, 3 * 3 * 8 * 1024 / 125e6);
  EXPECT_EQ(six.wire_bytes, 5 * 8 * 1024u);
  const CallCost one_host = of_hosts({8 * 1024, 4, 4});
  EXPECT_DOUBLE_EQ(one_host.latency_seconds, 10e-6);
}

/// What a ring would take many latencies for is exchanged whole up to larger sizes.
TEST(CostModel, ManyRanksDoubleWhatIsSmall) {
  const CallCost power = predict({128 * 1024, 64}, none(), Algorithm::kRing);
  EXPECT_DOUBLE_EQ(power.latency_seconds, 6 * 50e-6);
  EXPECT_EQ(power.wire_bytes, 6 * 128 * 1024u);
  // One of 17 tells its neighbour before, and is told after: six waits, at most five messages.
  const CallCost other = predict({52 * 1024, 17}, none(), Algorithm::kRing);
  EXPECT_DOUBLE_EQ(other.latency_seconds, 6 * 50e-6);
  EXPECT_EQ(other.wire_bytes, 5 * 52 * 1024u);
  EXPECT_DOUBLE_EQ(predict({52 * 1024 + 4, 17}, none(), Algorithm::kRing).latency_seconds,
                   32 * 50e-6);
  EXPECT_DOUBLE_EQ(predict({1024, 1000}, none(), Algorithm::kRing).latency_seconds, 11 * 50e-6);
  // By sra less is saved.
  EXPECT_DOUBLE_EQ(predict({3 * 1024, 17}, none(), Algorithm::kSra).latency_seconds, 6 * 50e-6);
  EXPECT_DOUBLE_EQ(predict({52 * 1024, 17}, none(), Algorithm::kSra).latency_seconds, 2 * 50e-6);
}

/// What a calibration takes a call to send is what it is predicted to.
TEST(CostModel, WhatLeavesAHostIsWhatTheWireTakes) {
  for (const auto& [world, local] : {std::pair{2, 1}, {4, 1}, {4, 2}, {6, 3}, {24, 8}, {64, 8}}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{8192}, std::size_t{1} << 20}) {
      const CallShape shape{bytes, world, local};
      // Nothing inside hosts counts.
      const CallCost cost =
          tuner::predict_call(shape, {kLink, {0, 1e15}}, none(), Algorithm::kSra, 1).value();
      EXPECT_NEAR(tuner::leaving_bytes(bytes, world, local) / kLink.bytes_per_second,
                  cost.wire_seconds, 1e-6 * cost.wire_seconds)
          << bytes << " bytes, " << world << " ranks, " << local << " a host";
    }
  }
}

/// What a calibration divides a call by is what it is predicted to take.
TEST(CostModel, ExactCallsShowTheLatency) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{1} << 20}) {
    for (int world = 2; world <= 40; ++world) {
      const ExchangeSteps steps = tuner::exact_call_steps(bytes, world, 1);
      EXPECT_EQ(steps.inside, 0);
      EXPECT_DOUBLE_EQ(predict({bytes, world}, none(), Algorithm::kSra).latency_seconds,
                       steps.between * kLink.latency_seconds)
          << world;
    }
  }
  EXPECT_EQ(tuner::exact_call_steps(4, 8, 4).inside, 2);
  EXPECT_EQ(tuner::exact_call_steps(4, 8, 4).between, 1);
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
    return tuner::rank_calls(shape, {link, {}}, codecs).value().front().codec;
  };
  EXPECT_EQ(best({std::size_t{64} << 20, 4}, kLink), "small");
  EXPECT_EQ(best({std::size_t{64} << 20, 4}, {1e-6, 1e12}), "none");
  EXPECT_EQ(best({8, 4}, kLink), "none");
  const auto all = tuner::rank_calls({std::size_t{64} << 20, 4}, {kLink, {}}, codecs).value();
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

constexpr Links kHosts{{50e-6, 125e6}, {5e-6, 10e9}};

CallCost predict_among_hosts(CallShape shape, const CodecSpeed& codec, Algorithm algorithm) {
  shape.bytes = 8000000;
  return tuner::predict_call(shape, kHosts, codec, algorithm, 1).value();
}

/// 8 ranks on 2 hosts, whose links each carry what leaves them.
TEST(CostModel, RanksOfAHostShareItsLink) {
  const CallShape shape{0, 8, 4};
  // Each rank sends half of its 7/8, twice, to the other host: 4 * 2 * 4/8 of an eighth of 8 MB.
  const CallCost sra = predict_among_hosts(shape, small(), Algorithm::kSra);
  EXPECT_DOUBLE_EQ(sra.wire_seconds, 4e6 / 125e6);
  EXPECT_DOUBLE_EQ(sra.latency_seconds, 100e-6);
  EXPECT_EQ(sra.wire_bytes, 1750000u);
  // One rank's 2 * 7/8.
  const CallCost ring = predict_among_hosts(shape, small(), Algorithm::kRing);
  EXPECT_DOUBLE_EQ(ring.wire_seconds, 1.75e6 / 125e6);
  EXPECT_DOUBLE_EQ(ring.latency_seconds, 8 * 50e-6);
  // 2 * 1/2 of all of it between hosts; 2 * 3/4 uncompressed inside them.
  const CallCost hier = predict_among_hosts(shape, small(), Algorithm::kHier);
  EXPECT_DOUBLE_EQ(hier.wire_seconds, 1e6 / 125e6);
  EXPECT_DOUBLE_EQ(hier.inside_seconds, 12e6 / 10e9);
  EXPECT_DOUBLE_EQ(hier.latency_seconds, 2 * 50e-6 + 2 * 5e-6);
  EXPECT_EQ(hier.wire_bytes, 250000u + 12000000u);
  // A shard of 1 MB encoded, a hop, one decoded.
  EXPECT_DOUBLE_EQ(hier.codec_seconds, 3e-6 + 1e6 * (2e-10 + 4e-10 + 1e-10));
  EXPECT_DOUBLE_EQ(hier.seconds, hier.latency_seconds + hier.inside_seconds + hier.wire_seconds +
                                     hier.codec_seconds);
}

TEST(CostModel, OneHostHasOnlyLinksInside) {
  const CallCost cost = predict_among_hosts({0, 4, 4}, none(), Algorithm::kSra);
  EXPECT_DOUBLE_EQ(cost.wire_seconds, 12e6 / 10e9);
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 10e-6);
}

TEST(CostModel, HalvesAreHalfOfAnAllReduce) {
  for (const Algorithm algorithm : {Algorithm::kSra, Algorithm::kRing}) {
    const auto of = [&](CollectiveKind kind) {
      return predict_among_hosts({0, 8, 4, kind}, small(), algorithm);
    };
    const CallCost whole = of(CollectiveKind::kAllReduce);
    const CallCost first = of(CollectiveKind::kReduceScatter);
    const CallCost second = of(CollectiveKind::kAllGather);
    EXPECT_DOUBLE_EQ(first.wire_seconds, whole.wire_seconds / 2);
    EXPECT_DOUBLE_EQ(second.wire_seconds, whole.wire_seconds / 2);
    // Results of codecs that lose something go two ways only where sums did.
    const double longer = algorithm == Algorithm::kRing ? (7 - 4) * 50e-6 : 0;
    EXPECT_DOUBLE_EQ(first.latency_seconds + second.latency_seconds,
                     whole.latency_seconds + longer);
    // Alone, the second half encodes what a hop did.
    EXPECT_DOUBLE_EQ(first.codec_seconds + second.codec_seconds,
                     whole.codec_seconds + 1e-6 + 1e6 * 2e-10);
  }
}

/// Between hosts what a codec does is of their sums, each rank's of its part.
TEST(CostModel, HierTalksAndSumsAmongHosts) {
  CodecSpeed codec = small();
  codec.sum_ratio = 1;
  codec.hosts_sum_ratio = 0.25;
  codec.agreement = {4, 1, 0.01, {}};
  const CallShape shape{0, 8, 4};  // Of 8 MB.
  const CallCost hier = predict_among_hosts(shape, codec, Algorithm::kHier);
  // 1/2 of an eighth and of a quarter, and twice 1/2 of a hundredth.
  EXPECT_DOUBLE_EQ(hier.wire_seconds, (0.5e6 + 1e6 + 80000) / 125e6);
  EXPECT_EQ(hier.wire_bytes, (500000u + 1000000u + 80000u) / 4 + 12000000u + 4u);
  EXPECT_DOUBLE_EQ(hier.latency_seconds, (1 + 2 + 2) * 50e-6 + 2 * 5e-6);
  // And the sum of all 8 where each of them sends its own.
  const CallCost sra = predict_among_hosts(shape, codec, Algorithm::kSra);
  EXPECT_DOUBLE_EQ(sra.wire_seconds, 4 * (0.5e6 + 4e6 + 80000) / 125e6);
}

TEST(CostModel, ProjectionsAreNeverHierarchical) {
  CodecSpeed projecting = small();
  projecting.codec = "projecting";
  projecting.projection.rounds = 1;
  const std::vector<CallCost> ranked =
      tuner::rank_calls({8000000, 8, 4}, kHosts, {none(), projecting}).value();
  for (const CallCost& cost : ranked) {
    EXPECT_TRUE(cost.codec == "none" || cost.algorithm != Algorithm::kHier);
  }
  EXPECT_FALSE(
      tuner::predict_call({8000000, 8, 4}, kHosts, projecting, Algorithm::kHier, 1).is_ok());
}

/// Nobody looks at values that are not summed.
TEST(CostModel, AnAllGatherHasNoLookAtTheTensor) {
  CodecSpeed looking = small();
  looking.look = {1e-3, 1e-9};
  const CallShape gather{4000000, 4, 1, CollectiveKind::kAllGather};
  EXPECT_DOUBLE_EQ(predict(gather, looking, Algorithm::kSra).seconds,
                   predict(gather, small(), Algorithm::kSra).seconds);
}

TEST(CostModel, HierIsComparedWhereHostsHaveSeveralRanks) {
  const auto algorithms = [](const CallShape& shape) {
    std::set<Algorithm> found;
    const std::vector<CallCost> ranked = tuner::rank_calls(shape, kHosts, {none()}).value();
    for (const CallCost& cost : ranked) found.insert(cost.algorithm);
    return found.size();
  };
  EXPECT_EQ(algorithms({8000000, 8, 4}), 3u);
  EXPECT_EQ(algorithms({8000000, 8, 1}), 2u);
  EXPECT_EQ(algorithms({8000000, 8, 8}), 2u);
  EXPECT_EQ(algorithms({8000000, 8, 4, CollectiveKind::kReduceScatter}), 2u);
  EXPECT_EQ(tuner::rank_calls({64 << 20, 8, 4}, kHosts, {small()}).value().front().algorithm,
            Algorithm::kHier);
}

TEST(CostModel, SaysWhatIsWrong) {
  const auto refusal = [](const CallShape& shape, const LinkSpeed& link, Algorithm algorithm) {
    return tuner::predict_call(shape, {link, {}}, none(), algorithm, 1).status().message();
  };
  EXPECT_EQ(refusal({8, 0}, kLink, Algorithm::kSra), "there must be a rank at least");
  EXPECT_EQ(refusal({8, 2}, {0, 0}, Algorithm::kSra), "a link's rate must be a number above 0");
  EXPECT_EQ(refusal({8, 2}, {-1, 1}, Algorithm::kSra),
            "a link's latency must be a number from 0 on");
  EXPECT_EQ(refusal({8, 2}, kLink, Algorithm::kHier),
            "hier is for all-reduces among hosts of several ranks");
  EXPECT_EQ(refusal({8, 4, 3}, kLink, Algorithm::kSra), "4 ranks are not 3 to a host");
  EXPECT_EQ(refusal({8, 4, 2}, kLink, Algorithm::kSra), "a link's rate must be a number above 0")
      << "of the one inside";
  EXPECT_EQ(refusal({8, 4, 1, CollectiveKind::kBroadcast}, kLink, Algorithm::kSra),
            "broadcast has no model");
}

}  // namespace
}  // namespace ringpress
