// What rings of a slot could still gain at most, whatever their places: a bound for a search of
// their sizes.
#ifndef TUNER_GADGET_SIZE_BOUNDS_H_
#define TUNER_GADGET_SIZE_BOUNDS_H_

#include <cstddef>
#include <vector>

#include "ringpress/internal/gadget.h"
#include "tuner/gadget/packing.h"

namespace ringpress::gadget {

/// What a bid could get.
struct RingOption {
  Choice choice;
  Demand demand;
  double gain = 0;
  std::vector<std::size_t> parts;  // Of each measure, rounded down.
};
/// A bid with all that it could get, the largest gain first. Of options of which one gains at
/// most as much as another one and needs as much or more there is only the other one.
struct RingCandidate {
  std::size_t bid = 0;
  std::vector<RingOption> options;
};
/// Measures of what the cluster has: each resource, and the mean of each two, as what uses much of
/// both is held by the mean. Counted in kParts of all that there is.
class SizeBounds {
 public:
  explicit SizeBounds(const Cluster& cluster);

  /// What so many workers take of each measure, rounded down.
  std::vector<std::size_t> parts_of(const Amounts& worker, std::size_t workers) const;
  /// The search begins: nothing is taken of what these could get.
  void begin(const std::vector<RingCandidate>& candidates);
  bool has_room(const RingOption& option) const;
  void take(const RingOption& option);
  void give_back(const RingOption& option);
  /// Beside what is taken, of candidates from `at` on.
  double most_of_rest(std::size_t at) const;

 private:
  struct Measure {
    std::vector<double> weights;  // Parts of one unit of each resource.
    // [i][n]: what candidates from i on could gain with n parts, wherever these are.
    std::vector<std::vector<double>> most;
    std::size_t left = 0;  // Parts.
  };
  static constexpr std::size_t kParts = 256;

  std::vector<Measure> measures_;
};

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_SIZE_BOUNDS_H_
