// Functions that came with NCCL 2.28.9 to 2.32 and need no peer: memory, properties, teams,
// parameters, encryption. And what is asked for one call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/nccl_device.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

void expect_ones_added(ncclComm_t comm, int size) {
  std::vector<float> values(50000, 1);
  EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                               comm, nullptr));
  EXPECT_EQ(values, std::vector<float>(50000, static_cast<float>(size)));
}

std::uint64_t statistic(ncclComm_t comm, ncclCommMemStat_t stat) {
  std::uint64_t value = UINT64_MAX;
  EXPECT_NCCL_OK(ncclCommMemStats(comm, stat, &value));
  return value;
}

TEST(Suspend, RefusesCallsUntilResumed) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    expect_ones_added(comm, 2);
    EXPECT_EQ(ncclCommResume(comm), ncclInvalidUsage);
    expect_last_error("comm is not suspended");
    EXPECT_EQ(ncclCommSuspend(comm, 2), ncclInvalidArgument);
    expect_last_error("flags is 2");
    ASSERT_NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));

    float one = 1;
    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
    expect_last_error("comm is suspended; ncclCommResume comes first");
    EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclInvalidUsage);
    EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidUsage);
    ncclResult_t state = ncclInternalError;
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclSuccess);
    int own = -1;
    EXPECT_NCCL_OK(ncclCommUserRank(comm, &own));
    EXPECT_EQ(own, rank);

    ASSERT_NCCL_OK(ncclCommResume(comm));
    expect_ones_added(comm, 2);
  });
}

TEST(Suspend, GivesMemoryBackAndMayBeTheEnd) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    expect_ones_added(comm, 2);
    EXPECT_EQ(statistic(comm, ncclStatGpuMemSuspended), 0U);
    const std::uint64_t kept = statistic(comm, ncclStatGpuMemPersist);
    EXPECT_EQ(statistic(comm, ncclStatGpuMemTotal), kept + statistic(comm, ncclStatGpuMemSuspend));
    ASSERT_NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_EQ(statistic(comm, ncclStatGpuMemSuspended), 1U);
    EXPECT_EQ(statistic(comm, ncclStatGpuMemSuspend), 0U);
    EXPECT_EQ(statistic(comm, ncclStatGpuMemPersist), kept);
    std::uint64_t value = 0;
    EXPECT_EQ(ncclCommMemStats(comm, from_int<ncclCommMemStat_t>(9), &value), ncclInvalidArgument);
    expect_last_error("stat 9 ");
    EXPECT_EQ(ncclCommMemStats(comm, ncclStatGpuMemTotal, nullptr), ncclInvalidArgument);
    expect_last_error("value is null");
  });
}

TEST(Suspend, InAGroupAndNonblocking) {
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
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_NCCL_OK(ncclCommResume(comm));
    EXPECT_EQ(settle(ncclGroupEnd()), ncclSuccess);
    float one = 1;
    EXPECT_EQ(settle(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr)), ncclSuccess);
    EXPECT_EQ(one, 2);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Properties, TellOfRanksAndOfNoDevice) {
  std::uint64_t hashes[2] = {};
  run_nccl_ranks(2, [&](ncclComm_t comm, int rank) {
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    properties.deviceApiSupport = true;
    ASSERT_NCCL_OK(ncclCommQueryProperties(comm, &properties));
    EXPECT_EQ(properties.size, sizeof properties);
    EXPECT_EQ(properties.rank, rank);
    EXPECT_EQ(properties.nRanks, 2);
    EXPECT_EQ(properties.nLsaTeams, 2);
    EXPECT_FALSE(properties.deviceApiSupport);
    EXPECT_EQ(properties.ginType, NCCL_GIN_TYPE_NONE);
    hashes[rank] = properties.commHash;

    ncclCommProperties_t older = NCCL_COMM_PROPERTIES_INITIALIZER;
    older.size = offsetof(ncclCommProperties_t, nLsaTeams);
    older.nLsaTeams = 77;
    ASSERT_NCCL_OK(ncclCommQueryProperties(comm, &older));
    EXPECT_EQ(older.nRanks, 2);
    EXPECT_EQ(older.nLsaTeams, 77);
    EXPECT_EQ(older.size, offsetof(ncclCommProperties_t, nLsaTeams));

    ncclCommProperties_t wrong{};
    EXPECT_EQ(ncclCommQueryProperties(comm, &wrong), ncclInvalidUsage);
    expect_last_error("NCCL_COMM_PROPERTIES_INITIALIZER");
    EXPECT_EQ(ncclCommQueryProperties(comm, nullptr), ncclInvalidArgument);
  });
  EXPECT_NE(hashes[0], 0U);
  EXPECT_EQ(hashes[0], hashes[1]);
}

