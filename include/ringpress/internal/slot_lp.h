// The linear programme of a slot (GADGET, INFOCOM 2022, algorithm 2): what the fast solver is
// checked against. In builds that found COIN-OR's Clp.
#ifndef RINGPRESS_INTERNAL_SLOT_LP_H_
#define RINGPRESS_INTERNAL_SLOT_LP_H_

#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

struct LpSlot {
  std::vector<Ring> rings;
  double bound = 0;        // No rings of the slot gain more: the optimum of the relaxed programme.
  bool is_in_time = true;  // Else there are no rings and no bound.
};

// Clusters of thousands of servers would take hours.
inline constexpr double kLpSeconds = 60;

/// A variable is a job's ring at one place, made when its price is right (ring_pricing.h). Sizes
/// are fixed by the relaxed optimum, as in the paper; then rings of these sizes, of which rounds of
/// random draws are made by what the second optimum has of each; draws that do not fit are left
/// out, so that, other than in the paper, no capacity is exceeded. The best of the rounds is taken,
/// the same each time. Gives up after about so many seconds.
LpSlot solve_slot_lp(const Cluster& cluster, const std::vector<Bid>& bids,
                     double seconds = kLpSeconds);

}  // namespace ringpress::gadget

#endif  // RINGPRESS_INTERNAL_SLOT_LP_H_
