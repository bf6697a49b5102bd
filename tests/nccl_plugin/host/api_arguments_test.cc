// Bad input: each wrong argument gets the right code and a sentence that names it.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

/// A wrong call and what it must lead to.
struct BadCall {
  const char* name;
  std::function<ncclResult_t(ncclComm_t)> call;
  ncclResult_t result;
  const char* text;
};

float buffer[64];
constexpr std::size_t kTooMany = SIZE_MAX / 2;

std::vector<BadCall> bad_reductions_and_gathers() {
  float* const b = buffer;
  const ncclResult_t argument = ncclInvalidArgument;
  return {
      {"AllReduceNullComm",
       [=](ncclComm_t) { return ncclAllReduce(b, b, 1, ncclFloat, ncclSum, nullptr, nullptr); },
       argument, "comm is null"},
      {"AllReduceMadeUpComm",
       [=](ncclComm_t) {
         return ncclAllReduce(b, b, 1, ncclFloat, ncclSum, reinterpret_cast<ncclComm_t>(b),
                              nullptr);
       },
       argument, "comm is not a live communicator"},
      {"AllReduceNullSend",
       [=](ncclComm_t c) { return ncclAllReduce(nullptr, b, 1, ncclFloat, ncclSum, c, nullptr); },
       argument, "ncclAllReduce: invalid argument: sendbuff is null"},
      {"AllReduceNullReceive",
       [=](ncclComm_t c) { return ncclAllReduce(b, nullptr, 1, ncclFloat, ncclSum, c, nullptr); },
       argument, "recvbuff is null"},
      {"AllReduceBadType",
       [=](ncclComm_t c) {
         return ncclAllReduce(b, b, 1, from_int<ncclDataType_t>(12), ncclSum, c, nullptr);
       },
       argument, "datatype 12 "},
      {"AllReduceNegativeType",
       [=](ncclComm_t c) {
         return ncclAllReduce(b, b, 1, from_int<ncclDataType_t>(-1), ncclSum, c, nullptr);
       },
       argument, "datatype -1 "},
      {"AllReduceBadTypeCountZero",
       [=](ncclComm_t c) {
         return ncclAllReduce(b, b, 0, from_int<ncclDataType_t>(12), ncclSum, c, nullptr);
       },
       argument, "datatype 12 "},
      {"AllReduceBadOp",
       [=](ncclComm_t c) {
         return ncclAllReduce(b, b, 1, ncclFloat, from_int<ncclRedOp_t>(1000000), c, nullptr);
       },
       argument, "op 1000000 "},
      {"AllReduceNegativeOp",
       [=](ncclComm_t c) {
         return ncclAllReduce(b, b, 1, ncclFloat, from_int<ncclRedOp_t>(-3), c, nullptr);
       },
       argument, "op -3 "},
      {"AllReduceOverflow",
       [=](ncclComm_t c) { return ncclAllReduce(b, b, kTooMany, ncclFloat, ncclSum, c, nullptr); },
       argument, "does not fit into memory"},
      {"ReduceScatterNullSend",
       [=](ncclComm_t c) {
         return ncclReduceScatter(nullptr, b, 1, ncclFloat, ncclSum, c, nullptr);
       },
       argument, "sendbuff is null"},
      {"ReduceScatterOverflowByRanks",
       [=](ncclComm_t c) {
         return ncclReduceScatter(b, b, kTooMany / 4, ncclFloat, ncclSum, c, nullptr);
       },
       argument, "for each of 2 ranks does not fit"},
      {"AllGatherNullReceive",
       [=](ncclComm_t c) { return ncclAllGather(b, nullptr, 1, ncclFloat, c, nullptr); }, argument,
       "recvbuff is null"},
      {"AllGatherOverflowByRanks",
       [=](ncclComm_t c) { return ncclAllGather(b, b, kTooMany / 4, ncclFloat, c, nullptr); },
       argument, "for each of 2 ranks does not fit"},
  };
}

