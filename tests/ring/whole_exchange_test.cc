#include "ringpress/internal/whole_exchange.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringpress {
namespace {

WholeExchange exchange(std::size_t bytes, Algorithm algorithm, int world, int ranks_per_host) {
  return whole_exchange_of({bytes, algorithm, world, ranks_per_host});
}

TEST(WholeExchange, LimitsByWorldHostsAndAlgorithm) {
  struct Limit {
    Algorithm algorithm;
    int world;
    int ranks_per_host;
    std::size_t bytes;
    WholeExchange below;
  };
  using enum WholeExchange;
  const std::vector<Limit> limits = {
      {Algorithm::kSra, 2, 1, 256 * 1024, kAtOnce},
      {Algorithm::kRing, 2, 2, 48 * 1024, kAtOnce},
      {Algorithm::kSra, 3, 1, 24 * 1024, kAtOnce},
      {Algorithm::kRing, 4, 1, 16 * 1024, kDoubling},
      {Algorithm::kSra, 16, 8, 48 * 1024 / 15, kDoubling},
      {Algorithm::kRing, 17, 1, 52 * 1024, kDoubling},
      {Algorithm::kSra, 17, 1, 48 * 1024 / 16, kDoubling},
      {Algorithm::kRing, 64, 1, 240 * 1024, kDoubling},
      {Algorithm::kRing, 64, 64, 240 * 1024, kDoubling},
      // A ring waits 16 times between 8 hosts and 110 times within them, doubling 3 times each.
      {Algorithm::kRing, 64, 8, 1024 * (8 * (16 - 3) + (110 - 3)) / (8 * 3 - 2), kDoubling},
      {Algorithm::kSra, 64, 8, 48 * 1024 / 63, kDoubling},
      {Algorithm::kRing, 17, 0, 48 * 1024 / 16, kDoubling},
      {Algorithm::kRing, 1000, 1, 8 * 1024 * (1998 - 11) / 9, kDoubling},
  };
  for (const Limit& limit : limits) {
    const auto at = [&limit](std::size_t bytes) {
      return exchange(bytes, limit.algorithm, limit.world, limit.ranks_per_host);
    };
    EXPECT_EQ(at(0), limit.below) << limit.world;
    EXPECT_EQ(at(limit.bytes), limit.below) << limit.world << " of " << limit.ranks_per_host;
    EXPECT_EQ(at(limit.bytes + 1), kNone) << limit.world << " of " << limit.ranks_per_host;
  }
  EXPECT_EQ(exchange(std::size_t{1} << 40, Algorithm::kRing, 1, 1), kAtOnce) << "nobody to send to";
}

TEST(WholeExchange, EveryRankHasAPlaceOrANeighbourWithOne) {
  for (int world = 2; world <= 70; ++world) {
    const RecursiveDoubling doubling(world);
    std::vector<int> ranks;
    for (int rank = 0; rank < world; ++rank) {
      if (doubling.is_left_out(rank)) {
        EXPECT_FALSE(doubling.is_left_out(rank - 1)) << world;
        EXPECT_TRUE(doubling.is_paired(rank - 1)) << world;
        continue;
      }
      EXPECT_EQ(doubling.place_of(rank), static_cast<int>(ranks.size()));
      EXPECT_EQ(doubling.rank_at(doubling.place_of(rank)), rank);
      ranks.push_back(rank);
    }
    EXPECT_EQ(static_cast<int>(ranks.size()), doubling.places());
  }
}

/// As counted by going through all exchanges.
TEST(WholeExchange, StepsBetweenHostsAreThoseThatCrossOne) {
  for (int world = 2; world <= 70; ++world) {
    for (int local = 1; local <= world; ++local) {
      if (world % local != 0) continue;
      const RecursiveDoubling doubling(world);
      ExchangeSteps counted;
      const auto count = [&counted](bool crosses, int steps) {
        (crosses ? counted.between : counted.inside) += steps;
      };
      bool crosses = false;
      for (int pair = 0; pair < doubling.pairs(); ++pair) {
        crosses = crosses || 2 * pair / local != (2 * pair + 1) / local;
      }
      if (doubling.pairs() > 0) count(crosses, 2);
      for (int bit = 1; bit < doubling.places(); bit *= 2) {
        crosses = false;
        for (int place = 0; place < doubling.places(); ++place) {
          const int one = doubling.rank_at(place), other = doubling.rank_at(place ^ bit);
          crosses = crosses || one / local != other / local;
        }
        count(crosses, 1);
      }
      const ExchangeSteps steps = doubling_steps(world, local);
      EXPECT_EQ(steps.total(), counted.total());
      // What may stay inside is not always seen to, of ranks that are no power of two.
      EXPECT_GE(steps.between, counted.between) << world << " of " << local;
      if (doubling.pairs() == 0) {
        EXPECT_EQ(steps.between, counted.between) << world << " of " << local;
      }
    }
  }
  EXPECT_EQ(doubling_steps(24, 8).between, 2);
  EXPECT_EQ(doubling_steps(24, 8).inside, 4);
}

}  // namespace
}  // namespace ringpress
