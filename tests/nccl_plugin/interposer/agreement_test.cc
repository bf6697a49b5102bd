// Codecs for which the ranks of door A agree on something first, in one process. That their bytes
// are door C's is interposer_test.cc's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// In one block of one rank: the others are told by what they agree on.
TEST(InterposerAgreement, NanPassesThrough) {
  constexpr std::size_t kCount = 20000;
  for (const char* codec : {"qsgd:block=512", "qsgd:norm=global", "qsgd-ms"}) {
    for (const char* algorithm : {"sra", "ring"}) {
      Job job(make_settings({{"RINGPRESS_CODEC", codec}, {"RINGPRESS_ALGO", algorithm}}));
      std::vector<std::vector<float>> results(3);
      run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
        std::vector<float> values = make_values(rank, kCount);
        if (rank == 1) values[1500] = std::nanf("");
        ASSERT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
        results[static_cast<std::size_t>(rank)] = values;
      });
      EXPECT_TRUE(std::isnan(results[0][1500])) << codec << ' ' << algorithm;
      const bool is_global = std::string(codec).ends_with("global");
      EXPECT_EQ(std::isnan(results[0][kCount - 1]), is_global) << codec << ' ' << algorithm;
      for (const auto& result : results) {
        EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kCount * sizeof(float)), 0);
      }
    }
  }
}

/// Some chunks are agreed on while others are under way.
TEST(InterposerAgreement, ChunksChangeNothing) {
  constexpr std::size_t kCount = 40000;
  for (const char* codec : {"qsgd", "qsgd-ms", "qsgd-ms:norm=global"}) {
    for (const char* algorithm : {"sra", "ring"}) {
      std::vector<std::vector<float>> results;
      std::vector<int> sent;
      for (const char* chunk : {"0", "8192"}) {
        sends = 0;
        Job job(make_settings({{"RINGPRESS_CODEC", codec},
                               {"RINGPRESS_ALGO", algorithm},
                               {"RINGPRESS_CHUNK_BYTES", chunk}}));
        run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
          std::vector<float> values = make_values(rank, kCount);
          for (int step = 0; step < 2; ++step) {
            ASSERT_EQ(job.all_reduce(comm, values, values, ncclAvg), ncclSuccess);
          }
          if (rank == 0) results.push_back(values);
        });
        sent.push_back(sends);
      }
      EXPECT_GT(sent[1], 3 * sent[0]) << "it was not cut into chunks";
      EXPECT_EQ(results[0], results[1]) << codec << ' ' << algorithm;
    }
  }
}

/// Agreed on from what each rank's residual adds to its values; the mean error falls over steps.
TEST(InterposerAgreement, CodesAverageOut) {
  constexpr std::size_t kCount = 30000;
  constexpr int kSteps = 24;
  for (const char* codec : {"qsgd:bits=3", "qsgd-ms:bits=2/4,norm=global,round=zero"}) {
    Job job(make_settings({{"RINGPRESS_CODEC", codec}}));
    run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
      const std::vector<float> send = make_values(rank, kCount);
      std::vector<float> receive(kCount), total(kCount), exact(kCount);
      for (int peer = 0; peer < 3; ++peer) {
        const std::vector<float> values = make_values(peer, kCount);
        for (std::size_t i = 0; i < kCount; ++i) exact[i] += values[i] / 3;
      }
      double first_error = 0, error = 0;
      for (int step = 1; step <= kSteps; ++step) {
        ASSERT_EQ(job.all_reduce(comm, send, receive, ncclAvg), ncclSuccess);
        error = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
          total[i] += receive[i];
          const double off = total[i] / static_cast<float>(step) - exact[i];
          error += off * off;
        }
        if (step == 1) first_error = error;
      }
      EXPECT_GT(first_error, 0) << codec;
      EXPECT_LT(error, 0.1 * first_error) << codec << " rank " << rank;
    });
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
