// An algorithm in small: one-shot all-reduce. Each rank encodes its tensor, sends it to every other
// rank, and adds up what all have sent, in rank order. One latency and one quantisation, for
// (p - 1) times the bytes.
//
//   1. send    encode a chunk of own values and send it to all
//   2. reduce  decode what rank 0 sent and add what the others sent; own bytes are among them, so
//              all ranks end with identical values
//
// In ringpress itself kOneShot would be a value of Algorithm (types.h), kOneShotTraits a row of
// kAlgorithms (algorithms.h), and the class a file of ring/collective/ with a row in its
// factory.cc.
#ifndef TESTS_EXAMPLES_COLLECTIVE_ONE_SHOT_H_
#define TESTS_EXAMPLES_COLLECTIVE_ONE_SHOT_H_

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/collective.h"

namespace ringpress::examples {

inline constexpr auto kOneShot = static_cast<Algorithm>(100);

/// What a rank sends of the encoded tensor, and what its codec does with shards of 1 / p of it.
constexpr Load one_shot_reduce(const LoadRequest& call) {
  const double p = call.ranks, g = call.ranks_per_host;
  Load load;
  load.stages = 1;
  load.sent = p - 1;
  load.leaving = g * (p - g);
  load.staying = g - 1;
  load.encoded = p;
  load.decoded = p;
  load.added = p * (p - 1);
  return load;
}

/// All is done by then.
constexpr Load one_shot_gather(const LoadRequest&) {
  return {};
}

inline constexpr AlgorithmTraits kOneShotTraits = {.algorithm = kOneShot,
                                                   .name = "oneshot",
                                                   .runs_on_mesh = true,
                                                   .takes_projections = true,
                                                   .reduce_load = one_shot_reduce,
                                                   .gather_load = one_shot_gather};

class OneShot : public Collective {
 public:
  Algorithm algorithm() const override { return kOneShot; }
  Status all_reduce(const CollectiveContext& context, const AllReduceArgs& args) const override;
  /// Its row says that it has no halves: kUnsupported.
  Status reduce_scatter(const CollectiveContext& context,
                        const ReduceScatterArgs& args) const override;
  Status all_gather(const CollectiveContext& context, const AllGatherArgs& args) const override;
};

}  // namespace ringpress::examples

#endif  // TESTS_EXAMPLES_COLLECTIVE_ONE_SHOT_H_
