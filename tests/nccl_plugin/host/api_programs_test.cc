// A program of each newer function, as a job of processes runs it: 1, 2, 3, 4 and 8 ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "ringpress/nccl_device.h"
#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

class Programs : public ::testing::TestWithParam<int> {};

void expect_ones_added_up(ncclComm_t comm, int size) {
  std::vector<float> values(20000, 1);
  EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                               comm, nullptr));
  EXPECT_EQ(values, std::vector<float>(20000, static_cast<float>(size)));
}

/// Runs body(comm, rank) in processes.
template <typename Body>
void run_programs(int size, Body body) {
  run_processes(size, [&](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, size, id, rank));
    body(comm, rank);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_P(Programs, SuspendResumeMemStatsQueryPropertiesTeams) {
  const int size = GetParam();
  run_programs(size, [&](ncclComm_t comm, int rank) {
    expect_ones_added_up(comm, size);
    std::uint64_t before = 0, suspended = 0, after = 0;
    EXPECT_NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemTotal, &before));
    ASSERT_NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended));
    EXPECT_NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemTotal, &after));
    EXPECT_EQ(suspended, 1U);
    EXPECT_LE(after, before);
    float one = 1;
    EXPECT_EQ(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
    ASSERT_NCCL_OK(ncclCommResume(comm));
    expect_ones_added_up(comm, size);

    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    EXPECT_NCCL_OK(ncclCommQueryProperties(comm, &properties));
    EXPECT_EQ(properties.rank, rank);
    EXPECT_EQ(properties.nRanks, size);
    EXPECT_TRUE(properties.hostRmaSupport);
    EXPECT_EQ(ncclTeamWorld(comm).nRanks, size);
    EXPECT_EQ(ncclDevCommCreate(comm, nullptr, nullptr), ncclInvalidUsage);
  });
}

TEST_P(Programs, CallsWithAConfig) {
  const int size = GetParam();
  run_programs(size, [&](ncclComm_t comm, int rank) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.userProfilerTag = 7;
    const auto ranks = static_cast<std::size_t>(size);
    std::vector<int> own(ranks, rank), all(ranks, -1);
    EXPECT_NCCL_OK(ncclAllGatherConfig(&rank, all.data(), 1, ncclInt, comm, nullptr, &config));
    EXPECT_EQ(all.back(), size - 1);
    EXPECT_NCCL_OK(ncclAlltoAllConfig(own.data(), all.data(), 1, ncclInt, comm, nullptr, &config));
    EXPECT_EQ(all.back(), size - 1);
    int sum = 0;
    EXPECT_NCCL_OK(ncclAllReduceConfig(&rank, &sum, 1, ncclInt, ncclSum, comm, nullptr, &config));
    EXPECT_EQ(sum, size * (size - 1) / 2);
    EXPECT_NCCL_OK(
        ncclReduceScatterConfig(own.data(), &sum, 1, ncclInt, ncclMax, comm, nullptr, &config));
    EXPECT_EQ(sum, size - 1);
    EXPECT_NCCL_OK(ncclReduceConfig(&rank, &sum, 1, ncclInt, ncclSum, 0, comm, nullptr, &config));
    EXPECT_NCCL_OK(ncclBroadcastConfig(&sum, &sum, 1, ncclInt, 0, comm, nullptr, &config));
    EXPECT_EQ(sum, size * (size - 1) / 2);
    EXPECT_NCCL_OK(ncclGatherConfig(&rank, all.data(), 1, ncclInt, 0, comm, nullptr, &config));
    EXPECT_NCCL_OK(ncclScatterConfig(all.data(), &sum, 1, ncclInt, 0, comm, nullptr, &config));
    EXPECT_EQ(sum, rank);
  });
}

/// A sum that is compressed, with error feedback.
void expect_about(ncclComm_t comm, int size) {
  std::vector<float> values(20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
  EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                               comm, nullptr));
  for (std::size_t i = 0; i < 14; ++i) {
    EXPECT_NEAR(values[i], (static_cast<float>(i % 7) - 3) * static_cast<float>(size),
                static_cast<float>(size));
  }
}

