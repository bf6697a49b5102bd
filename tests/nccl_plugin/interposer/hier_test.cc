// hier: ranks of several hosts, which are threads that have been told so.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

TEST(Hier, FindsItsPlace) {
  const HostPosition position = find_position({5, 2, 5, 2, 5, 2}, 4);
  EXPECT_EQ(position.hosts, 2);
  EXPECT_EQ(position.host, 0);
  EXPECT_EQ(position.local_size, 3);
  EXPECT_EQ(position.local_rank, 2);
  EXPECT_EQ(find_position({0, 0, 1}, 2).local_size, 0);
  EXPECT_EQ(find_position({0, 1}, 1).host, 1);
}

/// Ranks 0 and 1 on one host, 2 and 3 on another.
TEST(Hier, IsExactInsideAHost) {
  constexpr int kSize = 4;
  constexpr std::size_t kCount = 100003;  // One is left over.
  struct Tried {
    const char* codec;
    ncclRedOp_t op;
    double largest_error = 0.25;
  };
  for (const Tried& tried :
       {Tried{"q4", ncclSum}, Tried{"q4", ncclAvg}, Tried{"qsgd:norm=global", ncclAvg},
        Tried{"topk:density=0.5,select=chunk", ncclAvg, 0.7}}) {
    const char* const codec = tried.codec;
    const ncclRedOp_t op = tried.op;
    const Settings settings =
        make_settings({{"RINGPRESS_ALGO", "hier"}, {"RINGPRESS_CODEC", codec}});
    std::vector<std::vector<float>> results(kSize);
    run_hosts(settings, {0, 0, 1, 1}, [&](const std::shared_ptr<Comm>& comm, int rank) {
      std::vector<float> send = make_values(rank, kCount), receive(kCount);
      const std::vector<float> send_before = send;
      for (int step = 0; step < 4; ++step) {
        // The last one in place.
        std::vector<float>& to = step == 3 ? send : receive;
        ASSERT_EQ(all_reduce(comm, send, to, op), ncclSuccess);
        if (step < 3) {
          EXPECT_EQ(send, send_before);
        }
        results[static_cast<std::size_t>(rank)] = to;
      }
    });
    for (int rank = 1; rank < kSize; ++rank) {
      EXPECT_EQ(results[0], results[static_cast<std::size_t>(rank)]) << rank;
    }
    // Only the two hosts' sums are quantised, so the error is that of two contributions.
    const double divisor = op == ncclAvg ? kSize : 1;
    double squared = 0, norm = 0;
    std::vector<std::vector<float>> all;
    for (int peer = 0; peer < kSize; ++peer) all.push_back(make_values(peer, kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      const double sum = (double{all[0][i]} + all[1][i] + all[2][i] + all[3][i]) / divisor;
      squared += (results[0][i] - sum) * (results[0][i] - sum);
      norm += sum * sum;
      if (i + 1 == kCount) {
        EXPECT_NEAR(results[0][i], sum, 1e-5);
      }
    }
    EXPECT_GT(squared / norm, 1e-6);
    EXPECT_LT(std::sqrt(squared / norm), tried.largest_error);
  }
}

TEST(Hier, IsTheDefaultWhereHostsHaveAsManyRanks) {
  struct Hosts {
    std::vector<int> hosts;
    const char* algorithm;
  };
  for (const Hosts& tried :
       {Hosts{{0, 1, 0, 1}, "hier"}, Hosts{{0, 0, 1}, "sra"}, Hosts{{0, 1}, "sra"}}) {
    const std::string file = ::testing::TempDir() + "interposer_statistics";
    std::remove(file.c_str());
    const Settings settings = make_settings({{"RINGPRESS_STATS", file}});
    run_hosts(settings, tried.hosts, [&](const std::shared_ptr<Comm>& comm, int rank) {
      std::vector<float> values = make_values(rank, 20000);
      ASSERT_EQ(all_reduce(comm, values, values, ncclSum), ncclSuccess);
    });
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    EXPECT_NE(text.str().find("\"" + std::string(tried.algorithm) + "\""), std::string::npos)
        << text.str();
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
