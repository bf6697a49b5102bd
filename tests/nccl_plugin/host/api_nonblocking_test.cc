// Nonblocking communicators and calls that end early: abort, revoke, peers that never come.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// Polls until `comm` is no longer in progress.
ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return state;
}

ncclComm_t init_nonblocking(int size, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, size, id, rank, &config), ncclInProgress);
  EXPECT_NE(comm, nullptr);
  EXPECT_EQ(settle(comm), ncclSuccess);
  return comm;
}

TEST(Nonblocking, CallsReturnAtOnceAndFinishAside) {
  constexpr int kSize = 3;
  const ncclUniqueId id = make_nccl_id();
  run_threads(kSize, [&](int rank) {
    ncclComm_t comm = init_nonblocking(kSize, id, rank);
    std::vector<int> values(1000, rank);
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), 1000, ncclInt32, ncclSum, comm, nullptr),
              ncclInProgress);
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_EQ(values, std::vector<int>(1000, 3));

    std::vector<int> received(10, -1);
    const int next = (rank + 1) % kSize;
    const int previous = (rank + kSize - 1) % kSize;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclSend(values.data(), 10, ncclInt32, next, comm, nullptr));
    EXPECT_NCCL_OK(ncclRecv(received.data(), 10, ncclInt32, previous, comm, nullptr));
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_EQ(received, std::vector<int>(10, 3));

    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Nonblocking, OneThreadMakesAllRanksWithoutAGroup) {
  const ncclUniqueId id = make_nccl_id();
  ncclConfig_t config = nonblocking();
  ncclComm_t comms[2];
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(settle(comm), ncclSuccess);
  float values[2] = {1, 2};
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(
        ncclAllReduce(&values[rank], &values[rank], 1, ncclFloat, ncclSum, comms[rank], nullptr),
        ncclInProgress);
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(Nonblocking, NotReadyUntilPolled) {
  const ncclUniqueId id = make_nccl_id();
  ncclConfig_t config = nonblocking();
  ncclComm_t first = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  float value = 1;
  int rank = 0;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, first, nullptr),
            ncclInvalidArgument);
  expect_last_error("not ready");
  EXPECT_EQ(ncclCommUserRank(first, &rank), ncclInvalidArgument);
  ncclComm_t second = init_nonblocking(2, id, 1);
  EXPECT_EQ(settle(first), ncclSuccess);
  EXPECT_NCCL_OK(ncclCommUserRank(first, &rank));
  EXPECT_NCCL_OK(ncclCommDestroy(first));
  EXPECT_NCCL_OK(ncclCommDestroy(second));
}

TEST(Nonblocking, SplitInheritsIt) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = init_nonblocking(2, id, rank);
    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, 0, rank, &child, nullptr), ncclInProgress);
    EXPECT_EQ(settle(child), ncclSuccess);
    EXPECT_EQ(settle(comm), ncclSuccess);
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, child, nullptr), ncclInProgress);
    EXPECT_EQ(settle(child), ncclSuccess);
    EXPECT_EQ(value, 2);
    EXPECT_NCCL_OK(ncclCommDestroy(child));
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

/// As in NCCL, the end of a communicator waits for nothing.
TEST(Nonblocking, DestroyComesAfterCallsUnderWay) {
  const ncclUniqueId id = make_nccl_id();
  std::promise<void> refused;
  std::shared_future<void> may_call = refused.get_future().share();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = init_nonblocking(2, id, rank);
    std::vector<float> values(100000, 1);
    if (rank == 1) may_call.wait();
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm,
                            nullptr),
              ncclInProgress);
    if (rank == 0) {
      EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
      expect_last_error("has not finished");
      refused.set_value();
    }
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
    EXPECT_EQ(values, std::vector<float>(100000, 2));
  });
}

/// It is in vain from then on, and nothing waits for it.
TEST(Nonblocking, ASetupCanBeRevoked) {
  const ScopedEnvironment timeout("RINGPRESS_TIMEOUT_MS", "1500");  // The thread left behind ends.
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, make_nccl_id(), 0, &config), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  EXPECT_EQ(settle(comm), ncclSuccess);
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
  EXPECT_NCCL_OK(ncclCommAbort(comm));
  std::this_thread::sleep_for(std::chrono::seconds(2));
}

/// Who polls for a result does not take the end for it; who has revoked waits for the end alone.
TEST(Nonblocking, WhatARevokeCutsOffIsAnErrorForTheOthers) {
  const ncclUniqueId id = make_nccl_id();
  std::promise<void> polled;
  run_threads(2, [&](int rank) {
    ncclComm_t comm = init_nonblocking(2, id, rank);
    if (rank == 0) {
      float value = 1;
      EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr),
                ncclInProgress);
      std::thread revoker([comm] {
        const ncclResult_t answer = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
        EXPECT_TRUE(answer == ncclSuccess || answer == ncclInProgress) << answer;
        EXPECT_EQ(settle(comm), ncclSuccess);
      });
      revoker.join();
      EXPECT_NE(settle(comm), ncclSuccess);
      EXPECT_EQ(value, 1);
      polled.set_value();
    } else {
      polled.get_future().wait();  // It never comes to the call.
    }
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
}

