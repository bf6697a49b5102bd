// Scatter-reduce-allgather: two quantisations whatever the number of ranks.
#ifndef RING_COLLECTIVE_SRA_H_
#define RING_COLLECTIVE_SRA_H_

#include "ringpress/internal/collective.h"

namespace ringpress::ring {

class ScatterReduceAllGather : public Collective {
 public:
  Algorithm algorithm() const override { return Algorithm::kSra; }
  Status all_reduce(const CollectiveContext& context, const AllReduceArgs& args) const override;
  Status reduce_scatter(const CollectiveContext& context,
                        const ReduceScatterArgs& args) const override;
  Status all_gather(const CollectiveContext& context, const AllGatherArgs& args) const override;
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_SRA_H_
