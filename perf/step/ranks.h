// What the programs of this folder share: ranks that they start themselves or that a launcher
// starts, and exit statuses.
#ifndef PERF_STEP_RANKS_H_
#define PERF_STEP_RANKS_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "perf/all_reduce/launch.h"
#include "perf/all_reduce/options.h"

namespace ringpress::perf {

constexpr int kBadUsage = 2;

/// --ranks, and what a program that starts copies of itself tells them.
void add_rank_options(CLI::App& app, Options* options);

/// Which rank this process is; throws terminal::Error where there are fewer than two.
RankIdentity identity_of_many(const Options& options);

/// Starts the ranks, where that is asked of this process, or does what a rank does. The exit
/// status: an exception of the rank is told on standard error.
int run_ranks(const Options& options, int argc, char** argv, const char* program,
              const std::function<void()>& run_rank);

}  // namespace ringpress::perf

#endif  // PERF_STEP_RANKS_H_
