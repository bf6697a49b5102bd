// Who this process is among the ranks, and starting ranks on this host.
#ifndef PERF_ALL_REDUCE_LAUNCH_H_
#define PERF_ALL_REDUCE_LAUNCH_H_

#include <functional>
#include <optional>
#include <string>

#include "perf/all_reduce/options.h"

namespace ringpress::perf {

struct RankIdentity {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string launcher;      // "--ranks", "torchrun", "mpirun", "srun" or "alone".
  std::string root_address;  // Where rank 0 listens for the exchange of the unique id, or empty.
  int root_port = 0;
};

/// Looks a variable up; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

/// From torchrun's, mpirun's or srun's variables, in this order; a rank of one without any.
/// Throws PerfError for values that make no sense.
RankIdentity rank_from_environment(const Environment& environment);

/// Starts options.local_ranks copies of this program and waits for them. When one fails the others
/// get ten seconds to say what they saw and are then killed. Returns the exit status of the first
/// that failed, or 0. Call it before any thread exists.
int run_local_ranks(const Options& options, int argc, char** argv);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_LAUNCH_H_
