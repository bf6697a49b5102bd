// Finds and joins the recorded input of one rank.
#ifndef PERF_ALL_REDUCE_INPUT_H_
#define PERF_ALL_REDUCE_INPUT_H_

#include <string>
#include <vector>

namespace ringpress::perf {

/// "g_rank%d.npy" with the rank in the place of %d.
std::string input_path(const std::string& pattern, int rank);

/// The values of all files, in the order of the patterns. Throws terminal::Error that names the
/// file.
std::vector<float> read_inputs(const std::vector<std::string>& patterns, int rank);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_INPUT_H_
