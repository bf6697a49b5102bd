// Connections that are not from the job, while it makes communicators: to the place where ranks
// meet, to the sockets of the ranks, and to their local ones. The job goes on as if they were not
// there. How long it takes is printed, not judged.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/strays.h"
#include "tests/support/unused_port.h"

namespace ringpress::testing {
namespace {

constexpr int kStrayedRanks = 3;
constexpr int kCommunicators = 6;

std::size_t count_sockets() {
  return sockets_of(getpid()).size();
}

/// Makes communicators, one after the other, and uses each. Ranks are apart in time, so that
/// strays find some of them between two steps.
void make_communicators(ncclUniqueId id, int rank) {
  const std::size_t before = count_sockets();
  for (int round = 0; round < kCommunicators; ++round) {
    setenv("RINGPRESS_SHM", round % 2 == 0 ? "0" : "1", 1);
    usleep(static_cast<useconds_t>(10000 * ((rank + round) % kStrayedRanks)));
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, kStrayedRanks, id, rank));
    usleep(static_cast<useconds_t>(10000 * ((rank + round + 1) % kStrayedRanks)));
    std::vector<float> values(5000, static_cast<float>(rank));
    ASSERT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                                 comm, nullptr));
    EXPECT_EQ(values, std::vector<float>(5000, 3));
    if (rank == 0) id = make_nccl_id();
    ASSERT_NCCL_OK(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, comm, nullptr));
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  }
  // Rank 0 has opened a place for one more communicator, where strays are.
  if (rank > 0) {
    EXPECT_EQ(count_sockets(), before) << "rank " << rank;
  }
}

/// This process may open so many files more, whatever it has from those before it.
void leave_files(rlim_t files) {
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  int last = 0;
  for (int number = 0; number < 4096; ++number) {
    if (fcntl(number, F_GETFD) >= 0) last = number;
  }
  limit.rlim_cur = static_cast<rlim_t>(last) + files;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

double seconds_of_job(const StrayHabits& habits, rlim_t files) {
  std::optional<StrayProcess> strays;
  if (!habits.kinds.empty()) strays.emplace(habits);
  const auto start = std::chrono::steady_clock::now();
  run_processes(kStrayedRanks, [files](const ncclUniqueId& id, int rank) {
    if (files > 0) leave_files(files);
    make_communicators(id, rank);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report(const std::string& strays, double seconds) {
  std::printf("%d communicators, strays: %-31s %.3f s\n", kCommunicators, strays.c_str(), seconds);
}

TEST(Strays, OfEveryKindHinderNoJob) {
  report("none", seconds_of_job({}, 0));
  std::vector<Stray> all;
  for (int kind = 0; kind < static_cast<int>(Stray::kCount); ++kind) {
    all.push_back(static_cast<Stray>(kind));
    const std::string name = "kind " + std::to_string(kind);
    report(name + ", 10 at once, reset", seconds_of_job({{all.back()}, 0, 10}, 0));
    report(name + ", 10 at once, held", seconds_of_job({{all.back()}, 1000, 10}, 0));
  }
  report("all kinds, 1000 at once", seconds_of_job({all, 5000, 1000}, 0));
}

TEST(Strays, HinderNoJobThatMeetsAtAKnownPlace) {
  const std::string place = "127.0.0.1:" + std::to_string(unused_port());
  const ScopedEnvironment known("NCCL_COMM_ID", place.c_str());
  report("none, known place", seconds_of_job({}, 0));
  for (const Stray kind : {Stray::kSilent, Stray::kSevenBytes, Stray::kHalfHello}) {
    report("kind " + std::to_string(static_cast<int>(kind)) + ", known place",
           seconds_of_job({{kind}, 0, 10, true}, 0));
  }
  report("silent, 1000 at once, known place", seconds_of_job({{Stray::kSilent}, 5000, 1000}, 0));
}

TEST(Strays, LeaveTheRanksTheirFiles) {
  const std::vector<Stray> silent = {Stray::kSilent, Stray::kSevenBytes, Stray::kHalfHello};
  report("silent, 1000 at once, 128 files", seconds_of_job({silent, 5000, 1000}, 128));
  report("silent, 300 stay, 128 files", seconds_of_job({silent, 0, 300, true}, 128));
}

}  // namespace
}  // namespace ringpress::testing
