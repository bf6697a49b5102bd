// What steps cost: the usual formulas of latency and bandwidth, as plain functions. All times are
// in seconds, all sizes in bytes; those are not whole, since parts of tensors are not.
//
// Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
// 2005; the compressed forms carry `bytes` that are compressed already.
#ifndef TUNER_ESPRESSO_COST_H_
#define TUNER_ESPRESSO_COST_H_

#include <array>
#include <vector>

#include "ringpress/internal/espresso.h"

namespace ringpress::espresso {

/// The link that one rank of a collective sees, and how many ranks there are.
struct Network {
  double ranks = 1;
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

/// 2 (p - 1) latencies, 2 (p - 1) / p of the bytes.
double ring_all_reduce_seconds(const Network& network, double bytes);

/// p - 1 latencies, (p - 1) / p of `bytes`, which are those of the whole vector: a reduce-scatter,
/// an all-gather of parts, an all-to-all.
double scatter_seconds(const Network& network, double bytes);

/// p - 1 latencies, p - 1 times the bytes: every rank, or a root, gets a whole vector of each
/// other.
double gather_whole_seconds(const Network& network, double bytes);

/// log2(p) latencies, the bytes once: a reduce, a broadcast.
double tree_seconds(const Network& network, double bytes);

double codec_seconds(const CodecCost& cost, double bytes);

/// The ranks of a phase and the link that one of them sees if it has that alone: neighbours in a
/// ring that enters and leaves each machine once, a tree.
Network network_of(const Cluster& cluster, Phase phase);

/// How many times slower a machine's card is to one GPU if all ranks send straight to each other:
/// (p - k) of the p - 1 parts that each of k GPUs sends pass the card. 1 with a single machine.
double card_load(const Cluster& cluster);

/// A piece of work for a resource: what a step of an option comes to for one size.
struct Task {
  Resource resource = Resource::kWire;
  double seconds = 0;
  std::size_t step = 0;
};

/// One after the other. Steps that take no time (collectives of one rank) are left out.
struct Chain {
  std::vector<Task> tasks;  // And one on kCompute behind them, which ends the chain.
  std::array<double, kLaneCount> seconds = {};  // Of each resource, summed.

  double total() const { return seconds[0] + seconds[1] + seconds[2]; }
};

/// The option's work for a tensor, all codecs on `device`.
Chain price(const Option& option, Device device, const Tensor& tensor, const Job& job);

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_COST_H_