bool same(ncclTeam_t a, ncclTeam_t b) {
  return a.nRanks == b.nRanks && a.rank == b.rank && a.stride == b.stride;
}

TEST(Teams, AreEverybodyAndOneself) {
  run_nccl_ranks(3, [](ncclComm_t comm, int rank) {
    const ncclTeam_t world = ncclTeamWorld(comm);
    EXPECT_TRUE(same(world, {3, rank, 1}));
    EXPECT_TRUE(same(ncclTeamRail(comm), world));
    EXPECT_TRUE(same(ncclTeamLsa(comm), {1, 0, 1}));
    EXPECT_TRUE(same(ncclTeamCft(comm), {1, 0, 1}));
    EXPECT_TRUE(same(ncclTeamCftMultimem(comm), {1, 0, 1}));
    for (int other = 0; other < 3; ++other) {
      EXPECT_EQ(ncclTeamRankToWorld(comm, world, other), other);
    }
    EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), 0), rank);
    EXPECT_EQ(ncclTeamRankToLsa(comm, ncclTeamLsa(comm), 0), 0);
  });
  EXPECT_TRUE(same(ncclTeamWorld(nullptr), {0, 0, 0}));
  expect_last_error("comm is null");
  EXPECT_EQ(ncclTeamRankToWorld(nullptr, {1, 0, 1}, 0), -1);
  EXPECT_EQ(ncclLLA2ACalcSlots(3, 9), 6);
}

TEST(Device, WhatNeedsOneIsRefusedInASentence) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    void* pointer = nullptr;
    ncclCftLeId id = 0;
    std::size_t offset = 0;
    const ncclTeam_t team = ncclTeamWorld(comm);
    const ncclResult_t results[] = {
        ncclDevCommCreate(comm, nullptr, nullptr),
        ncclDevCommDestroy(comm, nullptr),
        ncclGetLsaMultimemDevicePointer(nullptr, 0, &pointer),
        ncclGetMultimemDevicePointer(nullptr, 0, {nullptr}, &pointer),
        ncclGetLsaDevicePointer(nullptr, 0, 0, &pointer),
        ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer),
        ncclGetMultimemDeviceLeInfo(nullptr, 0, &id, &offset),
        ncclGetCftDeviceLeInfo(nullptr, 0, 0, team, &id, &offset),
        ncclGetPeerDeviceLeInfo(nullptr, 0, 0, &id, &offset),
        ncclLsaBarrierCreateRequirement(team, 1, nullptr, nullptr),
        ncclGinBarrierCreateRequirement(comm, team, 1, nullptr, nullptr),
        ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr),
        ncclGinOutboxCreateRequirement(1, 4, nullptr, nullptr),
        ncclGinInboxA2ACreateRequirement(team, 1, 4, nullptr, nullptr),
    };
    for (const ncclResult_t result : results) EXPECT_EQ(result, ncclInvalidUsage);
    expect_last_error("this library works on host memory: there is no device communicator");
  });
  EXPECT_EQ(ncclDevCommCreate(reinterpret_cast<ncclComm_t>(8), nullptr, nullptr),
            ncclInvalidArgument);
}

