#include "ringpress/internal/ring_order.h"

#include <algorithm>
#include <numeric>

namespace ringpress {
namespace {

/// The part of a location that is `depth` names long, or all of it.
Location group_of(const Location& location, std::size_t depth) {
  const std::size_t names = std::min(depth, location.size());
  return Location(location.begin(), location.begin() + static_cast<std::ptrdiff_t>(names));
}

std::size_t deepest(const std::vector<Location>& locations) {
  std::size_t depth = 0;
  for (const Location& location : locations) depth = std::max(depth, location.size());
  return depth;
}

}  // namespace

std::vector<int> ring_order(const std::vector<Location>& locations) {
  std::map<Location, std::size_t> lowest;  // Rank of each group.
  std::vector<std::vector<std::size_t>> keys(locations.size());
  for (std::size_t rank = 0; rank < locations.size(); ++rank) {
    for (std::size_t depth = 1; depth <= locations[rank].size(); ++depth) {
      const auto group = lowest.emplace(group_of(locations[rank], depth), rank).first;
      keys[rank].push_back(group->second);
    }
    keys[rank].push_back(rank);
  }
  std::vector<int> order(locations.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
  });
  return order;
}

std::size_t crossings(const std::vector<Location>& locations, const std::vector<int>& order) {
  std::size_t sum = 0;
  for (std::size_t depth = 1; depth <= deepest(locations); ++depth) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Location& from = locations[static_cast<std::size_t>(order[i])];
      const Location& to = locations[static_cast<std::size_t>(order[(i + 1) % order.size()])];
      if (from.size() >= depth && group_of(from, depth) != group_of(to, depth)) ++sum;
    }
  }
  return sum;
}

}  // namespace ringpress
