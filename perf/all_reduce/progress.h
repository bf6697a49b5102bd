// Progress on standard error: a bar on a terminal, a plain line every few seconds elsewhere.
#ifndef PERF_ALL_REDUCE_PROGRESS_H_
#define PERF_ALL_REDUCE_PROGRESS_H_

#include <chrono>
#include <string>

namespace ringpress::perf {

class Progress {
 public:
  Progress();
  /// Step `step` (from 1) of `steps` begins. Most calls write nothing.
  void step(const std::string& what, int step, int steps);
  /// Removes the bar, so that a line of results can be printed.
  void clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_{};  // Nothing is written before.
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_PROGRESS_H_
