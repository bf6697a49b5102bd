// How the benchmark fails: one exception type whose text is meant for the person at the terminal.
#ifndef PERF_ALL_REDUCE_ERROR_H_
#define PERF_ALL_REDUCE_ERROR_H_

#include <stdexcept>
#include <string>

namespace ringpress::perf {

class PerfError : public std::runtime_error {
 public:
  explicit PerfError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_ERROR_H_
