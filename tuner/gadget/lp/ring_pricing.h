// The ring that gains most at given prices of GPUs and links: the pricing step of column
// generation.
//
// A ring of k workers is a path of k layers over the tree of servers and racks, and its cheapest
// embedding a shortest path through them: servers of a rack one after the other, then racks, each
// with the number of workers so far. Exact.
#ifndef TUNER_GADGET_LP_RING_PRICING_H_
#define TUNER_GADGET_LP_RING_PRICING_H_

#include <array>
#include <cstddef>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

/// Of one unit of each, none below 0.
struct Prices {
  std::vector<std::array<double, kMostResources>> servers;
  std::vector<double> server_links, rack_links;  // Of a bit per second.
};

/// A ring that a bid may have, and what it gains.
struct PricedRing {
  Ring ring;
  double gain = 0;
  double price = 0;

  bool is_there() const { return !ring.shares.empty(); }
};

/// The ring with the largest gain less price, of so many workers, or of any number (0), at either
/// rate where the bid has the choice. None if no
/// number of workers fits into the empty cluster.
PricedRing best_ring(const Cluster& cluster, const std::vector<Bid>& bids, std::size_t bid,
                     std::size_t workers, const Prices& prices);

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_LP_RING_PRICING_H_