TEST(Nonblocking, AFailedCallIsReportedByPollingAndBeforeTheNext) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = init_nonblocking(2, id, rank);
    std::vector<float> values(8, 1);
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), rank == 0 ? 8 : 5, ncclFloat, ncclSum,
                            comm, nullptr),
              ncclInProgress);
    const ncclResult_t state = settle(comm);
    EXPECT_NE(state, ncclSuccess);
    EXPECT_STRNE(ncclGetLastError(comm), "");
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), 5, ncclFloat, ncclSum, comm, nullptr),
              state);
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
}

TEST(Abort, OfASetupThatNeverEndsReturnsAtOnce) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  const ScopedEnvironment timeout("RINGPRESS_TIMEOUT_MS", "1500");  // The thread left behind ends.
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, make_nccl_id(), 0, &config), ncclInProgress);
  EXPECT_NCCL_OK(ncclCommAbort(comm));
  ncclResult_t state;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument);
  std::this_thread::sleep_for(std::chrono::seconds(2));
}

TEST(Abort, EndsACallInAnotherThread) {
  for (const bool revoke : {false, true}) {
    const ncclUniqueId id = make_nccl_id();
    ncclComm_t comms[2];
    run_threads(2, [&](int rank) { ASSERT_NCCL_OK(ncclCommInitRank(&comms[rank], 2, id, rank)); });
    std::atomic<bool> started{false};
    auto call = std::async(std::launch::async, [&] {
      float value = 1;
      started = true;
      return ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], nullptr);
    });
    while (!started) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Likely inside; right either way.
    if (revoke) {
      EXPECT_NCCL_OK(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT));
    } else {
      EXPECT_NCCL_OK(ncclCommAbort(comms[0]));
    }
    const ncclResult_t result = call.get();
    EXPECT_NE(result, ncclSuccess);
    EXPECT_NE(result, ncclInProgress);
    if (revoke) {
      ncclResult_t state = ncclInternalError;
      EXPECT_NCCL_OK(ncclCommGetAsyncError(comms[0], &state));
      EXPECT_EQ(state, ncclSuccess) << "revoked on purpose: quiet";
      EXPECT_EQ(ncclCommFinalize(comms[0]), ncclInvalidUsage);
      int rank = -1;
      EXPECT_NCCL_OK(ncclCommUserRank(comms[0], &rank));
      EXPECT_NCCL_OK(ncclCommDestroy(comms[0]));
    }
    // The peer learns of it.
    float value = 1;
    EXPECT_NE(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[1], nullptr), ncclSuccess);
    EXPECT_NCCL_OK(ncclCommAbort(comms[1]));
  }
}

/// What a rank's calls say after rank 0 has ended the communicator.
std::string error_after(const std::function<ncclResult_t(ncclComm_t)>& end, int rank) {
  const ncclUniqueId id = make_nccl_id();
  ncclComm_t comms[2];
  const auto reduce = [&comms](int of) {
    float value = 1;
    return ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[of], nullptr);
  };
  run_threads(2, [&](int own) {
    ASSERT_NCCL_OK(ncclCommInitRank(&comms[own], 2, id, own));
    ASSERT_NCCL_OK(reduce(own));  // Connects.
  });
  auto call = std::async(std::launch::async, [&] { return reduce(rank); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Likely inside; right either way.
  EXPECT_NCCL_OK(end(comms[0]));
  EXPECT_NE(call.get(), ncclSuccess);
  std::string said = ncclGetLastError(comms[rank]);
  if (rank == 1) {
    EXPECT_NCCL_OK(ncclCommAbort(comms[1]));
  }
  return said;
}

TEST(Abort, IsToldFromARevoke) {
  const auto revoke = [](ncclComm_t comm) { return ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT); };
  EXPECT_NE(error_after(revoke, 1).find("revoked: rank 0 revoked the comm"), std::string::npos);
  EXPECT_NE(error_after(revoke, 0).find("revoked"), std::string::npos);
  EXPECT_EQ(error_after(revoke, 0).find("abort"), std::string::npos);
  EXPECT_NE(error_after(ncclCommAbort, 1).find("aborted: rank 0 aborted the comm"),
            std::string::npos);
}

TEST(Abort, ByManyThreadsAtOnceHappensOnce) {
  for (int round = 0; round < 20; ++round) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 1, make_nccl_id(), 0));
    std::atomic<int> successes{0};
    run_threads(4, [&](int) {
      float value = 1;
      const ncclResult_t result =
          ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
      EXPECT_TRUE(result == ncclSuccess || result == ncclInvalidArgument ||
                  result == ncclRemoteError);
      if (ncclCommAbort(comm) == ncclSuccess) ++successes;
    });
    EXPECT_EQ(successes, 1);
  }
}

TEST(Threads, CallsOfSeveralThreadsOnOneCommunicatorWaitForEachOther) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    run_threads(4, [&](int thread) {
      for (int i = 0; i < 50; ++i) {
        std::vector<float> values(256, static_cast<float>(thread));
        EXPECT_NCCL_OK(
            ncclAllReduce(values.data(), values.data(), 256, ncclFloat, ncclSum, comm, nullptr));
        EXPECT_EQ(values, std::vector<float>(256, static_cast<float>(thread)));
      }
    });
  });
}

TEST(Timeout, ARankThatNeverComesIsAnError) {
  const ScopedEnvironment timeout("RINGPRESS_TIMEOUT_MS", "700");
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, make_nccl_id(), 0), ncclRemoteError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_STRNE(ncclGetLastError(nullptr), "");
}

}  // namespace
}  // namespace ringpress::testing
