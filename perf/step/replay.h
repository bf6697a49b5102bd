// A training step played through the library: gradients become ready one after the other, and a
// thread all-reduces them in that order.
#ifndef PERF_STEP_REPLAY_H_
#define PERF_STEP_REPLAY_H_

#include <string>
#include <vector>

#include "perf/all_reduce/group.h"
#include "ringpress/internal/espresso.h"

namespace ringpress::perf {

/// Which tensors of a job are compressed, and what the planner says of the step.
struct Strategy {
  std::string name;
  std::vector<bool> compresses;
  double predicted_seconds = 0;
};

/// Of a job with Job::calls: nothing; all; the largest tensors that are half of the bytes; the
/// plan.
std::vector<Strategy> strategies_of(const espresso::Job& job);

/// The tensors of a job in memory.
class Replay {
 public:
  explicit Replay(const espresso::Job& job);

  /// One step, which all ranks begin at a time: seconds from its begin to the return of the last
  /// call. Compute is time that passes, as it does for a host whose GPU computes. `reasons` gets
  /// why each call was left exact, nothing for one that was not.
  double run(const Strategy& strategy, Group& exact, Group& compressed,
             std::vector<std::string>* reasons = nullptr);

 private:
  const espresso::Job& job_;
  std::vector<double> ready_seconds_;  // Since the step's begin.
  std::vector<DeviceBuffer> tensors_;
  DeviceStream stream_;
};

}  // namespace ringpress::perf

#endif  // PERF_STEP_REPLAY_H_
