#include "tuner/gadget/size_bounds.h"

#include <algorithm>
#include <utility>

namespace ringpress::gadget {
namespace {

constexpr double kNoPart = 1e-9;  // What sums may be off by.

}  // namespace

SizeBounds::SizeBounds(const Cluster& cluster) {
  const std::size_t resources = cluster.resources.size();
  std::vector<double> each(resources);
  for (const Server& server : cluster.servers) {
    for (std::size_t r = 0; r < resources; ++r) each[r] += static_cast<double>(server.capacity[r]);
  }
  for (double& amount : each) amount = amount > 0 ? kParts / amount : 0;
  for (std::size_t r = 0; r < resources; ++r) {
    for (std::size_t other = r; other < resources; ++other) {
      Measure measure;
      measure.weights.resize(resources);
      measure.weights[r] += each[r] / 2;
      measure.weights[other] += each[other] / 2;
      measures_.push_back(std::move(measure));
    }
  }
}

std::vector<std::size_t> SizeBounds::parts_of(const Amounts& worker, std::size_t workers) const {
  std::vector<std::size_t> all;
  for (const Measure& measure : measures_) {
    double parts = 0;
    for (std::size_t r = 0; r < measure.weights.size(); ++r) {
      parts += measure.weights[r] * static_cast<double>(workers * worker[r]);
    }
    all.push_back(static_cast<std::size_t>(parts * (1 - kNoPart)));
  }
  return all;
}

void SizeBounds::begin(const std::vector<RingCandidate>& candidates) {
  for (std::size_t m = 0; m < measures_.size(); ++m) {
    measures_[m].left = kParts;
    auto& most = measures_[m].most;
    most.assign(candidates.size() + 1, std::vector<double>(kParts + 1));
    for (std::size_t i = candidates.size(); i-- > 0;) {
      most[i] = most[i + 1];
      for (const RingOption& option : candidates[i].options) {
        for (std::size_t parts = option.parts[m]; parts <= kParts; ++parts) {
          most[i][parts] =
              std::max(most[i][parts], option.gain + most[i + 1][parts - option.parts[m]]);
        }
      }
    }
  }
}

bool SizeBounds::has_room(const RingOption& option) const {
  return std::equal(
      option.parts.begin(), option.parts.end(), measures_.begin(),
      [](std::size_t parts, const Measure& measure) { return parts <= measure.left; });
}

void SizeBounds::take(const RingOption& option) {
  for (std::size_t m = 0; m < measures_.size(); ++m) measures_[m].left -= option.parts[m];
}

void SizeBounds::give_back(const RingOption& option) {
  for (std::size_t m = 0; m < measures_.size(); ++m) measures_[m].left += option.parts[m];
}

double SizeBounds::most_of_rest(std::size_t at) const {
  double least = measures_[0].most[at][measures_[0].left];
  for (const Measure& measure : measures_) least = std::min(least, measure.most[at][measure.left]);
  return least;
}

}  // namespace ringpress::gadget
