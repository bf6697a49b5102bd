// Who this process is among the ranks, and starting ranks on this host.
#ifndef PERF_ALL_REDUCE_LAUNCH_H_
#define PERF_ALL_REDUCE_LAUNCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "perf/all_reduce/options.h"

namespace ringpress::perf {

struct RankIdentity {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string launcher;         // "--ranks", "torchrun", "mpirun", "srun" or "alone".
  std::string root_address;     // Where rank 0 listens for the exchange of the unique id, or empty.
  std::vector<int> root_ports;  // It takes the first of them that is free.
  std::uint64_t job = 0;        // Equal on all ranks, and hardly so for ranks of other jobs.
};

/// Looks a variable up; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

/// From torchrun's, mpirun's or srun's variables, in this order; a rank of one without any.
/// Throws terminal::Error for values that make no sense.
RankIdentity rank_from_environment(const Environment& environment);

/// Of a rank that run_local_ranks() has started, or by the environment of this process.
RankIdentity identity_of(const LaunchOptions& options);

/// Leaves what went wrong where torchrun, if it started this rank, looks for it (the file that
/// TORCHELASTIC_ERROR_FILE names): its report of a failed job then says so. A line on standard
/// error alone scrolls out of sight above that report.
void tell_launcher(const Environment& environment, const std::string& message);

/// Starts options.local_ranks copies of this program and waits for them. When one fails the
/// others get ten seconds to say what they saw and are then killed. Returns the exit status of the
/// first that failed, or 0. Call it before any thread exists.
int run_local_ranks(const LaunchOptions& options, int argc, char** argv);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_LAUNCH_H_