TEST(Params, AreTheVariablesThatItReads) {
  const ScopedEnvironment chunk("RINGPRESS_LAZY_CALLS", "300");
  const ScopedEnvironment codec("RINGPRESS_CODEC", "q4:block=64");
  ncclParamHandle_t handle = nullptr;
  ASSERT_NCCL_OK(ncclParamBind(&handle, "RINGPRESS_LAZY_CALLS"));
  std::int64_t wide = 0;
  std::int8_t narrow = 7;
  std::uint16_t short_one = 0;
  EXPECT_NCCL_OK(ncclParamGetI64(handle, &wide));
  EXPECT_NCCL_OK(ncclParamGetU16(handle, &short_one));
  EXPECT_EQ(wide, 300);
  EXPECT_EQ(short_one, 300);
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclInvalidArgument);
  expect_last_error("RINGPRESS_LAZY_CALLS is \"300\", no number from -128 to 127");
  EXPECT_EQ(narrow, 7);

  const char* text = nullptr;
  int length = 0;
  EXPECT_NCCL_OK(ncclParamGetParameter("RINGPRESS_CODEC", &text, &length));
  EXPECT_STREQ(text, "q4:block=64");
  EXPECT_EQ(length, 11);
  ASSERT_NCCL_OK(ncclParamBind(&handle, "RINGPRESS_CODEC"));
  EXPECT_NCCL_OK(ncclParamGetStr(handle, &text));
  EXPECT_STREQ(text, "q4:block=64");
  EXPECT_EQ(ncclParamGetI64(handle, &wide), ncclInvalidArgument);
  char bytes[16] = {};
  EXPECT_EQ(ncclParamGet(handle, bytes, 3, &length), ncclInvalidArgument);
  EXPECT_NCCL_OK(ncclParamGet(handle, bytes, 16, &length));
  EXPECT_EQ(std::string(bytes, 11), "q4:block=64");

  EXPECT_EQ(ncclParamBind(&handle, "NCCL_NO_SUCH"), ncclInvalidArgument);
  expect_last_error("key NCCL_NO_SUCH is no parameter");
  EXPECT_EQ(ncclParamGetI64(reinterpret_cast<ncclParamHandle_t>(bytes), &wide),
            ncclInvalidArgument);
  const char** keys = nullptr;
  EXPECT_NCCL_OK(ncclParamGetAllParameterKeys(&keys, &length));
  std::vector<std::string> all(keys, keys + length);
  EXPECT_EQ(std::count(all.begin(), all.end(), "RINGPRESS_CODEC"), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), "NCCL_SOCKET_IFNAME"), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), "RINGPRESS_SECRET"), 0);
  for (const std::string& key : all) {
    EXPECT_NCCL_OK(ncclParamGetParameter(key.c_str(), &text, nullptr));
  }
  ncclParamDumpAll();
}

TEST(CallConfig, EveryCollectiveTakesOne) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    ncclConfigExt_t foreign{};
    foreign.key.vendorId = 1234567;
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.userProfilerTag = 42;
    config.algSelection = "ring";
    config.minCTAs = 1;
    config.maxCTAs = 8;
    config.ext = &foreign;
    const float own = static_cast<float>(rank + 1);
    for (const ncclCollConfig_t* const given :
         {&std::as_const(config), (const ncclCollConfig_t*)nullptr}) {
      float in[2] = {own, own * 10};
      float out[2] = {};
      EXPECT_NCCL_OK(ncclAllReduceConfig(in, out, 2, ncclFloat, ncclSum, comm, nullptr, given));
      EXPECT_EQ(out[1], 30);
      EXPECT_NCCL_OK(ncclBroadcastConfig(in, out, 2, ncclFloat, 1, comm, nullptr, given));
      EXPECT_EQ(out[1], 20);
      EXPECT_NCCL_OK(ncclReduceConfig(in, out, 2, ncclFloat, ncclMax, 0, comm, nullptr, given));
      if (rank == 0) {
        EXPECT_EQ(out[0], 2);
      }
      EXPECT_NCCL_OK(ncclAllGatherConfig(in, out, 1, ncclFloat, comm, nullptr, given));
      EXPECT_EQ(out[1], 2);
      EXPECT_NCCL_OK(ncclReduceScatterConfig(in, out, 1, ncclFloat, ncclSum, comm, nullptr, given));
      EXPECT_EQ(out[0], rank == 0 ? 3 : 30);
      EXPECT_NCCL_OK(ncclAlltoAllConfig(in, out, 1, ncclFloat, comm, nullptr, given));
      EXPECT_EQ(out[1], rank == 0 ? 2 : 20);
      EXPECT_NCCL_OK(ncclGatherConfig(in, out, 1, ncclFloat, 0, comm, nullptr, given));
      if (rank == 0) {
        EXPECT_EQ(out[1], 2);
      }
      EXPECT_NCCL_OK(ncclScatterConfig(in, out, 1, ncclFloat, 1, comm, nullptr, given));
      EXPECT_EQ(out[0], rank == 0 ? 2 : 20);
    }
    // Read by the call, not at the end of the group.
    float value = own;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(
        ncclAllReduceConfig(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr, &config));
    config.magic = 0;
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(value, 3);
  });
}