std::vector<BadCall> bad_movements() {
  float* const b = buffer;
  const ncclResult_t argument = ncclInvalidArgument;
  return {
      {"BroadcastRootTooLarge",
       [=](ncclComm_t c) { return ncclBroadcast(b, b, 1, ncclFloat, 2, c, nullptr); }, argument,
       "root is 2, but must be from 0 to 1"},
      {"BroadcastRootNegative",
       [=](ncclComm_t c) { return ncclBroadcast(b, b, 1, ncclFloat, -1, c, nullptr); }, argument,
       "root is -1"},
      {"BroadcastNullReceive",
       [=](ncclComm_t c) { return ncclBroadcast(b, nullptr, 1, ncclFloat, 0, c, nullptr); },
       argument, "recvbuff is null"},
      {"BcastNull", [=](ncclComm_t c) { return ncclBcast(nullptr, 1, ncclFloat, 0, c, nullptr); },
       argument, "ncclBcast: invalid argument: buff is null"},
      {"ReduceRoot",
       [=](ncclComm_t c) { return ncclReduce(b, b, 1, ncclFloat, ncclSum, 5, c, nullptr); },
       argument, "root is 5"},
      {"ReduceNullSend",
       [=](ncclComm_t c) { return ncclReduce(nullptr, b, 1, ncclFloat, ncclSum, 0, c, nullptr); },
       argument, "sendbuff is null"},
      {"AllToAllInPlace",
       [=](ncclComm_t c) { return ncclAlltoAll(b, b, 1, ncclFloat, c, nullptr); }, argument,
       "in place"},
      {"GatherRoot", [=](ncclComm_t c) { return ncclGather(b, b, 1, ncclFloat, 9, c, nullptr); },
       argument, "root is 9"},
      {"ScatterNullReceive",
       [=](ncclComm_t c) { return ncclScatter(b, nullptr, 1, ncclFloat, 0, c, nullptr); }, argument,
       "recvbuff is null"},
      {"SendPeer", [=](ncclComm_t c) { return ncclSend(b, 1, ncclFloat, 2, c, nullptr); }, argument,
       "peer is 2"},
      {"SendNull", [=](ncclComm_t c) { return ncclSend(nullptr, 1, ncclFloat, 0, c, nullptr); },
       argument, "sendbuff is null"},
      {"RecvPeer", [=](ncclComm_t c) { return ncclRecv(b, 1, ncclFloat, -2, c, nullptr); },
       argument, "peer is -2"},
      {"RecvNull", [=](ncclComm_t c) { return ncclRecv(nullptr, 1, ncclFloat, 0, c, nullptr); },
       argument, "recvbuff is null"},
  };
}

std::vector<BadCall> bad_collectives() {
  std::vector<BadCall> calls = bad_reductions_and_gathers();
  for (BadCall& call : bad_movements()) calls.push_back(std::move(call));
  return calls;
}

