// RINGPRESS_RULES through the NCCL API: names that programs give their communicators.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/rules_file.h"

namespace ringpress::testing {
namespace {

std::string codec_of_call(ncclComm_t comm) {
  std::vector<float> values(5000, 0.5F);
  values[7] = 1;
  EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                               comm, nullptr));
  ringpressStatistics_t statistics{};
  statistics.size = sizeof statistics;
  EXPECT_NCCL_OK(static_cast<ncclResult_t>(ringpressGetStatistics(comm, &statistics)));
  return statistics.codec;
}

// Through the library as programs load it; the stand-in of the door knows no codec.
TEST(ApiRules, ANameDeniesAndChildrenHaveItToo) {
  const test::RulesFile file(
      "*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp*\n"
      "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4\n");
  const ScopedEnvironment rules("RINGPRESS_RULES", file.path().c_str());
  const ncclUniqueId id = make_nccl_id();
  bool has_codecs = false;
  run_nccl_ranks(2, [&](ncclComm_t comm, int rank) {
    const std::string codec = codec_of_call(comm);
    if (rank == 0) has_codecs = codec.starts_with("q4");
  });
  run_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "tp_0";
    ncclComm_t comm = nullptr, child = nullptr, renamed = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    EXPECT_FALSE(codec_of_call(comm).starts_with("q"));
    ASSERT_NCCL_OK(ncclCommSplit(comm, 0, rank, &child, nullptr));
    EXPECT_FALSE(codec_of_call(child).starts_with("q"));
    config.commName = "dp_0";
    ASSERT_NCCL_OK(ncclCommSplit(comm, 0, rank, &renamed, &config));
    EXPECT_EQ(codec_of_call(renamed).starts_with("q4"), has_codecs);
    for (const ncclComm_t made : {renamed, child, comm}) EXPECT_NCCL_OK(ncclCommDestroy(made));
  });
}

TEST(ApiRules, AWrongLineIsRefusedWithFileLineAndField) {
  const test::RulesFile file("allreduce,0,-1,srb\n");
  const ScopedEnvironment rules("RINGPRESS_RULES", file.path().c_str());
  ncclUniqueId id = make_nccl_id();
  ncclComm_t comm = nullptr;
  EXPECT_NE(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  expect_last_error(file.path() + ": line 1, algorithm: \"srb\"");
}

}  // namespace
}  // namespace ringpress::testing
