// The error that a codec makes in one encoding, and in an all-reduce of N ranks over many steps.
// The all-reduces are done in this process, with the arithmetic of ring and sra and nothing else.
#ifndef PERF_ACCURACY_MEASURE_H_
#define PERF_ACCURACY_MEASURE_H_

#include <cstddef>
#include <string>

#include "perf/accuracy/laws.h"

namespace ringpress::perf {

struct SingleShot {
  double error = 0;  // |D(Q(x)) - x|^2 / |x|^2
  double bias = 0;   // <D(Q(x)) - x, x> / |x|^2: what the codec shrinks or stretches x by.
  double bits = 0;   // On the wire per value.
};

SingleShot measure_single_shot(const std::string& codec, const std::vector<float>& values);

struct AllReduceCase {
  std::string codec;
  std::string algorithm;  // "sra" or "ring"
  bool error_feedback = false;
  std::size_t steps = 1;  // The same gradients each time.
};

struct AllReduceOutcome {
  double error = 0;  // |mean over the steps of the results - sum|^2 / |sum|^2
  double bits = 0;   // A rank sends, per value and for each of the 2 (N - 1) / N times that an
                     // uncompressed ring sends it.
};

AllReduceOutcome measure_all_reduce(const AllReduceCase& c, const RankTensors& inputs);

}  // namespace ringpress::perf

#endif  // PERF_ACCURACY_MEASURE_H_
