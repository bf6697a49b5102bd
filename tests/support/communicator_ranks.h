// Communicators over real transports whose ranks are threads of this process.
#ifndef TESTS_SUPPORT_COMMUNICATOR_RANKS_H_
#define TESTS_SUPPORT_COMMUNICATOR_RANKS_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringpress/internal/communicator.h"

namespace ringpress::testing {

using RankEnvironment = std::vector<std::pair<std::string, std::string>>;

/// What is tested comes from the first call on: without a warm-up, unless that is asked for.
inline Settings settings_with(RankEnvironment environment) {
  environment.emplace_back("RINGPRESS_TIMEOUT_MS", "100000");
  const bool warms_up = std::any_of(environment.begin(), environment.end(), [](const auto& entry) {
    return entry.first == "RINGPRESS_WARMUP_STEPS";
  });
  if (!warms_up) environment.emplace_back("RINGPRESS_WARMUP_STEPS", "0");
  return parse_settings(environment, nullptr);
}

/// Runs `body` on every rank of a new communicator and gives each rank's outcome, that of the
/// creation if it failed.
inline std::vector<Status> run_communicators(const std::vector<Settings>& settings,
                                             const std::function<Status(Communicator*)>& body) {
  const int size = static_cast<int>(settings.size());
  const auto id = make_unique_id(settings[0]);
  RINGPRESS_EXPECTS(id.is_ok(), id.status().message());
  std::vector<Status> outcomes(settings.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      auto communicator = Communicator::create(id.value(), rank, size, settings[index]);
      outcomes[index] =
          communicator.is_ok() ? body(communicator.value().get()) : communicator.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline std::vector<Status> run_communicators(int size, const RankEnvironment& environment,
                                             const std::function<Status(Communicator*)>& body) {
  const std::vector<Settings> settings(static_cast<std::size_t>(size), settings_with(environment));
  return run_communicators(settings, body);
}

/// A line for each rank that failed; empty if none did.
inline std::string failures_of(const std::vector<Status>& outcomes) {
  std::string failures;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].is_ok()) continue;
    failures += "rank " + std::to_string(rank) + ": " + outcomes[rank].message() + "\n";
  }
  return failures;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COMMUNICATOR_RANKS_H_
