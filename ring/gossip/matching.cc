// Who meets whom in a round of gossip: the ranks are shuffled, and neighbours in that order are a
// pair. Every matching is as likely as any other; with an odd number of ranks one stays alone.
#include <Random123/philox.h>

#include <numeric>
#include <utility>
#include <vector>

#include "ring/factory.h"

namespace ringpress::ring {
namespace {

/// A number below `bound`, for each of the draws of a round. Some come more often than others, by
/// less than bound / 2^32.
std::uint32_t draw(const Round& round, std::uint32_t number, std::uint32_t bound) {
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(round.number), static_cast<std::uint32_t>(round.number >> 32),
        number, 0}},
      {{static_cast<std::uint32_t>(round.seed), static_cast<std::uint32_t>(round.seed >> 32)}});
  return static_cast<std::uint32_t>(std::uint64_t{words[0]} * bound >> 32);
}

}  // namespace

int find_partner(const Round& round, int size, int rank) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    const auto bound = static_cast<std::uint32_t>(left);
    std::swap(order[left - 1], order[draw(round, bound, bound)]);
  }
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    if (order[i] == rank) return order[i + 1];
    if (order[i + 1] == rank) return order[i];
  }
  return -1;
}

}  // namespace ringpress::ring
