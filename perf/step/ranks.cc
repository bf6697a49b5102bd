#include "perf/step/ranks.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {

void add_rank_options(CLI::App& app, Options* options) {
  app.add_option("--ranks", options->launch.local_ranks, "start so many ranks on this host")
      ->check(CLI::Range(2, 64));
  app.add_option("--local-rank", options->launch.local_rank)->group("");
  app.add_option("--id-descriptor", options->launch.id_descriptor)->group("");
}

RankIdentity identity_of_many(const Options& options) {
  RankIdentity identity = identity_of(options.launch);
  if (identity.ranks < 2) throw terminal::Error("there must be two ranks at least: --ranks N");
  return identity;
}

int run_ranks(const Options& options, int argc, char** argv, const char* program,
              const std::function<void()>& run_rank) {
  try {
    if (options.launch.local_ranks > 0 && options.launch.local_rank < 0) {
      return run_local_ranks(options.launch, argc, argv);
    }
    run_rank();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace ringpress::perf
