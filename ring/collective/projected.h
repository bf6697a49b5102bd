// All-reduce of a projection of the tensor, for codecs that have one
// (ringpress/internal/projection.h).
//
//   1. tags      each rank sends each other rank a tag of what it knows besides the values: the
//                state that it has kept and the layers. What differs anywhere is not used anywhere
//   2. rounds    project; all-reduce the projected values by ring or sra with the inner codec
//   3. finish    write result, residual and state
#ifndef RING_COLLECTIVE_PROJECTED_H_
#define RING_COLLECTIVE_PROJECTED_H_

#include "ringpress/internal/collective.h"

namespace ringpress::ring {

/// `inner` sums the projected values.
Status all_reduce_projected(const Collective& inner, const CollectiveContext& context,
                            const AllReduceArgs& args);

/// Halves of an all-reduce cannot go by projections: their chunks have no place in a whole.
Status check_no_projection(const CollectiveContext& context);

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_PROJECTED_H_
