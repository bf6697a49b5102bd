// Communicators from their id to their end, and what may be asked of them meanwhile.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ringpress/ringpress.h"
#include "ringpress/version.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

void expect_sum(ncclComm_t comm, float wanted) {
  float value = 1;
  EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
  EXPECT_EQ(value, wanted);
}

TEST(Library, KnowsItsVersions) {
  int version = 0;
  EXPECT_NCCL_OK(ncclGetVersion(&version));
  EXPECT_EQ(version, 23203);
  EXPECT_STREQ(ringpressVersion(), RINGPRESS_VERSION);
}

TEST(Library, HasWordsForEveryResultAndAnyOtherNumber) {
  for (int code = 0; code < ncclNumResults; ++code) {
    const std::string text = ncclGetErrorString(from_int<ncclResult_t>(code));
    EXPECT_NE(text, "");
    EXPECT_EQ(text.find("unknown"), std::string::npos);
  }
  EXPECT_STREQ(ncclGetErrorString(from_int<ncclResult_t>(12345)), "unknown result code");
  EXPECT_STREQ(ncclGetErrorString(from_int<ncclResult_t>(-1)), "unknown result code");
}

/// Where a function is, hidden from compilers that know two names to be two places.
template <typename Function>
std::uintptr_t address_of(Function* function) {
  Function* volatile opaque = function;
  return reinterpret_cast<std::uintptr_t>(opaque);
}

TEST(Library, BothNamesOfAFunctionAreOne) {
  EXPECT_EQ(address_of(&ncclAllReduce), address_of(&pncclAllReduce));
  EXPECT_EQ(address_of(&ncclGetVersion), address_of(&pncclGetVersion));
  EXPECT_EQ(address_of(&ncclCommInitRank), address_of(&pncclCommInitRank));
}

TEST(Lifecycle, QueriesOfRankSizeAndDevice) {
  constexpr int kSize = 3;
  ncclComm_t comms[kSize];
  const int devices[kSize] = {4, 0, 2};
  ASSERT_NCCL_OK(ncclCommInitAll(comms, kSize, devices));
  for (int rank = 0; rank < kSize; ++rank) {
    int value = -1;
    EXPECT_NCCL_OK(ncclCommUserRank(comms[rank], &value));
    EXPECT_EQ(value, rank);
    EXPECT_NCCL_OK(ncclCommCount(comms[rank], &value));
    EXPECT_EQ(value, kSize);
    EXPECT_NCCL_OK(ncclCommCuDevice(comms[rank], &value));
    EXPECT_EQ(value, devices[rank]);
    ncclResult_t state = ncclInternalError;
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comms[rank], &state));
    EXPECT_EQ(state, ncclSuccess);
  }
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(Lifecycle, DestroyedHandlesAreRefused) {
  ncclComm_t comm = nullptr;
  ASSERT_NCCL_OK(ncclCommInitRank(&comm, 1, make_nccl_id(), 0));
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
  float value = 1;
  int number = 0;
  ncclResult_t state;
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  expect_last_error("comm is not a live communicator");
  EXPECT_EQ(ncclCommAbort(comm), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(comm, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr),
            ncclInvalidArgument);
  EXPECT_NCCL_OK(ncclCommDestroy(nullptr));  // As with NCCL.
  EXPECT_NCCL_OK(ncclCommAbort(nullptr));
}

TEST(Lifecycle, FinalizedOnesCanOnlyBeAskedAndDestroyed) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    expect_sum(comm, 2);
    EXPECT_NCCL_OK(ncclCommFinalize(comm));
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr),
              ncclInvalidUsage);
    expect_last_error("finalized");
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidUsage);
    int got = -1;
    EXPECT_NCCL_OK(ncclCommUserRank(comm, &got));
    EXPECT_EQ(got, rank);
    ncclResult_t state = ncclInternalError;
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclSuccess);
  });
}

TEST(Lifecycle, FinalizeAndDestroyInOneGroupRunAfterItsCalls) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    float value = 1;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclCommFinalize(comm));
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
    EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(value, 2);
  });
}

TEST(Lifecycle, ManyIdsButTheFirstServes) {
  ncclUniqueId ids[2] = {make_nccl_id(), make_nccl_id()};
  run_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRankScalable(&comm, 3, rank, 2, ids, nullptr));
    expect_sum(comm, 3);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Split, ByColorInTheOrderOfKeys) {
  run_nccl_ranks(4, [](ncclComm_t comm, int rank) {
    ncclComm_t child = nullptr;
    ASSERT_NCCL_OK(ncclCommSplit(comm, rank % 2, -rank, &child, nullptr));
    int child_rank = -1;
    int child_size = -1;
    EXPECT_NCCL_OK(ncclCommUserRank(child, &child_rank));
    EXPECT_NCCL_OK(ncclCommCount(child, &child_size));
    EXPECT_EQ(child_size, 2);
    EXPECT_EQ(child_rank, rank < 2 ? 1 : 0) << "a larger rank has the smaller key";
    float value = static_cast<float>(rank);
    EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, child, nullptr));
    EXPECT_EQ(value, rank % 2 == 0 ? 2 : 4);
    expect_sum(comm, 4);  // The parent goes on.
    EXPECT_NCCL_OK(ncclCommDestroy(child));
  });
}

