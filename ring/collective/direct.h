// Small uncompressed all-reduce: whole tensors are exchanged, so latency counts and bytes do not.
#ifndef RING_COLLECTIVE_DIRECT_H_
#define RING_COLLECTIVE_DIRECT_H_

#include <cstddef>

#include "ringpress/internal/collective.h"

namespace ringpress::ring {

/// True if an all-reduce of `count` elements is faster in exchanges of whole tensors than in the
/// two steps of sra or the 2 (N - 1) of a ring. Depends on values that are equal on all ranks.
bool exchanges_whole(const CollectiveContext& context, std::size_t count);

/// Identity codecs only. All ranks add in the same fixed order and get the same bits.
Status all_reduce_whole(const CollectiveContext& context, const AllReduceArgs& args);

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_DIRECT_H_
