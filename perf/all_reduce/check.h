// Compares what an all-reduce left in memory with what it should have left.
#ifndef PERF_ALL_REDUCE_CHECK_H_
#define PERF_ALL_REDUCE_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "perf/all_reduce/device_memory.h"
#include "perf/all_reduce/elements.h"
#include "perf/all_reduce/group.h"
#include "perf/all_reduce/results.h"
#include "perf/all_reduce/workload.h"

namespace ringpress::perf {

/// What a result is held to.
enum class Strictness {
  kExact,      // Every element is the expected one.
  kLastPlace,  // Averages of floats: off by at most one unit in the last place.
  kFinite,     // Lossy or order-dependent: finite wherever the expected value is.
};

/// The findings of all ranks together.
struct CheckResult {
  std::int64_t wrong_elements = 0;  // Of all ranks.
  double relative_error = 0;        // Of the rank that is farthest off; NaN if not finite.
  bool identical = true;            // All ranks hold the same bytes.
  Magnitudes magnitudes;
};

/// Writes this rank's `count` elements into `buffer`.
void fill(const Workload& workload, const ElementType& type, std::size_t count,
          DeviceBuffer& buffer);

/// Collective over `control`.
CheckResult check(const Workload& workload, const ElementType& type, std::size_t count,
                  const DeviceBuffer& output, Strictness strictness, Group& control);

/// Collective over `control`: whether all ranks hold the same first `bytes` bytes.
bool holds_same_bytes(const DeviceBuffer& buffer, std::size_t bytes, Group& control);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_CHECK_H_
