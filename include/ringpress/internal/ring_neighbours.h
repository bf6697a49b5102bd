// Who is next to whom in a ring.
#ifndef RINGPRESS_INTERNAL_RING_NEIGHBOURS_H_
#define RINGPRESS_INTERNAL_RING_NEIGHBOURS_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace ringpress {

/// The ring as one rank sees it. Without an order ranks follow each other by number.
class RingNeighbours {
 public:
  /// `order`: the ranks as the ring visits them, each once, or empty; must outlive this object.
  RingNeighbours(std::span<const int> order, std::size_t rank, std::size_t world)
      : order_(order), world_(world), own_(rank) {
    if (order.empty()) return;
    const auto at = std::find(order.begin(), order.end(), static_cast<int>(rank));
    own_ = static_cast<std::size_t>(at - order.begin());
  }

  /// The rank so many places to the right, less than twice round.
  std::size_t right(std::size_t distance) const { return rank_at(own_ + distance); }
  /// The rank so many places to the left, at most twice round.
  std::size_t left(std::size_t distance) const { return rank_at(own_ + 2 * world_ - distance); }

 private:
  std::size_t rank_at(std::size_t place) const {
    place %= world_;
    return order_.empty() ? place : static_cast<std::size_t>(order_[place]);
  }

  std::span<const int> order_;
  std::size_t world_;
  std::size_t own_;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_RING_NEIGHBOURS_H_