std::vector<BadCall> bad_other_calls() {
  const ncclResult_t argument = ncclInvalidArgument;
  // Each rank is a thread, and refused calls may still null what they would have filled in.
  static thread_local float scalar = 2;
  static thread_local ncclRedOp_t op;
  static thread_local void* handle;
  static thread_local ncclWindow_t window;
  static thread_local ncclComm_t out;
  static thread_local int number;
  static thread_local ringpressStatistics_t statistics;
  float* const b = buffer;
  return {
      {"GetVersion", [](ncclComm_t) { return ncclGetVersion(nullptr); }, argument,
       "version is null"},
      {"GetUniqueId", [](ncclComm_t) { return ncclGetUniqueId(nullptr); }, argument,
       "uniqueId is null"},
      {"Count", [](ncclComm_t c) { return ncclCommCount(c, nullptr); }, argument, "count is null"},
      {"CountNullComm", [](ncclComm_t) { return ncclCommCount(nullptr, &number); }, argument,
       "comm is null"},
      {"UserRank", [](ncclComm_t c) { return ncclCommUserRank(c, nullptr); }, argument,
       "rank is null"},
      {"CuDevice", [](ncclComm_t c) { return ncclCommCuDevice(c, nullptr); }, argument,
       "device is null"},
      {"AsyncError", [](ncclComm_t c) { return ncclCommGetAsyncError(c, nullptr); }, argument,
       "asyncError is null"},
      {"MemAllocNull", [](ncclComm_t) { return ncclMemAlloc(nullptr, 1); }, argument,
       "ptr is null"},
      {"MemAllocTooMuch", [](ncclComm_t) { return ncclMemAlloc(&handle, SIZE_MAX); }, argument,
       "does not fit"},
      {"MemFreeForeign", [=](ncclComm_t) { return ncclMemFree(b); }, argument,
       "ptr did not come from ncclMemAlloc"},
      {"RegisterNull", [](ncclComm_t c) { return ncclCommRegister(c, nullptr, 1, &handle); },
       argument, "buff is null"},
      {"RegisterEmpty", [=](ncclComm_t c) { return ncclCommRegister(c, b, 0, &handle); }, argument,
       "size is 0"},
      {"RegisterNullHandle", [=](ncclComm_t c) { return ncclCommRegister(c, b, 1, nullptr); },
       argument, "handle is null"},
      {"DeregisterForeign", [=](ncclComm_t c) { return ncclCommDeregister(c, b); }, argument,
       "handle was not made"},
      {"WindowFlags", [=](ncclComm_t c) { return ncclCommWindowRegister(c, b, 1, &window, 16); },
       argument, "winFlags is 16"},
      {"PreMulSumNullOp",
       [](ncclComm_t c) {
         return ncclRedOpCreatePreMulSum(nullptr, &scalar, ncclFloat, ncclScalarHostImmediate, c);
       },
       argument, "op is null"},
      {"PreMulSumNullScalar",
       [](ncclComm_t c) {
         return ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarHostImmediate, c);
       },
       argument, "scalar is null"},
      {"PreMulSumResidence",
       [](ncclComm_t c) {
         return ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat,
                                         from_int<ncclScalarResidence_t>(7), c);
       },
       argument, "residence 7"},
      {"RedOpDestroyBuiltIn", [](ncclComm_t c) { return ncclRedOpDestroy(ncclAvg, c); }, argument,
       "built in"},
      {"RedOpDestroyUnknown",
       [](ncclComm_t c) { return ncclRedOpDestroy(from_int<ncclRedOp_t>(77777), c); }, argument,
       "op 77777"},
      {"SplitNullOut", [](ncclComm_t c) { return ncclCommSplit(c, 0, 0, nullptr, nullptr); },
       argument, "newcomm is null"},
      {"SplitColor", [](ncclComm_t c) { return ncclCommSplit(c, -7, 0, &out, nullptr); }, argument,
       "color is -7"},
      {"ShrinkEmpty", [](ncclComm_t c) { return ncclCommShrink(c, nullptr, 0, &out, nullptr, 0); },
       argument, "excludeRanksCount is 0"},
      {"ShrinkFlags",
       [](ncclComm_t c) {
         int other = 0;
         return ncclCommShrink(c, &other, 1, &out, nullptr, 7);
       },
       argument, "shrinkFlags is 7"},
      {"RevokeFlags", [](ncclComm_t c) { return ncclCommRevoke(c, 3); }, argument,
       "revokeFlags is 3"},
      {"GroupEndAlone", [](ncclComm_t) { return ncclGroupEnd(); }, ncclInvalidUsage,
       "no group is open"},
      {"SimulateEndAlone", [](ncclComm_t) { return ncclGroupSimulateEnd(nullptr); },
       ncclInvalidUsage, "no group is open"},
      {"StatisticsSize",
       [](ncclComm_t c) {
         statistics.size = 3;
         return static_cast<ncclResult_t>(ringpressGetStatistics(c, &statistics));
       },
       argument, "statistics->size is 3"},
  };
}

TEST(Arguments, WrongOnesAreNamedAndNothingHappens) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    std::vector<BadCall> calls = bad_collectives();
    for (BadCall& call : bad_other_calls()) calls.push_back(std::move(call));
    for (const BadCall& bad : calls) {
      SCOPED_TRACE(bad.name);
      EXPECT_EQ(bad.call(comm), bad.result);
      expect_last_error(bad.text);
    }
    float one = 1;  // The communicator has not noticed.
    EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(one, 2);
  });
}

TEST(Arguments, WrongOnesInAGroupFailItAtOnceAndAtItsEnd) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    for (const BadCall& bad : bad_collectives()) {
      SCOPED_TRACE(bad.name);
      float one = 1;
      EXPECT_NCCL_OK(ncclGroupStart());
      EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
      EXPECT_EQ(bad.call(comm), bad.result);
      EXPECT_EQ(ncclGroupEnd(), bad.result);
      expect_last_error(std::string(bad.text).substr(std::string(bad.text).rfind(": ") + 1));
      EXPECT_EQ(one, 1) << "the failed group ran";
    }
    float one = 1;
    EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(one, 2);
  });
}

