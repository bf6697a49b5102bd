#include "perf/step/ranks.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {

void add_rank_options(CLI::App& app, Options* options) {
  app.add_option("--ranks", options->local_ranks, "start so many ranks on this host")
      ->check(CLI::Range(2, 64));
  app.add_option("--local-rank", options->local_rank)->group("");
  app.add_option("--id-descriptor", options->id_descriptor)->group("");
}

RankIdentity identity_of(const Options& options) {
  RankIdentity identity;
  if (options.local_rank < 0) {
    identity = rank_from_environment([](const char* name) { return std::getenv(name); });
  } else {
    identity.rank = identity.local_rank = options.local_rank;
    identity.ranks = options.local_ranks;
  }
  if (identity.ranks < 2) throw terminal::Error("there must be two ranks at least: --ranks N");
  return identity;
}

void write_result(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << "\n";
  file.close();
  if (!file) throw terminal::Error(path + ": cannot be written");
}

int run_ranks(const Options& options, int argc, char** argv, const char* program,
              const std::function<void()>& run_rank) {
  try {
    if (options.local_ranks > 0 && options.local_rank < 0) {
      return run_local_ranks(options, argc, argv);
    }
    run_rank();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace ringpress::perf
