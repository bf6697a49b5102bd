// Steps of several strategies, in turn, and of the library's own choice.
#ifndef PERF_STEP_MEASURE_H_
#define PERF_STEP_MEASURE_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "perf/all_reduce/session.h"
#include "perf/step/replay.h"
#include "ringpress/internal/espresso.h"

namespace ringpress::perf {

/// Steps, of the slowest rank each.
struct Measured {
  std::vector<double> steps;
  double compressed_calls = 0;  // That the library compressed, a step, whatever it was to do.
  double seconds() const;       // Their median.
};

/// Of a session that the functions below get: two for each of strategies_of(), exact and
/// compressed, as what is kept of tensors goes by the sequence of a communicator's calls; then one
/// in which the library decides.
std::vector<Setting> communicators_of(const std::string& codec, bool with_automatic);

/// Collective. `warmup` and then `steps` of each strategy.
std::vector<Measured> measure(const Session& session, const espresso::Job& job,
                              const std::vector<Strategy>& strategies, int warmup, int steps);

/// With RINGPRESS_CODEC=auto.
struct Automatic {
  Measured measured;
  std::map<std::string, std::size_t> calls;  // Of all these steps: by why they were left exact.
};
/// Collective. `steps` of them after so many in which the library may find what is best.
Automatic measure_automatic(const Session& session, const espresso::Job& job, int steps_before,
                            int steps);

}  // namespace ringpress::perf

#endif  // PERF_STEP_MEASURE_H_
