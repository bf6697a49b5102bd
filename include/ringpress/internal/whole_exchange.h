// When a small uncompressed all-reduce exchanges whole tensors, so that latency counts and bytes
// do not: what the collectives do and what the cost model predicts.
#ifndef RINGPRESS_INTERNAL_WHOLE_EXCHANGE_H_
#define RINGPRESS_INTERNAL_WHOLE_EXCHANGE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// Ranks up to which exact calls go by sra, in two latencies and a message to everybody in each.
/// Above it they go round a ring, in 2 (N - 1) latencies of one message, unless the user says
/// otherwise.
inline constexpr int kLargestExactSraWorld = 16;

enum class WholeExchange {
  kNone,
  /// Each rank sends its tensor to every other rank and adds all of them in rank order.
  kAtOnce,
  /// In step s each of 2^k places exchanges the sum that it has so far with the one whose number
  /// differs in bit s. Where there are more ranks (RecursiveDoubling), some tell their neighbour
  /// what they have before, and are told the sum after.
  kDoubling,
};

/// Who doubles. Of the first 2 (N - 2^k) ranks, two and two, the first has a place and the second
/// none; of the others each has one. Places are in the order of ranks.
class RecursiveDoubling {
 public:
  constexpr explicit RecursiveDoubling(int world)
      : places_(static_cast<int>(std::bit_floor(static_cast<unsigned>(world)))),
        pairs_(world - places_) {}

  constexpr int places() const { return places_; }
  constexpr int pairs() const { return pairs_; }
  constexpr int exchanges() const { return std::countr_zero(static_cast<unsigned>(places_)); }
  constexpr bool is_paired(int rank) const { return rank < 2 * pairs_; }
  constexpr bool is_left_out(int rank) const { return is_paired(rank) && rank % 2 == 1; }
  /// Of a rank that is not left out.
  constexpr int place_of(int rank) const { return is_paired(rank) ? rank / 2 : rank - pairs_; }
  constexpr int rank_at(int place) const { return place < pairs_ ? 2 * place : place + pairs_; }
  /// That one rank sends at most, and gets; of what it gets it adds all.
  constexpr int messages() const { return exchanges() + (pairs_ > 0 ? 1 : 0); }

 private:
  int places_;
  int pairs_;
};

/// How often one rank waits for another, between hosts and within them.
struct ExchangeSteps {
  int between = 0;
  int inside = 0;

  constexpr int total() const { return between + inside; }
};

/// Of ranks that double, on hosts of so many ranks each, numbered host by host. `world` is a
/// multiple of `ranks_per_host`, both 1 or more.
constexpr ExchangeSteps doubling_steps(int world, int ranks_per_host) {
  const RecursiveDoubling doubling(world);
  const int pair_steps = doubling.pairs() > 0 ? 2 : 0;
  if (ranks_per_host == world) return {0, doubling.exchanges() + pair_steps};
  ExchangeSteps steps;
  (ranks_per_host % 2 == 0 ? steps.inside : steps.between) += pair_steps;
  // So many places beside each other sum up among themselves; of pairs that is twice the ranks.
  for (int block = 2; block <= doubling.places(); block *= 2) {
    const int ranks = doubling.pairs() > 0 ? 2 * block : block;
    const bool is_inside = ranks_per_host % ranks == 0 && doubling.pairs() % block == 0;
    ++(is_inside ? steps.inside : steps.between);
  }
  return steps;
}

/// An uncompressed all-reduce. Everything is equal on all ranks.
struct ExchangeShape {
  std::size_t bytes = 0;                  // Of the tensor.
  Algorithm algorithm = Algorithm::kSra;  // That it goes by if it is not exchanged whole.
  int world = 1;
  int ranks_per_host = 1;  // As Mesh has it: 0 if hosts are not alike.
};

/// Bytes of the largest tensor that `world` ranks, more than 4, on hosts of so many each, double
/// rather than send it round a ring: estimated, as what links can do is not known here.
constexpr std::size_t largest_doubled_bytes(int world, int ranks_per_host) {
  // What a link carries in a latency: 10 Gb/s in 7 us, 1 Gb/s in 66; and, where hosts have several
  // ranks, in one of those within them.
  constexpr std::int64_t kLatencyBytes = 8 * 1024;
  constexpr std::int64_t kInsideLatencyBytes = 1024;
  const ExchangeSteps steps = doubling_steps(world, ranks_per_host);
  const std::int64_t ring_steps = 2 * (std::int64_t{world} - 1);
  if (ranks_per_host == world || ranks_per_host == 1) {  // One kind of link, a ring's two tensors.
    return static_cast<std::size_t>(kLatencyBytes * (ring_steps - steps.total()) /
                                    (steps.total() - 2));
  }
  // Once round is one wait between hosts a host. All of its ranks share a link when they double.
  const std::int64_t hosts = world / ranks_per_host;
  const std::int64_t ring_between = std::min(ring_steps, 2 * hosts);
  const std::int64_t saved = kLatencyBytes * (ring_between - steps.between) +
                             kInsideLatencyBytes * (ring_steps - ring_between - steps.inside);
  const std::int64_t more = std::int64_t{ranks_per_host} * steps.between - 2;
  return static_cast<std::size_t>(std::max<std::int64_t>(0, saved) /
                                  std::max<std::int64_t>(1, more));
}

constexpr WholeExchange whole_exchange_of(const ExchangeShape& shape) {
  // Bytes that a rank may send in an exchange; above, the second latency of sra costs less.
  constexpr std::size_t kMost = 48 * 1024;
  // Two ranks send the same bytes in either way, so until the additional sums cost more than the
  // saved latency, the exchange wins. On one host sums cost as much as messages.
  constexpr std::size_t kMostOfPair = 256 * 1024;
  if (shape.world == 1) return WholeExchange::kAtOnce;
  const bool are_two_hosts = shape.world == 2 && shape.ranks_per_host == 1;
  const auto others = static_cast<std::size_t>(shape.world - 1);
  bool is_small = shape.bytes <= (are_two_hosts ? kMostOfPair : kMost) / others;
  const bool is_large_world = shape.world > kLargestExactSraWorld;
  if (is_large_world && traits_of(shape.algorithm).goes_round && shape.ranks_per_host > 0) {
    is_small = is_small || shape.bytes <= largest_doubled_bytes(shape.world, shape.ranks_per_host);
  }
  if (!is_small) return WholeExchange::kNone;
  // To so many, messages take longer than the latencies that they save.
  if (is_large_world) return WholeExchange::kDoubling;
  const bool all_double = shape.world > 2 && RecursiveDoubling(shape.world).pairs() == 0;
  return all_double ? WholeExchange::kDoubling : WholeExchange::kAtOnce;
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_WHOLE_EXCHANGE_H_