TEST(Split, WithoutColorGivesNull) {
  run_nccl_ranks(3, [](ncclComm_t comm, int rank) {
    ncclComm_t child = comm;
    ASSERT_NCCL_OK(ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 5, rank, &child, nullptr));
    if (rank == 1) {
      EXPECT_EQ(child, nullptr);
    } else {
      expect_sum(child, 2);
      EXPECT_NCCL_OK(ncclCommDestroy(child));
    }
  });
}

TEST(Split, SeveralInOneGroup) {
  run_nccl_ranks(4, [](ncclComm_t comm, int rank) {
    ncclComm_t halves = nullptr;
    ncclComm_t all = nullptr;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclCommSplit(comm, rank / 2, rank, &halves, nullptr));
    EXPECT_NCCL_OK(ncclCommSplit(comm, 0, rank, &all, nullptr));
    EXPECT_NCCL_OK(ncclGroupEnd());
    expect_sum(halves, 2);
    expect_sum(all, 4);
    EXPECT_NCCL_OK(ncclCommDestroy(halves));
    EXPECT_NCCL_OK(ncclCommDestroy(all));
  });
}

TEST(Shrink, LeavesOutTheListedRanks) {
  run_nccl_ranks(4, [](ncclComm_t comm, int rank) {
    int excluded[] = {1};
    ncclComm_t child = nullptr;
    if (rank == 1) {
      EXPECT_EQ(ncclCommShrink(comm, excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT),
                ncclInvalidArgument);
      expect_last_error("calling rank 1");
    } else {
      ASSERT_NCCL_OK(ncclCommShrink(comm, excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
      int child_rank = -1;
      EXPECT_NCCL_OK(ncclCommUserRank(child, &child_rank));
      EXPECT_EQ(child_rank, rank == 0 ? 0 : rank - 1);
      expect_sum(child, 3);
      EXPECT_NCCL_OK(ncclCommDestroy(child));
    }
    expect_sum(comm, 4);
  });
}

TEST(Memory, IsPageAlignedAndFreedOnce) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{1000001}}) {
    void* memory = nullptr;
    ASSERT_NCCL_OK(ncclMemAlloc(&memory, bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0u);
    std::memset(memory, 1, bytes);
    EXPECT_NCCL_OK(ncclMemFree(memory));
    EXPECT_EQ(ncclMemFree(memory), ncclInvalidArgument);
  }
  int something = 0;
  void* memory = &something;
  EXPECT_NCCL_OK(ncclMemAlloc(&memory, 0));
  EXPECT_EQ(memory, nullptr);
  EXPECT_NCCL_OK(ncclMemFree(nullptr));
}

TEST(Memory, RegistrationIsAccepted) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    std::vector<float> values(1024, 1);
    void* handle = nullptr;
    EXPECT_NCCL_OK(ncclCommRegister(comm, values.data(), values.size() * 4, &handle));
    EXPECT_NE(handle, nullptr);
    ncclWindow_t window = nullptr;
    EXPECT_NCCL_OK(ncclCommWindowRegister(comm, values.data(), values.size() * 4, &window,
                                          NCCL_WIN_COLL_SYMMETRIC));
    EXPECT_NE(window, nullptr);
    EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                                 comm, nullptr));
    EXPECT_EQ(values, std::vector<float>(1024, 2));
    EXPECT_NCCL_OK(ncclCommWindowDeregister(comm, window));
    EXPECT_NCCL_OK(ncclCommDeregister(comm, handle));
    EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidArgument);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclInvalidArgument);
  });
}

TEST(Statistics, CountCalls) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    for (int i = 0; i < 3; ++i) expect_sum(comm, 2);
    ringpressStatistics_t statistics{};
    statistics.size = sizeof statistics;
    EXPECT_EQ(ringpressGetStatistics(comm, &statistics), ncclSuccess);
    EXPECT_EQ(statistics.calls, 3u);
    EXPECT_EQ(statistics.size, sizeof statistics);

    ringpressStatistics_t older{};  // A program that was built before the last fields came.
    older.size = offsetof(ringpressStatistics_t, observed_calls);
    older.observed_calls = 77;
    EXPECT_EQ(ringpressGetStatistics(comm, &older), ncclSuccess);
    EXPECT_EQ(older.calls, 3u);
    EXPECT_EQ(older.observed_calls, 77u);
    older = statistics;
    older.size = offsetof(ringpressStatistics_t, calibration_bytes);
    older.calibration_bytes = 77;
    EXPECT_EQ(ringpressGetStatistics(comm, &older), ncclSuccess);
    EXPECT_EQ(older.calls, 3u);
    EXPECT_EQ(older.calibration_bytes, 77u);
  });
  ringpressStatistics_t statistics{};
  EXPECT_EQ(ringpressGetStatistics(nullptr, &statistics), ncclInvalidArgument);
}

TEST(LazyFlush, TakesCommunicatorsThatAreReady) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    if (rank == 0) {
      EXPECT_EQ(ringpressLazyFlush(comm), ncclSuccess);
    }
    expect_sum(comm, 2);
    EXPECT_NCCL_OK(ncclCommFinalize(comm));
    EXPECT_EQ(ringpressLazyFlush(comm), ncclInvalidUsage);
  });
  EXPECT_EQ(ringpressLazyFlush(nullptr), ncclInvalidArgument);
}

TEST(LastError, BelongsToItsThreadUnlessOnlyTheProcessHasOne) {
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  run_threads(1, [](int) {
    expect_last_error("ncclGetVersion");  // This thread has none of its own.
    EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
    expect_last_error("ncclGetUniqueId");
  });
  expect_last_error("ncclGetVersion");
}

}  // namespace
}  // namespace ringpress::testing
