// Progress on standard error: a bar on a terminal, plain lines elsewhere.
#ifndef PERF_ALL_REDUCE_PROGRESS_H_
#define PERF_ALL_REDUCE_PROGRESS_H_

#include <string>

namespace ringpress::perf {

class Progress {
 public:
  explicit Progress(bool enabled);
  /// Step `step` (from 1) of `steps` begins.
  void step(const std::string& what, int step, int steps);
  /// Removes the bar, so that a line of results can be printed.
  void clear();

 private:
  bool enabled_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_PROGRESS_H_