TEST(CallConfig, OfOtherVersionsAndWrongOnes) {
  ncclComm_t comm = nullptr;
  ncclConfig_t of_comm = NCCL_CONFIG_INITIALIZER;
  of_comm.maxCTAs = 16;
  ASSERT_NCCL_OK(ncclCommInitRankConfig(&comm, 1, make_nccl_id(), 0, &of_comm));
  float value = 5;
  const auto call = [&](const ncclCollConfig_t& config) {
    return ncclAllReduceConfig(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr, &config);
  };
  struct Longer {
    ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
    std::uint64_t unknown[4] = {UINT64_MAX};
  } longer;
  longer.known.size = sizeof longer;
  longer.known.version = 29900;
  EXPECT_EQ(call(longer.known), ncclSuccess);
  const ncclCollConfig_t good = NCCL_COLLCONFIG_INITIALIZER;
  ncclCollConfig_t older = good;
  older.size = offsetof(ncclCollConfig_t, launchCompletionEvent);
  older.version = 23100;
  older.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(8);  // Beyond its end: not read.
  EXPECT_EQ(call(older), ncclSuccess);

  const auto expect_refused = [&](ncclResult_t code, const char* text, auto&& change) {
    ncclCollConfig_t config = good;
    change(config);
    EXPECT_EQ(call(config), code) << text;
    expect_last_error(text);
  };
  using Config = ncclCollConfig_t;
  const ncclResult_t argument = ncclInvalidArgument;
  expect_refused(argument, "NCCL_COLLCONFIG_INITIALIZER", [](Config& c) { c.magic = 1; });
  expect_refused(argument, "NCCL_COLLCONFIG_INITIALIZER", [](Config& c) { c.size = 8; });
  expect_refused(argument, "config.version is 23000", [](Config& c) { c.version = 23000; });
  expect_refused(argument, "config.minCTAs is 0", [](Config& c) { c.minCTAs = 0; });
  expect_refused(argument, "config.maxCTAs is 17, more than the communicator's, which is 16",
                 [](Config& c) { c.maxCTAs = 17; });
  expect_refused(argument, "more than config.maxCTAs", [](Config& c) {
    c.minCTAs = 3;
    c.maxCTAs = 2;
  });
  expect_refused(argument, "config.nvlsCTAs is -1", [](Config& c) { c.nvlsCTAs = -1; });
  expect_refused(argument, "config.cgaClusterSize is -2", [](Config& c) { c.cgaClusterSize = -2; });
  expect_refused(argument, "config.forceAlgSelection is 2, but must be 0 or 1",
                 [](Config& c) { c.forceAlgSelection = 2; });
  expect_refused(argument, "config.CTAPolicy is 4, but must be 0 to 3",
                 [](Config& c) { c.CTAPolicy = 4; });
  expect_refused(ncclInvalidUsage, "config.launchCompletionEvent is set",
                 [](Config& c) { c.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(8); });
  ncclConfigExt_t circle{};
  circle.next = &circle;
  expect_refused(argument, "config.ext has a circle", [&](Config& c) { c.ext = &circle; });
  EXPECT_EQ(value, 5);
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace ringpress::testing
