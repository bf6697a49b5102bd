// Small uncompressed all-reduce: everybody sends everything to everybody, one latency in all.
#ifndef RING_COLLECTIVE_DIRECT_H_
#define RING_COLLECTIVE_DIRECT_H_

#include <cstddef>

#include "ringpress/collective.h"

namespace ringpress::ring {

/// True if an all-reduce of `count` elements is faster in one exchange of whole tensors than in the
/// two of sra or the 2 (N - 1) of a ring. Depends on values that are equal on all ranks.
bool exchanges_whole(const CollectiveContext& context, std::size_t count);

/// Each rank adds all contributions in rank order, so all get the same bits. Identity codecs only.
Status all_reduce_whole(const CollectiveContext& context, const AllReduceArgs& args);

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_DIRECT_H_
