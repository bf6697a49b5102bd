// Windows and one-sided calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

ncclWindow_t register_window(ncclComm_t comm, void* memory, std::size_t bytes) {
  ncclWindow_t window = nullptr;
  EXPECT_NCCL_OK(ncclCommWindowRegister(comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  EXPECT_NE(window, nullptr);
  return window;
}

ncclResult_t wait_for(ncclComm_t comm, int peer, int count, int index = 0, int context = 0) {
  ncclWaitSignalDesc_t descriptor{count, peer, index, context};
  return ncclWaitSignal(1, &descriptor, comm, nullptr);
}

TEST(Windows, APutLandsWhereItBelongsBeforeItsSignal) {
  constexpr int kSize = 3;
  constexpr std::size_t kCount = 70000;
  run_nccl_ranks(kSize, [](ncclComm_t comm, int rank) {
    // A part of the window for each rank.
    std::vector<int> memory(kSize * kCount, -1);
    const ncclWindow_t window = register_window(comm, memory.data(), memory.size() * sizeof(int));
    void* pointer = nullptr;
    EXPECT_NCCL_OK(ncclWinGetUserPtr(comm, window, &pointer));
    EXPECT_EQ(pointer, memory.data());
    for (int round = 0; round < 5; ++round) {
      std::vector<int> source(kCount);
      std::iota(source.begin(), source.end(), rank * 1000000 + round);
      for (int peer = 0; peer < kSize; ++peer) {
        EXPECT_NCCL_OK(ncclPutSignal(source.data(), kCount, ncclInt, peer, window,
                                     static_cast<std::size_t>(rank) * kCount * sizeof(int), 0, 0, 0,
                                     comm, nullptr));
      }
      source.assign(kCount, -7);  // It may change.
      std::vector<ncclWaitSignalDesc_t> all;
      for (int peer = 0; peer < kSize; ++peer) all.push_back({1, peer, 0, 0});
      EXPECT_NCCL_OK(ncclWaitSignal(kSize, all.data(), comm, nullptr));
      for (int peer = 0; peer < kSize; ++peer) {
        const int* const part = memory.data() + static_cast<std::size_t>(peer) * kCount;
        std::vector<int> expected(kCount);
        std::iota(expected.begin(), expected.end(), peer * 1000000 + round);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), part))
            << "round " << round << ", rank " << peer;
      }
      float one = 1;  // In order with collectives; nobody puts before all have looked.
      EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
      EXPECT_EQ(one, 3);
    }
    EXPECT_NCCL_OK(ncclCommWindowDeregister(comm, window));
    EXPECT_EQ(ncclWinGetUserPtr(comm, window, &pointer), ncclInvalidArgument);
    expect_last_error("win was not made for this communicator");
  });
}

TEST(Windows, SignalsAreCountedByRankIndexAndContext) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.numRmaCtx = 2;
    config.numRmaSig = 3;
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    char byte = 0;
    register_window(comm, &byte, 1);
    const int peer = 1 - rank;
    for (int context = 0; context < 2; ++context) {
      for (int index = 0; index < 3; ++index) {
        for (int i = 0; i <= context * 3 + index; ++i) {
          EXPECT_NCCL_OK(ncclSignal(peer, index, context, 0, comm, nullptr));
        }
      }
    }
    for (int context = 1; context >= 0; --context) {
      for (int index = 2; index >= 0; --index) {
        const int all_but_one = context * 3 + index;
        if (all_but_one > 0) {
          EXPECT_NCCL_OK(wait_for(comm, peer, all_but_one, index, context));
        }
        EXPECT_NCCL_OK(wait_for(comm, peer, 1, index, context));
      }
    }
    EXPECT_EQ(ncclSignal(peer, 3, 0, 0, comm, nullptr), ncclInvalidArgument);
    expect_last_error("sigIdx is 3, but must be from 0 to 2");
    EXPECT_EQ(ncclSignal(peer, 0, 2, 0, comm, nullptr), ncclInvalidArgument);
    expect_last_error("ctx is 2");
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

/// What is there, while a peer may be writing it: a race that TSan must not report.
__attribute__((noinline, no_sanitize("thread"))) int glance_at(const volatile int& value) {
  return value;
}

