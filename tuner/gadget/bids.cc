#include "tuner/gadget/bids.h"

#include <algorithm>
#include <cmath>
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

class Gain {
 public:
  Gain(const Job& job, std::size_t worker_slots)
      : job_(job), before_(static_cast<double>(worker_slots)), value_before_(value_at(0)) {}

  double after(double more) const { return value_at(more) - value_before_; }

 private:
  double value_at(double more) const {
    return value(job_.utility, job_.iterations_per_worker_slot * (before_ + more));
  }

  const Job& job_;
  double before_;
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

}  // namespace

Bid bid_of(const Job& job, const Progress& progress) {
  Bid bid = {job.demand, {}};
  const Gain gain(job, progress.worker_slots);
  std::vector<Point> hull;
  if (!is_concave(job.utility.kind)) {
    hull = upper_hull(sampled(gain, progress.worker_slots_left));
  }
  for (std::size_t workers = 1; workers <= progress.most_workers; ++workers) {
    const auto more = static_cast<double>(workers);
    const double gained = hull.empty() ? gain.after(more) : height_of(hull, more);
    bid.gains.push_back(workers < job.least_workers ? -kInfinity : gained);
  }
  return bid;
}

}  // namespace ringpress::gadget
