// What levels for parts save in an all-reduce, with the code that applies them.
#ifndef PERF_LEVELS_SUMS_H_
#define PERF_LEVELS_SUMS_H_

#include <string>
#include <vector>

#include "ringpress/internal/projection.h"

namespace ringpress::perf {

/// The same tensor of all ranks.
struct RankGradients {
  std::string name;
  std::vector<std::vector<float>> values;  // By rank.
  std::vector<Layer> layers;
};

/// Prints a row for each way to cut the tensor and each choice of grids: bytes that the ranks send,
/// the error of the sum, and the processor's time for the call, over those with q4 for all.
void measure_sums(const RankGradients& gradients);

}  // namespace ringpress::perf

#endif  // PERF_LEVELS_SUMS_H_