TEST(Windows, APeerThatMakesNoCallIsWrittenTo) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    int memory[4] = {};
    const ncclWindow_t window = register_window(comm, memory, sizeof memory);
    if (rank == 0) {
      const int value = 5;
      EXPECT_NCCL_OK(ncclPutSignal(&value, 1, ncclInt, 1, window, 8, 0, 0, 0, comm, nullptr));
    } else {
      for (int i = 0; i < 20000 && glance_at(memory[2]) != 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(glance_at(memory[2]), 5);
    }
    float one = 1;
    EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
  });
}

TEST(Windows, InAGroupAndOfSeveralSizes) {
  ncclComm_t comms[2] = {};
  ASSERT_NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
  std::vector<float> memory[2] = {std::vector<float>(4), std::vector<float>(8)};
  ncclWindow_t windows[2] = {};
  EXPECT_NCCL_OK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NCCL_OK(ncclCommWindowRegister(comms[rank], memory[rank].data(),
                                          memory[rank].size() * sizeof(float), &windows[rank], 0));
  }
  ASSERT_NCCL_OK(ncclGroupEnd());
  // The waits come last, wherever they stand.
  const float values[2] = {3, 4};
  EXPECT_NCCL_OK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NCCL_OK(wait_for(comms[rank], 1 - rank, 1));
    EXPECT_NCCL_OK(ncclPutSignal(&values[rank], 1, ncclFloat, 1 - rank, windows[rank], 12, 0, 0, 0,
                                 comms[rank], nullptr));
  }
  ASSERT_NCCL_OK(ncclGroupEnd());
  EXPECT_EQ(memory[0][3], 4);
  EXPECT_EQ(memory[1][3], 3);
  // Rank 1's is larger.
  EXPECT_NCCL_OK(
      ncclPutSignal(values, 1, ncclFloat, 1, windows[0], 28, 0, 0, 0, comms[0], nullptr));
  EXPECT_EQ(ncclPutSignal(values, 1, ncclFloat, 0, windows[1], 13, 0, 0, 0, comms[1], nullptr),
            ncclInvalidArgument);
  expect_last_error("peerWinOffset is 13 for 4 bytes, but rank 0 has registered 16");
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(Windows, Nonblocking) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    const auto settle = [&comm](ncclResult_t result) {
      while (result == ncclInProgress) EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &result));
      return result;
    };
    ASSERT_EQ(settle(ncclCommInitRankConfig(&comm, 2, id, rank, &config)), ncclSuccess);
    int memory = 0;
    ncclWindow_t window = nullptr;
    EXPECT_EQ(settle(ncclCommWindowRegister(comm, &memory, 4, &window, 0)), ncclSuccess);
    const int value = rank + 10;
    EXPECT_EQ(
        settle(ncclPutSignal(&value, 1, ncclInt, 1 - rank, window, 0, 0, 0, 0, comm, nullptr)),
        ncclSuccess);
    EXPECT_EQ(settle(wait_for(comm, 1 - rank, 1)), ncclSuccess);
    EXPECT_EQ(memory, 11 - rank);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Windows, WrongArgumentsAreNamed) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    float memory[4] = {};
    const auto put = [&](ncclWindow_t window, int peer, std::size_t offset, unsigned flags) {
      return ncclPutSignal(memory, 1, ncclFloat, peer, window, offset, 0, 0, flags, comm, nullptr);
    };
    EXPECT_EQ(ncclSignal(1 - rank, 0, 0, 0, comm, nullptr), ncclInvalidUsage);
    expect_last_error("no window was registered on comm");
    const ncclWindow_t window = register_window(comm, memory, sizeof memory);
    const ncclResult_t argument = ncclInvalidArgument;
    EXPECT_EQ(put(nullptr, 0, 0, 0), argument);
    expect_last_error("peerWin is null");
    EXPECT_EQ(put(reinterpret_cast<ncclWindow_t>(12345678), 0, 0, 0), argument);
    expect_last_error("peerWin is no window of this communicator");
    EXPECT_EQ(put(window, 2, 0, 0), argument);
    expect_last_error("peer is 2, but must be from 0 to 1");
    EXPECT_EQ(put(window, -1, 0, 0), argument);
    EXPECT_EQ(put(window, 0, 16, 0), argument);
    expect_last_error("peerWinOffset is 16 for 4 bytes, but rank 0 has registered 16");
    EXPECT_EQ(put(window, 0, SIZE_MAX, 0), argument);
    EXPECT_EQ(put(window, 0, 0, 1), argument);
    expect_last_error("flags is 1, but must be 0");
    EXPECT_EQ(ncclPutSignal(nullptr, 1, ncclFloat, 0, window, 0, 0, 0, 0, comm, nullptr), argument);
    expect_last_error("localbuff is null");
    EXPECT_EQ(ncclPutSignal(memory, 1, from_int<ncclDataType_t>(99), 0, window, 0, 0, 0, 0, comm,
                            nullptr),
              argument);
    EXPECT_EQ(ncclPutSignal(memory, SIZE_MAX / 2, ncclFloat, 0, window, 0, 0, 0, 0, comm, nullptr),
              argument);
    EXPECT_EQ(ncclSignal(0, 1, 0, 0, comm, nullptr), argument);
    expect_last_error("sigIdx is 1, but must be from 0 to 0");
    EXPECT_EQ(ncclWaitSignal(0, nullptr, comm, nullptr), argument);
    expect_last_error("nDesc is 0");
    EXPECT_EQ(ncclWaitSignal(1, nullptr, comm, nullptr), argument);
    expect_last_error("signalDescs is null");
    ncclWaitSignalDesc_t descriptors[2] = {{1, 0, 0, 0}, {0, 1, 0, 0}};
    EXPECT_EQ(ncclWaitSignal(2, descriptors, comm, nullptr), argument);
    expect_last_error("signalDescs[1]: opCnt is 0");
    EXPECT_EQ(ncclCommWindowRegister(comm, nullptr, 1, nullptr, 0), argument);
    // None of this was seen by anybody.
    EXPECT_NCCL_OK(put(window, 1 - rank, 0, 0));
    EXPECT_NCCL_OK(wait_for(comm, 1 - rank, 1));
  });
}

