#include "perf/all_reduce/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "perf/all_reduce/error.h"

namespace ringpress::perf {
namespace {

RankIdentity identity_in(const std::map<std::string, std::string>& variables) {
  return rank_from_environment([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, NoLauncherIsOneRank) {
  const RankIdentity identity = identity_in({});
  EXPECT_EQ(identity.rank, 0);
  EXPECT_EQ(identity.ranks, 1);
}

TEST(Launch, TorchrunKeepsItsOwnPort) {
  std::map<std::string, std::string> variables = {{"RANK", "3"},
                                                  {"WORLD_SIZE", "8"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"MASTER_ADDR", "10.0.0.1"},
                                                  {"MASTER_PORT", "29500"}};
  EXPECT_EQ(identity_in(variables).root_port, 29500);
  variables["TORCHELASTIC_RUN_ID"] = "none";
  const RankIdentity identity = identity_in(variables);
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.ranks, 8);
  EXPECT_EQ(identity.local_rank, 1);
  EXPECT_EQ(identity.root_address, "10.0.0.1");
  EXPECT_EQ(identity.root_port, 29501);
}

TEST(Launch, MpirunOnOneHostNeedsNoAddress) {
  const std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                        {"PMIX_NAMESPACE", "12345"}};
  const RankIdentity identity = identity_in(variables);
  EXPECT_EQ(identity.launcher, "mpirun");
  EXPECT_EQ(identity.root_address, "127.0.0.1");
  EXPECT_EQ(identity.root_port, identity_in(variables).root_port);
}

TEST(Launch, SrunOverHostsHasNoAddressOfItsOwn) {
  const RankIdentity identity = identity_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(identity.launcher, "srun");
  EXPECT_TRUE(identity.root_address.empty());
}

TEST(Launch, SenselessValuesAreNamed) {
  EXPECT_THROW(identity_in({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), PerfError);
  EXPECT_THROW(identity_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), PerfError);
  EXPECT_THROW(identity_in({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), PerfError);
}

}  // namespace
}  // namespace ringpress::perf
