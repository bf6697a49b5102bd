// The algorithms by which calls go, a row each: the name, what it can do, and what a call by it
// costs. The planner, the cost model, the collectives and `ringpress explain` ask this table.
//
// A new one: an Algorithm (types.h), a row here, and a row with its runner in
// ring/collective/factory.cc and in nccl_plugin/interposer/comm/call_starter.cc (for streams).
// tests/examples/collective/ is one in small.
#ifndef RINGPRESS_INTERNAL_ALGORITHMS_H_
#define RINGPRESS_INTERNAL_ALGORITHMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "ringpress/internal/types.h"

namespace ringpress {

/// A call as the formulas of costs see it: p ranks, g to a host, on h = p / g hosts.
struct LoadRequest {
  double ranks = 1;
  double ranks_per_host = 1;
  bool requantises = false;  // Sums are encoded anew, and lose something each time.
  bool is_both = true;       // An all-reduce; else one half alone.

  constexpr double hosts() const { return ranks / ranks_per_host; }
};

/// What one half of a call costs one rank. Links and codecs give it a time.
struct Load {
  double stages = 0;         // Latencies, one after the other, of the link that waits longest.
  double inside_stages = 0;  // The same of links inside hosts, before or after those.
  // Over the bytes that the tensor has when encoded: what a rank sends, what all ranks of its host
  // send out of it, and what a rank sends within it.
  double sent = 0;
  double leaving = 0;
  double staying = 0;
  double exact_inside = 0;  // Over the tensor's own bytes: sent uncompressed within the host.
  // Shards, 1 / p of the tensor each, that are encoded; added to own values and encoded; decoded
  // and added besides; and decoded.
  double encoded = 0;
  double hops = 0;
  double added = 0;
  double decoded = 0;
};

struct AlgorithmTraits {
  Algorithm algorithm = Algorithm::kSra;
  const char* name = "";  // In settings, rules, statistics and tables.
  /// One mesh joins its ranks: ring/collective/ runs it. Else it is for streams alone, among
  /// several communicators of the real library.
  bool runs_on_mesh = false;
  /// Does reduce-scatters and all-gathers too, not all-reduces alone.
  bool has_halves = false;
  /// Exact inside hosts and encoded between them: for several hosts of several ranks each.
  bool is_hierarchical = false;
  /// Takes codecs that project whole tensors (ringpress/internal/projection.h).
  bool takes_projections = false;
  /// Parts of a tensor may have codecs of their own (CollectiveContext::parts).
  bool takes_parts = false;
  /// Small exact all-reduces are exchanged whole instead (ringpress/internal/whole_exchange.h).
  bool exchanges_small_whole = false;
  /// Ranks send to their neighbours alone, in an order that may be chosen: 2 (p - 1) latencies.
  /// Partial sums are encoded on the way, so the more ranks there are, the more is lost by codecs
  /// that requantise.
  bool goes_round = false;
  /// The first half of an all-reduce, or a reduce-scatter; the second one, or an all-gather.
  Load (*reduce_load)(const LoadRequest& call) = nullptr;
  Load (*gather_load)(const LoadRequest& call) = nullptr;
};

namespace algorithms {

/// To everybody: (p - g)/p of it leave the host, whose link all g ranks share.
constexpr Load straight_to_all(const LoadRequest& call) {
  const double p = call.ranks, g = call.ranks_per_host;
  Load load;
  load.stages = 1;
  load.sent = (p - 1) / p;
  load.leaving = g * (p - g) / p;
  load.staying = (g - 1) / p;
  return load;
}

/// Of what a rank gets of its own shard, the first addition is a hop.
constexpr Load sra_reduce(const LoadRequest& call) {
  Load load = straight_to_all(call);
  load.encoded = call.ranks - 1;
  load.hops = 1;
  load.added = call.ranks - 2;
  return load;
}

/// A hop has encoded the own shard where there was a first half.
constexpr Load sra_gather(const LoadRequest& call) {
  Load load = straight_to_all(call);
  load.encoded = call.is_both ? 0 : 1;
  load.decoded = call.ranks - 1;
  return load;
}

/// All of it to a neighbour; one rank's leaves the host.
constexpr Load once_round(const LoadRequest& call) {
  const double p = call.ranks;
  Load load;
  load.stages = p - 1;
  load.sent = (p - 1) / p;
  load.leaving = call.hosts() > 1 ? load.sent : 0;
  load.staying = call.ranks_per_host > 1 ? load.sent : 0;
  return load;
}

/// Where sums are encoded anew, two sides work at a time: a shard's partial sums, and its result,
/// pass p/2 stages.
constexpr double half_round(const LoadRequest& call) {
  return static_cast<double>(static_cast<std::int64_t>(call.ranks) / 2);
}

/// Each rank encodes the shard that begins with it, and does a hop for each of the others. From two
/// sides two shards begin with it (one with two ranks), and it adds up two partial sums of its own.
constexpr Load ring_reduce(const LoadRequest& call) {
  Load load = once_round(call);
  if (call.requantises) load.stages = half_round(call);
  load.encoded = call.requantises ? std::min(2.0, call.ranks - 1) : 1;
  load.hops = call.ranks - load.encoded;
  load.added = load.encoded - 1;
  return load;
}

constexpr Load ring_gather(const LoadRequest& call) {
  Load load = once_round(call);
  if (call.requantises && call.is_both) load.stages = half_round(call);
  load.encoded = call.is_both ? 0 : 1;
  load.decoded = call.ranks - 1;
  return load;
}

/// Exact sums within the host, (g - 1)/g of the tensor in each half, and between hosts sra of 1/g
/// of it.
constexpr Load among_hosts(const LoadRequest& call, Load (*load_of)(const LoadRequest&)) {
  const double g = call.ranks_per_host;
  Load load = load_of({call.hosts(), 1, call.requantises, call.is_both});
  load.inside_stages = 1;
  load.leaving = load.sent;
  load.sent /= g;
  load.staying = 0;
  load.exact_inside = (g - 1) / g;
  return load;
}
constexpr Load hier_reduce(const LoadRequest& call) {
  return among_hosts(call, sra_reduce);
}
constexpr Load hier_gather(const LoadRequest& call) {
  return among_hosts(call, sra_gather);
}

}  // namespace algorithms

/// In the order in which equal ones are preferred.
inline constexpr AlgorithmTraits kAlgorithms[] = {
    {.algorithm = Algorithm::kSra,
     .name = "sra",
     .runs_on_mesh = true,
     .has_halves = true,
     .takes_projections = true,
     .takes_parts = true,
     .exchanges_small_whole = true,
     .reduce_load = algorithms::sra_reduce,
     .gather_load = algorithms::sra_gather},
    {.algorithm = Algorithm::kRing,
     .name = "ring",
     .runs_on_mesh = true,
     .has_halves = true,
     .takes_projections = true,
     .exchanges_small_whole = true,
     .goes_round = true,
     .reduce_load = algorithms::ring_reduce,
     .gather_load = algorithms::ring_gather},
    {.algorithm = Algorithm::kHier,
     .name = "hier",
     .is_hierarchical = true,
     .reduce_load = algorithms::hier_reduce,
     .gather_load = algorithms::hier_gather},
};

static_assert(std::size(kAlgorithms) == kAlgorithmCount, "each Algorithm has a row here");

/// Null: it is none of them.
constexpr const AlgorithmTraits* find_algorithm(Algorithm algorithm) {
  const auto* const found = std::find_if(
      std::begin(kAlgorithms), std::end(kAlgorithms),
      [algorithm](const AlgorithmTraits& traits) { return traits.algorithm == algorithm; });
  return found == std::end(kAlgorithms) ? nullptr : found;
}

/// `algorithm` is one of the table.
constexpr const AlgorithmTraits& traits_of(Algorithm algorithm) {
  return *find_algorithm(algorithm);
}

constexpr const char* algorithm_name(Algorithm algorithm) {
  const AlgorithmTraits* const traits = find_algorithm(algorithm);
  return traits != nullptr ? traits->name : "unknown algorithm";
}

/// True of a number, as other ranks send them, that stands for one which a mesh runs.
constexpr bool runs_on_mesh(std::uint64_t number) {
  return std::any_of(
      std::begin(kAlgorithms), std::end(kAlgorithms), [number](const AlgorithmTraits& traits) {
        return traits.runs_on_mesh && static_cast<std::uint64_t>(traits.algorithm) == number;
      });
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_ALGORITHMS_H_