TEST(Windows, ARankMayLeaveBeforeTheOthersAreDone) {
  const ncclUniqueId id = make_nccl_id();
  std::barrier left(3);
  run_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 3, id, rank));
    int memory = 0;
    const ncclWindow_t window = register_window(comm, &memory, sizeof memory);
    // Rank 2 has sent to and heard of both.
    for (int peer = 0; peer < 3; ++peer) EXPECT_NCCL_OK(ncclSignal(peer, 0, 0, 0, comm, nullptr));
    for (int peer = 0; peer < 3; ++peer) EXPECT_NCCL_OK(wait_for(comm, peer, 1));
    if (rank == 2) {
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    }
    left.arrive_and_wait();
    if (rank == 2) return;
    const int value = 8;
    EXPECT_NCCL_OK(ncclPutSignal(&value, 1, ncclInt, 1 - rank, window, 0, 0, 0, 0, comm, nullptr));
    EXPECT_NCCL_OK(wait_for(comm, 1 - rank, 1));
    EXPECT_EQ(memory, 8);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Windows, AbortEndsAWait) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    int memory = 0;
    register_window(comm, &memory, sizeof memory);
    std::thread aborter([comm] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    });
    EXPECT_EQ(wait_for(comm, 1 - rank, 1), ncclRemoteError);
    aborter.join();
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

/// A rank waits for another one that has sent it nothing yet, and never will.
TEST(Windows, AWaitEndsWhenItsPeerDoes) {
  for (const bool aborts : {false, true}) {
    const ncclUniqueId id = make_nccl_id();
    run_threads(2, [&](int rank) {
      ncclComm_t comm = nullptr;
      ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
      int memory = 0;
      register_window(comm, &memory, sizeof memory);
      if (rank == 0) {
        EXPECT_EQ(wait_for(comm, 1, 1), ncclRemoteError) << aborts;
        EXPECT_NCCL_OK(ncclCommAbort(comm));
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_NCCL_OK(aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm));
    });
  }
}

TEST(Windows, OfASuspendedCommunicatorStay) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    int memory = 0;
    const ncclWindow_t window = register_window(comm, &memory, sizeof memory);
    EXPECT_NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclInvalidUsage);
    EXPECT_NCCL_OK(ncclCommResume(comm));
    EXPECT_NCCL_OK(ncclCommWindowDeregister(comm, window));
  });
}

}  // namespace
}  // namespace ringpress::testing
