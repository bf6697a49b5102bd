// Groups: what starts when, what runs together, what an error does.
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

TEST(Group, StartsNothingBeforeTheOutermostEnd) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    const float in = 5;
    float out = 0;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(out, 0);
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(out, 0);
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(out, 5);
  });
}

TEST(Group, EmptyOnesDoNothing) {
  EXPECT_NCCL_OK(ncclGroupStart());
  EXPECT_NCCL_OK(ncclGroupEnd());
}

TEST(Group, CollectivesOfOneCommunicatorRunInOrder) {
  run_nccl_ranks(3, [](ncclComm_t comm, int rank) {
    std::vector<double> a(100, rank + 1);
    std::vector<double> b(100);
    std::vector<double> c(300);
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclAllReduce(a.data(), b.data(), 100, ncclDouble, ncclSum, comm, nullptr));
    EXPECT_NCCL_OK(ncclAllReduce(b.data(), b.data(), 100, ncclDouble, ncclMax, comm, nullptr));
    EXPECT_NCCL_OK(ncclAllGather(b.data(), c.data(), 100, ncclDouble, comm, nullptr));
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(b, std::vector<double>(100, 6));
    EXPECT_EQ(c, std::vector<double>(300, 6));
  });
}

TEST(Group, SendsAndReceivesMatchWhateverTheirOrderAmongCollectives) {
  constexpr int kSize = 4;
  constexpr std::size_t kCount = 50000;
  run_nccl_ranks(kSize, [](ncclComm_t comm, int rank) {
    std::vector<int> sum(10, rank);
    std::vector<std::vector<int>> out(kSize, std::vector<int>(kCount, rank));
    std::vector<std::vector<int>> in(kSize, std::vector<int>(kCount, -1));
    EXPECT_NCCL_OK(ncclGroupStart());
    const auto reduce = [&] {
      EXPECT_NCCL_OK(ncclAllReduce(sum.data(), sum.data(), 10, ncclInt32, ncclSum, comm, nullptr));
    };
    if (rank % 2 == 0) reduce();
    for (int peer = 0; peer < kSize; ++peer) {  // Itself, too.
      const auto p = static_cast<std::size_t>(peer);
      EXPECT_NCCL_OK(ncclSend(out[p].data(), kCount, ncclInt32, peer, comm, nullptr));
      EXPECT_NCCL_OK(ncclRecv(in[p].data(), kCount, ncclInt32, peer, comm, nullptr));
    }
    if (rank % 2 != 0) reduce();
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(sum, std::vector<int>(10, 6));
    for (int peer = 0; peer < kSize; ++peer) {
      EXPECT_EQ(in[static_cast<std::size_t>(peer)], std::vector<int>(kCount, peer));
    }
  });
}

TEST(Group, SeveralSendsToOnePeerMatchInOrder) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    std::vector<int> values = {1, 2, 3};
    if (rank == 1) values = {0, 0, 0};
    EXPECT_NCCL_OK(ncclGroupStart());
    for (int& value : values) {
      if (rank == 0) {
        EXPECT_NCCL_OK(ncclSend(&value, 1, ncclInt32, 1, comm, nullptr));
      }
      if (rank == 1) {
        EXPECT_NCCL_OK(ncclRecv(&value, 1, ncclInt32, 0, comm, nullptr));
      }
    }
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(values, (std::vector<int>{1, 2, 3}));
  });
}

TEST(Group, OneThreadDrivesAllRanks) {
  constexpr int kSize = 4;
  ncclComm_t comms[kSize];
  ASSERT_NCCL_OK(ncclCommInitAll(comms, kSize, nullptr));
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<float>> values(kSize, std::vector<float>(1000, 1));
    std::vector<std::vector<float>> scattered(kSize, std::vector<float>(250));
    EXPECT_NCCL_OK(ncclGroupStart());
    for (std::size_t rank = 0; rank < kSize; ++rank) {
      EXPECT_NCCL_OK(ncclAllReduce(values[rank].data(), values[rank].data(), 1000, ncclFloat,
                                   ncclSum, comms[rank], nullptr));
    }
    for (std::size_t rank = kSize; rank-- > 0;) {  // Communicators in any order.
      EXPECT_NCCL_OK(ncclReduceScatter(values[rank].data(), scattered[rank].data(), 250, ncclFloat,
                                       ncclSum, comms[rank], nullptr));
    }
    EXPECT_NCCL_OK(ncclGroupEnd());
    for (std::size_t rank = 0; rank < kSize; ++rank) {
      EXPECT_EQ(values[rank], std::vector<float>(1000, 4));
      EXPECT_EQ(scattered[rank], std::vector<float>(250, 16));
    }
  }
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(Group, InitOfSeveralRanksFromOneThread) {
  constexpr int kSize = 3;
  const ncclUniqueId id = make_nccl_id();
  ncclComm_t comms[kSize];
  EXPECT_NCCL_OK(ncclGroupStart());
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_NCCL_OK(ncclCommInitRank(&comms[rank], kSize, id, rank));
  }
  // Not ready before the end of the group.
  int count = 0;
  EXPECT_EQ(ncclCommCount(comms[0], &count), ncclInvalidArgument);
  EXPECT_NCCL_OK(ncclGroupEnd());
  for (int rank = 0; rank < kSize; ++rank) {
    int got = -1;
    EXPECT_NCCL_OK(ncclCommUserRank(comms[rank], &got));
    EXPECT_EQ(got, rank);
    EXPECT_NCCL_OK(ncclCommCount(comms[rank], &count));
    EXPECT_EQ(count, kSize);
  }
  EXPECT_NCCL_OK(ncclGroupStart());
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
  EXPECT_NCCL_OK(ncclCommUserRank(comms[0], &count)) << "destroyed before the end of the group";
  EXPECT_NCCL_OK(ncclGroupEnd());
  EXPECT_EQ(ncclCommUserRank(comms[0], &count), ncclInvalidArgument);
}

TEST(Group, AFailedOneMakesNoCommunicators) {
  const ncclUniqueId id = make_nccl_id();
  ncclComm_t first = nullptr;
  ncclComm_t second = nullptr;
  EXPECT_NCCL_OK(ncclGroupStart());
  EXPECT_NCCL_OK(ncclCommInitRank(&first, 2, id, 0));
  EXPECT_EQ(ncclCommInitRank(&second, 2, id, 7), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  expect_last_error("rank is 7");
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(second, nullptr);
}

TEST(Group, SimulateEndRunsNothing) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    float value = 1;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    info.estimatedTime = 7;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_NCCL_OK(ncclGroupSimulateEnd(&info));
    EXPECT_EQ(value, 1);
    EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclGroupSimulateEnd(nullptr));
    info.magic = 1;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the group is still open";
    EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(value, 2);
  });
}

TEST(Group, BlockingAndNonblockingDoNotMix) {
  ncclComm_t blocking = nullptr;
  ASSERT_NCCL_OK(ncclCommInitRank(&blocking, 1, make_nccl_id(), 0));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t other = nullptr;
  float value = 3;
  EXPECT_NCCL_OK(ncclGroupStart());
  EXPECT_NCCL_OK(ncclCommInitRankConfig(&other, 1, make_nccl_id(), 0, &config));
  EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, blocking, nullptr));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  expect_last_error("must not mix");
  EXPECT_NCCL_OK(ncclCommDestroy(other));  // Its handle tells of the error, and must be freed.
  EXPECT_NCCL_OK(ncclCommDestroy(blocking));
}

}  // namespace
}  // namespace ringpress::testing
