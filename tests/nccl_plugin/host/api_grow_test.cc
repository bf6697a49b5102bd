// Ranks that join those of a communicator.
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <vector>

#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

void add_ones_of(ncclComm_t comm, int size) {
  std::vector<float> values(3000, 1);
  EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                               comm, nullptr));
  EXPECT_EQ(values, std::vector<float>(3000, static_cast<float>(size)));
}

void expect_place(ncclComm_t comm, int rank, int size) {
  int own = -1, count = -1;
  EXPECT_NCCL_OK(ncclCommUserRank(comm, &own));
  EXPECT_NCCL_OK(ncclCommCount(comm, &count));
  EXPECT_EQ(own, rank);
  EXPECT_EQ(count, size);
  add_ones_of(comm, size);
}

/// `comm` may be made by the call that `result` is of.
ncclResult_t settle(ncclResult_t result, const ncclComm_t& comm) {
  while (result == ncclInProgress) EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &result));
  return result;
}

/// Two ranks that become four, then five. The id is made on rank 1.
void grow_twice(bool blocking) {
  const ncclUniqueId id = make_nccl_id();
  ncclUniqueId grow_ids[2];
  std::barrier made(5);
  run_threads(5, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    ncclComm_t comm = nullptr;
    if (rank < 2) {
      ASSERT_EQ(settle(ncclCommInitRankConfig(&comm, 2, id, rank, &config), comm), ncclSuccess);
    }
    for (int round = 0; round < 2; ++round) {
      const int before = round == 0 ? 2 : 4;
      const int after = before + (round == 0 ? 2 : 1);
      ncclUniqueId& grow_id = grow_ids[round];
      if (rank == 1) {
        ASSERT_NCCL_OK(ncclCommGetUniqueId(comm, &grow_id));
      }
      made.arrive_and_wait();
      if (rank >= after) continue;
      ncclComm_t grown = nullptr;
      const bool is_old = rank < before;
      // The others may have the id or not.
      const ncclUniqueId* const passed = is_old && rank == 0 ? nullptr : &grow_id;
      const ncclResult_t begun =
          ncclCommGrow(comm, after, passed, is_old ? -1 : rank, &grown, is_old ? nullptr : &config);
      ASSERT_EQ(settle(begun, grown), ncclSuccess) << ncclGetLastError(nullptr);
      if (is_old) {
        EXPECT_EQ(settle(ncclInProgress, comm), ncclSuccess);
      }
      if (blocking) {
        expect_place(grown, rank, after);
        if (is_old) expect_place(comm, rank, before);  // It goes on.
      } else {
        float one = 1;
        EXPECT_EQ(settle(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, grown, nullptr), grown),
                  ncclSuccess);
        EXPECT_EQ(one, static_cast<float>(after));
      }
      if (is_old) {
        EXPECT_NCCL_OK(ncclCommDestroy(comm));
      }
      comm = grown;
    }
    if (comm != nullptr) {
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

TEST(Grow, KeepsTheNumbersOfThoseThatWereThere) {
  grow_twice(true);
}

TEST(Grow, Nonblocking) {
  grow_twice(false);
}

TEST(Grow, InOneGroupOfOneThread) {
  ncclComm_t old[2] = {};
  ASSERT_NCCL_OK(ncclCommInitAll(old, 2, nullptr));
  ncclUniqueId id;
  ASSERT_NCCL_OK(ncclCommGetUniqueId(old[0], &id));
  ncclComm_t grown[3] = {};
  EXPECT_NCCL_OK(ncclGroupStart());
  EXPECT_NCCL_OK(ncclCommGrow(old[0], 3, &id, -1, &grown[0], nullptr));
  EXPECT_NCCL_OK(ncclCommGrow(old[1], 3, nullptr, -1, &grown[1], nullptr));
  EXPECT_NCCL_OK(ncclCommGrow(nullptr, 3, &id, 2, &grown[2], nullptr));
  ASSERT_NCCL_OK(ncclGroupEnd());
  run_threads(3, [&](int rank) { expect_place(grown[rank], rank, 3); });
  for (const ncclComm_t comm : {old[0], old[1], grown[0], grown[1], grown[2]}) {
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  }
}

/// Ranks compare names that say what calls are. One that comes does not know the parent's.
TEST(Grow, TheNameOfTheParentIsNotAskedFor) {
  const ncclUniqueId id = make_nccl_id();
  ncclUniqueId grow_id{};
  std::barrier made(3);
  run_threads(3, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "dp";
    ncclComm_t comm = nullptr, grown = nullptr;
    if (rank < 2) {
      ASSERT_NCCL_OK(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    }
    if (rank == 0) {
      ASSERT_NCCL_OK(ncclCommGetUniqueId(comm, &grow_id));
    }
    made.arrive_and_wait();
    ASSERT_NCCL_OK(
        ncclCommGrow(comm, 3, rank == 1 ? nullptr : &grow_id, rank < 2 ? -1 : 2, &grown, nullptr))
        << ncclGetLastError(nullptr);
    expect_place(grown, rank, 3);
    EXPECT_NCCL_OK(ncclCommDestroy(grown));
    if (comm != nullptr) {
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

TEST(Grow, OfOneRank) {
  ncclComm_t old = nullptr;
  ASSERT_NCCL_OK(ncclCommInitRank(&old, 1, make_nccl_id(), 0));
  ncclUniqueId id;
  ASSERT_NCCL_OK(ncclCommGetUniqueId(old, &id));
  run_threads(2, [&](int rank) {
    ncclComm_t grown = nullptr;
    ASSERT_NCCL_OK(
        ncclCommGrow(rank == 0 ? old : nullptr, 2, &id, rank == 0 ? -1 : 1, &grown, nullptr));
    expect_place(grown, rank, 2);
    EXPECT_NCCL_OK(ncclCommDestroy(grown));
  });
  EXPECT_NCCL_OK(ncclCommDestroy(old));
}

TEST(Grow, WrongArgumentsAreNamed) {
  ncclComm_t comm = nullptr;
  ASSERT_NCCL_OK(ncclCommInitRank(&comm, 1, make_nccl_id(), 0));
  ncclComm_t grown = nullptr;
  ncclUniqueId id;
  EXPECT_EQ(ncclCommGetUniqueId(comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGetUniqueId(nullptr, &id), ncclInvalidArgument);
  ASSERT_NCCL_OK(ncclCommGetUniqueId(comm, &id));
  EXPECT_EQ(ncclCommGetUniqueId(comm, &id), ncclInvalidUsage);
  expect_last_error("the id that was made before is not used yet");

  EXPECT_EQ(ncclCommGrow(comm, 2, &id, -1, nullptr, nullptr), ncclInvalidArgument);
  expect_last_error("newcomm is null");
  EXPECT_EQ(ncclCommGrow(comm, 0, &id, -1, &grown, nullptr), ncclInvalidArgument);
  expect_last_error("nRanks is 0");
  EXPECT_EQ(ncclCommGrow(comm, 1, &id, -1, &grown, nullptr), ncclInvalidArgument);
  expect_last_error("nRanks is 1, but comm has 1 ranks already");
  EXPECT_EQ(ncclCommGrow(comm, 2, &id, 0, &grown, nullptr), ncclInvalidArgument);
  expect_last_error("rank is 0, but must be -1");
  EXPECT_EQ(ncclCommGrow(nullptr, 2, &id, 2, &grown, nullptr), ncclInvalidArgument);
  expect_last_error("rank is 2, but must be from 0 to 1");
  EXPECT_EQ(ncclCommGrow(nullptr, 2, &id, -1, &grown, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 2, nullptr, 1, &grown, nullptr), ncclInvalidArgument);
  expect_last_error("uniqueId is null");
  ncclUniqueId other = id;
  other.internal[100] = static_cast<char>(other.internal[100] + 1);
  EXPECT_EQ(ncclCommGrow(comm, 2, &other, -1, &grown, nullptr), ncclInvalidArgument);
  expect_last_error("no rank has an id that ncclCommGetUniqueId made");
  EXPECT_EQ(grown, nullptr);

  // None of this has used it; then it is used.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt == 1) {
      EXPECT_EQ(ncclCommGrow(comm, 2, &id, -1, &grown, nullptr), ncclInvalidArgument);
      expect_last_error("is not used yet");
      break;
    }
    run_threads(2, [&](int rank) {
      ncclComm_t child = nullptr;
      ASSERT_NCCL_OK(ncclCommGrow(rank == 0 ? comm : nullptr, 2, rank == 0 ? nullptr : &id,
                                  rank == 0 ? -1 : 1, &child, nullptr));
      EXPECT_NCCL_OK(ncclCommDestroy(child));
    });
  }
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(Grow, RanksThatDisagreeAllHearOfIt) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    ncclUniqueId own;
    ASSERT_NCCL_OK(ncclCommGetUniqueId(comm, &own));
    ncclComm_t grown = nullptr;
    EXPECT_EQ(ncclCommGrow(comm, 3 + rank, &own, -1, &grown, nullptr), ncclInvalidUsage);
    expect_last_error("nRanks: rank 0 has 3, rank 1 has 4");
    EXPECT_EQ(ncclCommGrow(comm, 3, &own, -1, &grown, nullptr), ncclInvalidUsage);
    expect_last_error("two ranks have made ids");
    add_ones_of(comm, 2);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace ringpress::testing
