// Random clusters and bids for tests and figures: the ranges of the paper's experiment (INFOCOM
// 2022), with links that are narrow enough to matter.
#ifndef PERF_GADGET_RANDOM_SLOT_H_
#define PERF_GADGET_RANDOM_SLOT_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::perf {

struct SlotShape {
  std::size_t servers = 4;
  std::size_t racks = 2;
  std::size_t jobs = 5;
  std::size_t most_workers = 5;
  gadget::UtilityKind utility = gadget::UtilityKind::kSqrt;
  /// Of a server's uplink over the largest rate of one ring. Racks have four times that.
  double narrowest_link = 0.5, widest_link = 3;
  bool may_resize = true;  // Else a job has all its workers or none.
};

struct RandomSlot {
  gadget::Cluster cluster;
  std::vector<gadget::Bid> bids;
};

inline constexpr std::uint64_t kLargestRingRate = 5'000'000'000;  // Bits per second.

/// Equal on every machine: distributions of the standard library are not.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}

  /// From `least` to below `most`.
  double real(double least, double most) {
    return least + (most - least) * static_cast<double>(bits_() >> 11) * 0x1p-53;
  }
  /// From `least` to `most`.
  std::size_t whole(std::size_t least, std::size_t most) {
    return least + bits_() % (most - least + 1);
  }

 private:
  std::mt19937_64 bits_;
};

/// Servers of 1, 2, 4 or 8 GPUs; rack after rack gets one.
inline gadget::Cluster random_cluster(const SlotShape& shape, Draw* draw) {
  gadget::Cluster cluster;
  cluster.resources = {"gpus"};
  const auto rate = [&](double scale) {
    const double links = scale * draw->real(shape.narrowest_link, shape.widest_link);
    return static_cast<std::uint64_t>(links * static_cast<double>(kLargestRingRate));
  };
  for (std::size_t i = 0; i < shape.racks; ++i) {
    cluster.racks.push_back({"rack" + std::to_string(i), rate(4)});
  }
  for (std::size_t i = 0; i < shape.servers; ++i) {
    const std::uint64_t gpus = std::uint64_t{1} << draw->whole(0, 3);
    cluster.servers.push_back({"server" + std::to_string(i), i % shape.racks, {gpus}, rate(1)});
  }
  return cluster;
}

inline gadget::Utility random_utility(gadget::UtilityKind kind, Draw* draw) {
  using gadget::UtilityKind;
  gadget::Utility utility;
  utility.kind = kind;
  utility.scale = draw->real(1, 100);
  utility.steepness = draw->real(0.001, 0.02);
  utility.midpoint = draw->real(300, 3000);
  // The best number of iterations: 1500 to 6000.
  utility.cost = utility.scale / draw->real(3000, 12000);
  return utility;
}

/// Jobs that have run for a while.
inline gadget::Bid random_bid(const SlotShape& shape, Draw* draw) {
  gadget::Bid bid;
  bid.demand.worker = {draw->whole(1, 2)};
  bid.demand.ring_bits_per_second =
      static_cast<std::uint64_t>(draw->real(0.02, 1) * static_cast<double>(kLargestRingRate));
  const gadget::Utility utility = random_utility(shape.utility, draw);
  const double iterations = draw->real(50, 500);
  const auto before = static_cast<double>(draw->whole(0, 10));
  const std::size_t most = draw->whole(1, shape.most_workers);
  for (std::size_t workers = 1; workers <= most; ++workers) {
    const double after = before + static_cast<double>(workers);
    const bool is_had = shape.may_resize || workers == most;
    bid.gains.push_back(is_had ? value(utility, iterations * after) -
                                     value(utility, iterations * before)
                               : -std::numeric_limits<double>::infinity());
  }
  return bid;
}

inline RandomSlot random_slot(const SlotShape& shape, std::uint64_t seed) {
  Draw draw(seed);
  RandomSlot slot;
  slot.cluster = random_cluster(shape, &draw);
  for (std::size_t i = 0; i < shape.jobs; ++i) slot.bids.push_back(random_bid(shape, &draw));
  return slot;
}

}  // namespace ringpress::perf

#endif  // PERF_GADGET_RANDOM_SLOT_H_
