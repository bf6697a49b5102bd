// The ring: each rank talks to its two neighbours only.
#ifndef RING_COLLECTIVE_RING_H_
#define RING_COLLECTIVE_RING_H_

#include <utility>
#include <vector>

#include "ringpress/internal/collective.h"

namespace ringpress::ring {

class Ring : public Collective {
 public:
  /// `order`: as of make_collective().
  explicit Ring(std::vector<int> order) : order_(std::move(order)) {}

  Algorithm algorithm() const override { return Algorithm::kRing; }
  Status all_reduce(const CollectiveContext& context, const AllReduceArgs& args) const override;
  Status reduce_scatter(const CollectiveContext& context,
                        const ReduceScatterArgs& args) const override;
  Status all_gather(const CollectiveContext& context, const AllGatherArgs& args) const override;

 private:
  const std::vector<int> order_;
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_RING_H_
