#include "perf/all_reduce/input.h"

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/npy.h"

namespace ringpress::perf {

std::string input_path(const std::string& pattern, int rank) {
  const std::size_t field = pattern.find("%d");
  if (field == std::string::npos)
    throw terminal::Error("--input " + pattern + ": needs exactly one %d");
  return pattern.substr(0, field) + std::to_string(rank) + pattern.substr(field + 2);
}

std::vector<float> read_inputs(const std::vector<std::string>& patterns, int rank) {
  std::vector<float> joined;
  for (const std::string& pattern : patterns) {
    const std::vector<float> values = read_npy(input_path(pattern, rank));
    joined.insert(joined.end(), values.begin(), values.end());
  }
  return joined;
}

}  // namespace ringpress::perf