TEST(Arguments, OfInitAreChecked) {
  const ncclUniqueId id = make_nccl_id();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  expect_last_error("comm is null");
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  expect_last_error("nranks is 0");
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  expect_last_error("rank is 2");
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument);
  expect_last_error("rank is -1");
  EXPECT_EQ(comm, nullptr);
  ncclUniqueId never_made{};
  EXPECT_NE(ncclCommInitRank(&comm, 1, never_made, 0), ncclSuccess);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(&comm, 0, nullptr), ncclInvalidArgument);
  expect_last_error("ndev is 0");
  ncclComm_t comms[2];
  const int twice[] = {3, 3};
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  expect_last_error("device 3 twice");
  const int negative[] = {0, -1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, negative), ncclInvalidArgument);
  expect_last_error("devlist[1] is -1");
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 0, nullptr, nullptr), ncclInvalidArgument);
  expect_last_error("commIds is null");
  ncclUniqueId ids[1] = {id};
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 2, ids, nullptr), ncclInvalidArgument);
  expect_last_error("nId is 2");
}

TEST(Arguments, ConfigurationsOfOtherVersionsAndWrongOnes) {
  const auto init = [](ncclConfig_t* config) {
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, make_nccl_id(), 0, config);
    if (result == ncclSuccess) {
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    }
    return result;
  };
  EXPECT_EQ(init(nullptr), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(init(&config), ncclSuccess);

  struct Longer {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int unknown[16] = {-5};
  } longer;
  longer.known.size = sizeof longer;
  longer.known.version = 23007;
  EXPECT_EQ(init(&longer.known), ncclSuccess);

  ncclConfig_t older = NCCL_CONFIG_INITIALIZER;  // NCCL 2.14 had `blocking` alone.
  older.size = 24;
  older.version = 21400;
  older.cgaClusterSize = -99;  // Its padding: within its size, and not a field.
  older.minCTAs = -99;         // Beyond its end: not read.
  EXPECT_EQ(init(&older), ncclSuccess);

  ncclConfig_t bad = config;
  bad.magic = 0;
  EXPECT_EQ(init(&bad), ncclInvalidArgument);
  expect_last_error("NCCL_CONFIG_INITIALIZER");
  bad = config;
  bad.size = 8;
  EXPECT_EQ(init(&bad), ncclInvalidArgument);
  bad = config;
  bad.version = 22400;  // The next one came later: what stands there is chance.
  bad.trafficClass = -707406379;
  bad.commName = reinterpret_cast<const char*>(0xd5d5d5d5d5d5d5d5);
  EXPECT_EQ(init(&bad), ncclSuccess);
  bad.version = 22500;
  EXPECT_EQ(init(&bad), ncclInvalidArgument);
  expect_last_error("config.trafficClass is -707406379");
  bad = config;
  bad.version = 0;
  bad.blocking = bad.minCTAs = -99;
  EXPECT_EQ(init(&bad), ncclSuccess);
  bad = config;
  bad.blocking = 2;
  EXPECT_EQ(init(&bad), ncclInvalidArgument);
  expect_last_error("config.blocking is 2, but must be 0 or 1");
  bad = config;
  bad.minCTAs = 0;
  EXPECT_EQ(init(&bad), ncclInvalidArgument);
  expect_last_error("config.minCTAs is 0, but must be at least 1");
  bad = config;
  bad.minCTAs = 8;
  bad.maxCTAs = 4;
  EXPECT_EQ(init(&bad), ncclInvalidArgument);
  expect_last_error("more than config.maxCTAs");
}

TEST(Arguments, WrongSettingsFailTheInitWithTheirText) {
  ncclComm_t comm = nullptr;
  {
    const ScopedEnvironment wrong("RINGPRESS_SOCKETS", "17");
    EXPECT_EQ(ncclCommInitRank(&comm, 1, make_nccl_id(), 0), ncclInvalidArgument);
    expect_last_error("RINGPRESS_SOCKETS=17");
    EXPECT_EQ(comm, nullptr);
  }
  {
    const ScopedEnvironment wrong("RINGPRESS_EF", "perhaps");
    EXPECT_EQ(ncclCommInitRank(&comm, 1, make_nccl_id(), 0), ncclInvalidArgument);
    expect_last_error("RINGPRESS_EF=perhaps");
  }
  EXPECT_NCCL_OK(ncclCommInitRank(&comm, 1, make_nccl_id(), 0));
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace ringpress::testing
