// Who does what in which stage of a ring whose partial sums come to a shard's owner from both sides
// (ring/collective/two_way_ring.cc says why). Whoever runs it by this sends the same frames.
#ifndef RINGPRESS_INTERNAL_TWO_WAY_SCHEDULE_H_
#define RINGPRESS_INTERNAL_TWO_WAY_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <span>

#include "ringpress/internal/ring_neighbours.h"

namespace ringpress {

/// Where a frame goes to. The opposite of where it comes from.
enum class Side : std::size_t { kRight = 0, kLeft = 1 };
inline constexpr std::array kSides = {Side::kRight, Side::kLeft};
constexpr Side opposite(Side side) {
  return side == Side::kRight ? Side::kLeft : Side::kRight;
}

/// Of one rank. Sums travel in the stages before middle(), in which the shard of this rank becomes
/// complete, and results after it.
class TwoWaySchedule {
 public:
  /// `order`: as RingNeighbours takes it.
  TwoWaySchedule(std::span<const int> order, std::size_t rank, std::size_t world,
                 bool scatters_only)
      : neighbours_(order, rank, world),
        rank_(rank),
        world_(world),
        middle_(world / 2),
        last_(scatters_only ? middle_ : 2 * middle_) {}

  std::size_t middle() const { return middle_; }
  std::size_t last() const { return last_; }
  std::size_t neighbour(Side side) const {
    return side == Side::kRight ? neighbours_.right(1) : neighbours_.left(1);
  }

  /// Ranks of whose values the owner gets a sum that travels to this side.
  std::size_t reach_of_sums(Side side) const {
    return side == Side::kRight ? middle_ : world_ - 1 - middle_;
  }
  /// Ranks that a result gets to which travels to this side.
  std::size_t reach_of_results(Side side) const { return world_ - 1 - reach_of_sums(side); }
  /// The stage in which sums set out.
  std::size_t first_stage(Side side) const { return middle_ - reach_of_sums(side); }

  /// Whether a stage sends something to a side that the neighbour's next stage works on.
  bool sends(std::size_t stage, Side side) const {
    if (stage >= last_) return false;
    return stage < middle_ ? stage >= first_stage(side) : stage - middle_ < reach_of_results(side);
  }
  /// Whether this rank works on something that travels to a side; not in the middle stage.
  bool is_busy(std::size_t stage, Side side) const {
    return sends(stage < middle_ ? stage : stage - 1, side);
  }
  /// The shard that this rank works on.
  std::size_t shard_in(std::size_t stage, Side side) const {
    if (stage == middle_) return rank_;
    const bool is_result = stage > middle_;
    const std::size_t distance = is_result ? stage - middle_ : middle_ - stage;
    // Sums have their owner before them, results behind them.
    const bool is_to_the_right = (side == Side::kRight) != is_result;
    return is_to_the_right ? neighbours_.right(distance) : neighbours_.left(distance);
  }
  /// Contributions that a frame sent in this stage is taken to hold.
  std::size_t summed_in(std::size_t stage, Side side) const {
    if (stage >= middle_) return world_;
    return stage + 1 == middle_ ? middle_ : stage - first_stage(side) + 1;
  }

  /// A number for what belongs to a stage and a side.
  static std::size_t row(std::size_t stage, Side side) {
    return 2 * stage + static_cast<std::size_t>(side);
  }

 private:
  RingNeighbours neighbours_;
  std::size_t rank_;
  std::size_t world_;
  std::size_t middle_;
  std::size_t last_;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_TWO_WAY_SCHEDULE_H_
