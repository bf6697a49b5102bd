// When a small uncompressed all-reduce exchanges whole tensors, so that latency counts and bytes
// do not: what the collectives do and what the cost model predicts.
#ifndef RINGPRESS_WHOLE_EXCHANGE_H_
#define RINGPRESS_WHOLE_EXCHANGE_H_

#include <algorithm>
#include <bit>
#include <cstddef>

namespace ringpress {

/// Ranks up to which sra's two latencies, each of a message to everybody, are what a larger exact
/// call takes instead. Above it is a ring's 2 (N - 1), of one message each.
inline constexpr int kLargestExactSraWorld = 16;

enum class WholeExchange {
  kNone,
  /// Each rank sends its tensor to every other rank and adds all of them in rank order.
  kAtOnce,
  /// In step s each of 2^k ranks exchanges the sum that it has so far with the one whose number
  /// differs in bit s. Of the ranks beyond 2^k each tells its neighbour before, and is told after.
  kDoubling,
};

/// Of `world` ranks, 1 or more: those that double.
constexpr int doubling_ranks(int world) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(world)));
}

/// How often a rank waits for another when `world` ranks double: latencies, and messages at most.
constexpr int doubling_steps(int world) {
  const int ranks = doubling_ranks(world);
  return std::countr_zero(static_cast<unsigned>(ranks)) + (ranks < world ? 2 : 0);
}

/// How `world` ranks, 1 or more, add up tensors of `bytes` bytes each. `are_two_hosts`: they are
/// two, on different hosts. Depends on values that are equal on all ranks.
constexpr WholeExchange whole_exchange_of(std::size_t bytes, int world, bool are_two_hosts) {
  // Bytes that a rank may send in an exchange; above, the second latency of sra costs less.
  constexpr std::size_t kMost = 48 * 1024;
  // Two ranks send the same bytes in either way, so until the additional sums cost more than the
  // saved latency, the exchange wins. On one host sums cost as much as messages.
  constexpr std::size_t kMostOfPair = 256 * 1024;
  // What a link carries in a latency: 10 Gb/s in 7 us, 1 Gb/s in 66.
  constexpr std::size_t kLatencyBytes = 8 * 1024;
  const auto others = static_cast<std::size_t>(std::max(1, world - 1));
  const bool is_small = bytes <= (are_two_hosts ? kMostOfPair : kMost) / others;
  if (world <= 2) return is_small ? WholeExchange::kAtOnce : WholeExchange::kNone;
  if (world <= kLargestExactSraWorld) {
    if (!is_small) return WholeExchange::kNone;
    const bool all_double = doubling_ranks(world) == world;
    return all_double ? WholeExchange::kDoubling : WholeExchange::kAtOnce;
  }
  // A ring takes 2 (N - 1) latencies and sends what two steps do.
  const auto steps = static_cast<std::size_t>(doubling_steps(world));
  const bool beats_ring = bytes <= kLatencyBytes * (2 * others - steps) / (steps - 2);
  return beats_ring ? WholeExchange::kDoubling : WholeExchange::kNone;
}

}  // namespace ringpress

#endif  // RINGPRESS_WHOLE_EXCHANGE_H_
