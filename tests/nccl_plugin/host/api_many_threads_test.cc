// Sixteen ranks as threads of one process, which make several communicators at once while every
// setting that is a list, or names a file, is set. A sanitizer of threads sees what they share.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/random_tensor.h"
#include "tests/support/rules_file.h"

namespace ringpress::testing {
namespace {

constexpr int kThreadRanks = 16;
constexpr std::size_t kThreadComms = 3;
constexpr std::size_t kThreadValues = 20011;

class FolderOfLists {
 public:
  FolderOfLists() : path_(::testing::TempDir() + "lists_" + std::to_string(getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~FolderOfLists() { std::filesystem::remove_all(path_); }
  FolderOfLists(const FolderOfLists&) = delete;
  FolderOfLists& operator=(const FolderOfLists&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  const std::string path_;
};

/// What is set while the ranks run.
class ListSettings {
 public:
  ListSettings() {
    std::ofstream(folder_.file("nccl.conf"))
        << "# a list of variables\nNCCL_SOCKET_IFNAME=lo,eth,docker,^veth\nNCCL_DEBUG=INFO\n";
    const std::pair<const char*, std::string> variables[] = {
        {"NCCL_CONF_FILE", folder_.file("nccl.conf")},
        {"NCCL_DEBUG_FILE", folder_.file("log.%h.%p")},
        {"NCCL_SOCKET_IFNAME", "=lo,eth0,docker0"},
        {"NCCL_SOCKET_FAMILY", "AF_INET"},
        {"RINGPRESS_RULES", rules_.path()},
        {"RINGPRESS_CODEC", "auto"},
        {"RINGPRESS_BUDGET", "q4:block=128,round=stochastic"},
        {"RINGPRESS_MIN_BYTES", "1K"},
        {"RINGPRESS_STATS", folder_.file("stats.json")},
        {"RINGPRESS_CACHE", folder_.file("cache")},
        {"RINGPRESS_TUNING_LOG", folder_.file("tuning.csv")},
        {"RINGPRESS_TRACE", folder_.file("trace.json")},
        {"RINGPRESS_TOPOLOGY", "ranks"},
        {"RINGPRESS_NO_SUCH_SETTING", "warns, once"},
    };
    for (const auto& [name, value] : variables) {
      set_.push_back(std::make_unique<ScopedEnvironment>(name, value.c_str()));
    }
  }

 private:
  const FolderOfLists folder_;
  const test::RulesFile rules_{
      "*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp*\n"
      "allreduce,0,100000,-1,-1,-1,-1,-1,-1,-1,q8,dp_1\n"
      "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4,dp*\n"
      "reducescatter,0,-1,-1,-1,-1,-1,-1,-1,-1,none\n"};
  std::vector<std::unique_ptr<ScopedEnvironment>> set_;
};

using ThreadComms = std::array<ncclComm_t, kThreadComms>;

ThreadComms make_in_a_group(const std::vector<ncclUniqueId>& ids, int rank) {
  static constexpr std::array<const char*, kThreadComms> kNames = {"tp_0", "dp_0", "dp_1"};
  ThreadComms comms{};
  EXPECT_NCCL_OK(ncclGroupStart());
  for (std::size_t i = 0; i < kThreadComms; ++i) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = kNames[i];
    EXPECT_NCCL_OK(ncclCommInitRankConfig(&comms[i], kThreadRanks, ids[i], rank, &config));
  }
  EXPECT_NCCL_OK(ncclGroupEnd());
  return comms;
}

TEST(ManyThreads, MakeCommunicatorsAtOnceWithEveryListSet) {
  const ListSettings settings;
  std::vector<ncclUniqueId> ids;
  for (std::size_t i = 0; i < kThreadComms; ++i) ids.push_back(make_nccl_id());
  std::vector<std::vector<float>> sums(kThreadRanks * kThreadComms);
  std::barrier start(kThreadRanks);
  run_threads(kThreadRanks, [&](int rank) {
    start.arrive_and_wait();
    const ThreadComms comms = make_in_a_group(ids, rank);
    for (std::size_t i = 0; i < kThreadComms; ++i) {
      ASSERT_NE(comms[i], nullptr);
      std::vector<float>& sum = sums[static_cast<std::size_t>(rank) * kThreadComms + i];
      sum = random_gradient(kThreadValues, i, rank);
      EXPECT_NCCL_OK(
          ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat, ncclSum, comms[i], nullptr));
    }
    ncclComm_t half = nullptr;
    EXPECT_NCCL_OK(ncclCommSplit(comms[1], rank % 2, rank, &half, nullptr));
    float one = 1;
    EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, half, nullptr));
    EXPECT_EQ(one, kThreadRanks / 2);
    EXPECT_NCCL_OK(ncclCommDestroy(half));
    for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], sums[i % kThreadComms]) << i;
}

}  // namespace
}  // namespace ringpress::testing
