#include "perf/all_reduce/mean_error.h"

#include <algorithm>
#include <cmath>

namespace ringpress::perf {
namespace {

// Elements that are converted at a time; small enough for the L2 cache.
constexpr std::size_t kMeanBlockElements = 16384;

}  // namespace

MeanError::MeanError(const Workload& workload, const ElementType& type, std::size_t count)
    : workload_(workload), type_(type), sums_(count) {}

void MeanError::add(const DeviceBuffer& result) {
  std::vector<double> values;
  std::vector<std::byte> elements;
  for (std::size_t first = 0; first < sums_.size(); first += kMeanBlockElements) {
    values.resize(std::min(kMeanBlockElements, sums_.size() - first));
    elements.resize(values.size() * type_.bytes);
    result.read(first * type_.bytes, elements.data(), elements.size());
    load_elements(type_, elements.data(), values);
    for (std::size_t i = 0; i < values.size(); ++i) sums_[first + i] += values[i];
  }
  ++calls_;
}

double MeanError::relative_error(Group& control) const {
  double squared_error = 0;
  double squared_norm = 0;
  std::vector<double> exact;
  for (std::size_t first = 0; first < sums_.size(); first += kMeanBlockElements) {
    exact.resize(std::min(kMeanBlockElements, sums_.size() - first));
    workload_.expected(first, exact);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double difference = sums_[first + i] / calls_ - exact[i];
      squared_error += difference * difference;
      squared_norm += exact[i] * exact[i];
    }
  }
  const std::vector<double> all = control.gather({squared_error, squared_norm});
  double worst = 0;
  for (std::size_t at = 0; at < all.size(); at += 2) {
    const double error = all[at] == 0 ? 0 : std::sqrt(all[at] / all[at + 1]);
    if (std::isnan(worst)) break;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace ringpress::perf
