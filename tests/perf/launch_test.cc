#include "perf/all_reduce/launch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"

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
  EXPECT_EQ(identity_in(variables).root_ports, std::vector<int>{29500});
  variables["TORCHELASTIC_RUN_ID"] = "none";
  const RankIdentity identity = identity_in(variables);
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.ranks, 8);
  EXPECT_EQ(identity.local_rank, 1);
  EXPECT_EQ(identity.root_address, "10.0.0.1");
}

/// Connections take their ports from 32768 on: one of them could be at rank 0's at any moment.
TEST(Launch, TorchrunsRanksMeetWhereNoConnectionBegins) {
  std::map<std::string, std::string> variables = {{"RANK", "1"},
                                                  {"WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", "localhost"},
                                                  {"TORCHELASTIC_RUN_ID", "none"}};
  std::set<std::vector<int>> seen;
  std::set<std::uint64_t> jobs;
  for (int port = 40000; port < 41000; ++port) {
    variables["MASTER_PORT"] = std::to_string(port);
    const RankIdentity identity = identity_in(variables);
    ASSERT_GE(identity.root_ports.size(), 4U);
    for (const int each : identity.root_ports) {
      EXPECT_GE(each, 1024);
      EXPECT_LT(each, 32768);
    }
    variables["RANK"] = "0";
    EXPECT_EQ(identity_in(variables).root_ports, identity.root_ports);
    seen.insert(identity.root_ports);
    jobs.insert(identity.job);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(jobs.size(), 1000U);
  const std::vector<int> before = identity_in(variables).root_ports;
  variables["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(identity_in(variables).root_ports, before);
}

TEST(Launch, TorchrunsReportHasTheMessage) {
  const std::string path = ::testing::TempDir() + "error-" + std::to_string(getpid()) + ".json";
  const auto environment = [&path](const char* name) {
    return std::string(name) == "TORCHELASTIC_ERROR_FILE" ? path.c_str() : nullptr;
  };
  tell_launcher(environment, "rank 1: \"quoted\", \xff and\nmore");
  std::ifstream file(path);
  const auto report = nlohmann::json::parse(file);
  EXPECT_TRUE(report.at("message").get<std::string>().starts_with("rank 1: \"quoted\", "));
  EXPECT_GT(report.at("timestamp").get<long>(), 1700000000);
  std::remove(path.c_str());
  tell_launcher([](const char*) { return nullptr; }, "nobody hears this");
}

TEST(Launch, MpirunOnOneHostNeedsNoAddress) {
  const std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                        {"PMIX_NAMESPACE", "12345"}};
  const RankIdentity identity = identity_in(variables);
  EXPECT_EQ(identity.launcher, "mpirun");
  EXPECT_EQ(identity.root_address, "127.0.0.1");
  EXPECT_FALSE(identity.root_ports.empty());
  EXPECT_EQ(identity.root_ports, identity_in(variables).root_ports);
}

TEST(Launch, SrunOverHostsHasNoAddressOfItsOwn) {
  const RankIdentity identity = identity_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(identity.launcher, "srun");
  EXPECT_TRUE(identity.root_address.empty());
}

TEST(Launch, SenselessValuesAreNamed) {
  EXPECT_THROW(identity_in({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), terminal::Error);
  EXPECT_THROW(identity_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), terminal::Error);
  EXPECT_THROW(identity_in({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), terminal::Error);
}

}  // namespace
}  // namespace ringpress::perf
