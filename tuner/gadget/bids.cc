#include "tuner/gadget/bids.h"

#include <limits>
#include <utility>
#include <vector>

namespace ringpress::gadget {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Point = std::pair<double, double>;  // Further worker-slots, gain.

bool is_concave(UtilityKind kind) {
  switch (kind) {
    case UtilityKind::kSqrt:
    case UtilityKind::kLog:
    case UtilityKind::kEnergy:
      return true;
    case UtilityKind::kSigmoid:
      return false;
  }
  return false;
}

/// Of further worker-slots.
class Gain {
 public:
  /// `before`: iterations. `each`: further ones of a worker-slot.
  Gain(const Job& job, double before, double each)
      : job_(job), before_(before), each_(each), value_before_(value(job.utility, before)) {}

  double after(double more) const {
    return value(job_.utility, before_ + each_ * more) - value_before_;
  }

 private:
  const Job& job_;
  double before_;
  double each_;
  double value_before_;
};

/// Every number of worker-slots at first, then ever fewer: one in eight of what comes before.
std::vector<Point> sampled(const Gain& gain, std::size_t last) {
  std::vector<Point> points;
  for (std::size_t more = 0; more < last; more += 1 + more / 8) {
    points.emplace_back(more, gain.after(static_cast<double>(more)));
  }
  points.emplace_back(last, gain.after(static_cast<double>(last)));
  return points;
}

/// The corners of the lowest concave curve above the points, which are in order of x.
std::vector<Point> upper_hull(const std::vector<Point>& points) {
  std::vector<Point> hull;
  for (const Point& point : points) {
    const auto is_below = [&](const Point& a, const Point& b) {
      return (b.second - a.second) * (point.first - a.first) <=
             (point.second - a.second) * (b.first - a.first);
    };
    while (hull.size() >= 2 && is_below(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(point);
  }
  return hull;
}

double height_of(const std::vector<Point>& hull, double x) {
  std::size_t right = 1;
  while (hull[right].first < x) ++right;
  const Point& a = hull[right - 1];
  const Point& b = hull[right];
  return a.second + (b.second - a.second) * (x - a.first) / (b.first - a.first);
}

/// What each number of workers gains.
std::vector<double> gains_of(const Job& job, const Progress& progress, bool saves) {
  const Gain gain(job, progress.iterations, job.iterations_if(saves));
  std::vector<Point> hull;
  if (!is_concave(job.utility.kind)) {
    hull = upper_hull(sampled(gain, progress.worker_slots_left));
  }
  std::vector<double> gains;
  for (std::size_t workers = 1; workers <= progress.most_workers; ++workers) {
    const auto more = static_cast<double>(workers);
    const double gained = hull.empty() ? gain.after(more) : height_of(hull, more);
    gains.push_back(workers < job.least_workers ? -kInfinity : gained);
  }
  return gains;
}

}  // namespace

Demand Job::demand_if(bool saves) const {
  return {demand.worker, saves ? saving->ring_bits_per_second : demand.ring_bits_per_second};
}

double Job::iterations_if(bool saves) const {
  return saves ? saving->iterations_per_worker_slot : iterations_per_worker_slot;
}

Demand Bid::demand_if(bool saves) const {
  return {demand.worker, saves ? saving->ring_bits_per_second : demand.ring_bits_per_second};
}

double Bid::gain(std::size_t workers, bool saves) const {
  if (workers == 0) return 0;
  return saves ? saving->gains[workers - 1] : gains[workers - 1];
}

Bid bid_of(const Job& job, const Progress& progress) {
  Bid bid = {job.demand, gains_of(job, progress, /*saves=*/false)};
  if (job.saving.has_value()) {
    bid.saving = {job.saving->ring_bits_per_second, gains_of(job, progress, /*saves=*/true)};
  }
  return bid;
}

}  // namespace ringpress::gadget