/// Half of the ranks, or one, become all.
TEST_P(Programs, Grow) {
  const int size = GetParam();
  if (size == 1) GTEST_SKIP() << "one rank is none that has grown";
  const int before = size / 2;
  const IdPipes grow_ids(size);
  run_processes(size, [&](const ncclUniqueId& id, int rank) {
    setenv("RINGPRESS_CODEC", "q4", 1);
    setenv("RINGPRESS_MIN_BYTES", "0", 1);
    const bool is_old = rank < before;
    ncclComm_t comm = nullptr;
    if (is_old) {
      ASSERT_NCCL_OK(ncclCommInitRank(&comm, before, id, rank));
      for (int i = 0; i < 3; ++i) expect_about(comm, before);
    }
    const ncclUniqueId grow_id = grow_ids.agree_on(rank, [&] {
      ncclUniqueId made{};
      EXPECT_NCCL_OK(ncclCommGetUniqueId(comm, &made));
      return made;
    });
    ncclComm_t grown = nullptr;
    ASSERT_NCCL_OK(ncclCommGrow(comm, size, is_old && rank != 0 ? nullptr : &grow_id,
                                is_old ? -1 : rank, &grown, nullptr));
    for (int i = 0; i < 3; ++i) expect_about(grown, size);
    if (is_old) {
      expect_about(comm, before);
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    }
    EXPECT_NCCL_OK(ncclCommDestroy(grown));
  });
}

/// Everybody writes to everybody, over both transports.
void put_round(int size, const char* shared_memory) {
  run_processes(size, [&](const ncclUniqueId& id, int rank) {
    setenv("RINGPRESS_SHM", shared_memory, 1);
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, size, id, rank));
    constexpr std::size_t kCount = 300000;
    const auto ranks = static_cast<std::size_t>(size);
    std::vector<int> memory(ranks * kCount, -1);
    ncclWindow_t window = nullptr;
    ASSERT_NCCL_OK(ncclCommWindowRegister(comm, memory.data(), memory.size() * sizeof(int), &window,
                                          NCCL_WIN_COLL_SYMMETRIC));
    for (int round = 0; round < 3; ++round) {
      const std::vector<int> source(kCount, rank * 10 + round);
      std::vector<ncclWaitSignalDesc_t> all;
      for (int step = 0; step < size; ++step) {
        const int peer = (rank + step) % size;
        EXPECT_NCCL_OK(ncclPutSignal(source.data(), kCount, ncclInt, peer, window,
                                     static_cast<std::size_t>(rank) * kCount * sizeof(int), 0, 0, 0,
                                     comm, nullptr));
        EXPECT_NCCL_OK(ncclSignal(peer, 0, 0, 0, comm, nullptr));
        all.push_back({2, peer, 0, 0});
      }
      ASSERT_NCCL_OK(ncclWaitSignal(size, all.data(), comm, nullptr));
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        const auto part = memory.begin() + static_cast<std::ptrdiff_t>(peer * kCount);
        const int expected = static_cast<int>(peer) * 10 + round;
        EXPECT_EQ(std::count(part, part + kCount, expected), static_cast<std::ptrdiff_t>(kCount));
      }
      expect_ones_added_up(comm, size);  // Everybody has looked.
    }
    EXPECT_NCCL_OK(ncclCommWindowDeregister(comm, window));
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_P(Programs, PutSignalWaitSignalBySharedMemory) {
  put_round(GetParam(), "1");
}

TEST_P(Programs, PutSignalWaitSignalByTcp) {
  put_round(GetParam(), "0");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Programs, ::testing::Values(1, 2, 3, 4, 8));

/// The wait of the others ends, with the cause.
TEST(OneSidedFaults, ARankThatDiesIsReported) {
  const Signal may_die;
  run_processes(2, [&may_die](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    int memory = 0;
    ncclWindow_t window = nullptr;
    ASSERT_NCCL_OK(ncclCommWindowRegister(comm, &memory, sizeof memory, &window, 0));
    EXPECT_NCCL_OK(ncclSignal(1 - rank, 0, 0, 0, comm, nullptr));
    ncclWaitSignalDesc_t one{1, 1 - rank, 0, 0};
    EXPECT_NCCL_OK(ncclWaitSignal(1, &one, comm, nullptr));
    if (rank == 1) {
      may_die.wait();
      _exit(0);
    }
    may_die.raise();
    EXPECT_EQ(ncclWaitSignal(1, &one, comm, nullptr), ncclRemoteError);
    expect_last_error("rank 1");
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
}

/// Who writes to what is not there any more hears of it, and so does its owner.
TEST(OneSidedFaults, AWindowThatIsGone) {
  run_processes(2, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    int memory = 0;
    ncclWindow_t window = nullptr;
    ASSERT_NCCL_OK(ncclCommWindowRegister(comm, &memory, sizeof memory, &window, 0));
    ncclWaitSignalDesc_t one{1, 1 - rank, 0, 0};
    if (rank == 1) {
      EXPECT_NCCL_OK(ncclCommWindowDeregister(comm, window));
    }
    float value = 1;
    EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    if (rank == 0) {
      static_cast<void>(ncclPutSignal(&memory, 1, ncclInt, 1, window, 0, 0, 0, 0, comm, nullptr));
    }
    EXPECT_EQ(ncclWaitSignal(1, &one, comm, nullptr), ncclInvalidUsage);
    expect_last_error("rank 0 puts into a window that is not registered any more");
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
}

}  // namespace
}  // namespace ringpress::testing
