// The ring for codecs that requantise: partial sums come to a shard's owner from both sides.
#ifndef RING_COLLECTIVE_TWO_WAY_RING_H_
#define RING_COLLECTIVE_TWO_WAY_RING_H_

#include <span>

#include "ringpress/internal/collective.h"

namespace ringpress::ring {

/// True for codecs whose partial sums lose something at each hop.
inline bool goes_two_ways(const Codec& codec) {
  const CodecTraits& traits = codec.traits();
  return !traits.identity && !traits.lossless && !traits.summable;
}

/// The codec must be one that goes two ways, and have no projection. `order`: as of
/// make_collective().
Status all_reduce_two_ways(const CollectiveContext& context, const AllReduceArgs& args,
                           std::span<const int> order);
Status reduce_scatter_two_ways(const CollectiveContext& context, const ReduceScatterArgs& args,
                               std::span<const int> order);

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_TWO_WAY_RING_H_
