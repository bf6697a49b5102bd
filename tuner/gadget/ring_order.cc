#include "ringpress/internal/ring_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ringpress {
namespace {

/// The part of a place that is `depth` names long, or all of it.
Place group_of(const Place& place, std::size_t depth) {
  const std::size_t names = std::min(depth, place.size());
  return Place(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(names));
}

std::size_t deepest(const std::vector<Place>& places) {
  std::size_t depth = 0;
  for (const Place& place : places) depth = std::max(depth, place.size());
  return depth;
}

}  // namespace

std::vector<int> ring_order(const std::vector<Place>& places) {
  std::map<Place, std::size_t> lowest;  // Rank of each group.
  std::vector<std::vector<std::size_t>> keys(places.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    for (std::size_t depth = 1; depth <= places[rank].size(); ++depth) {
      const auto group = lowest.emplace(group_of(places[rank], depth), rank).first;
      keys[rank].push_back(group->second);
    }
    keys[rank].push_back(rank);
  }
  std::vector<int> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
  });
  return order;
}

std::size_t crossings(const std::vector<Place>& places, const std::vector<int>& order) {
  std::size_t sum = 0;
  for (std::size_t depth = 1; depth <= deepest(places); ++depth) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Place& from = places[static_cast<std::size_t>(order[i])];
      const Place& to = places[static_cast<std::size_t>(order[(i + 1) % order.size()])];
      if (from.size() >= depth && group_of(from, depth) != group_of(to, depth)) ++sum;
    }
  }
  return sum;
}

}  // namespace ringpress
