// How far the mean of several calls of the same input is off: what error feedback has made up for.
#ifndef PERF_ALL_REDUCE_MEAN_ERROR_H_
#define PERF_ALL_REDUCE_MEAN_ERROR_H_

#include <cstddef>
#include <vector>

#include "perf/all_reduce/device_memory.h"
#include "perf/all_reduce/elements.h"
#include "perf/all_reduce/group.h"
#include "perf/all_reduce/workload.h"

namespace ringpress::perf {

/// Adds up results of calls with the same input. Holds 8 bytes for each element.
class MeanError {
 public:
  MeanError(const Workload& workload, const ElementType& type, std::size_t count);

  /// The first `count` elements of `result` are one call's.
  void add(const DeviceBuffer& result);
  /// Collective over `control`. Of the mean of what was added, relative to the exact result, in the
  /// l2 norm: that of the rank that is farthest off. NaN if not finite.
  double relative_error(Group& control) const;

 private:
  const Workload& workload_;
  const ElementType type_;
  std::vector<double> sums_;
  int calls_ = 0;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_MEAN_ERROR_H_
