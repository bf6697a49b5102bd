// Door A: in the first steps calls are left to the real library, RINGPRESS_WARMUP_STEPS.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kStepsOfWarmUp = 3;

/// By step, whether each of its calls was lossy. All ranks have the same sums.
std::vector<std::vector<bool>> lossy_calls(const std::vector<std::size_t>& counts,
                                           std::size_t steps, const char* codec) {
  constexpr int kRanksOfWarmUp = 2;
  std::vector<std::vector<std::vector<float>>> sums(kRanksOfWarmUp);
  run_hosts(make_settings({{"RINGPRESS_CODEC", codec}, {"RINGPRESS_WARMUP_STEPS", "3"}}), {0, 1},
            [&](const std::shared_ptr<Comm>& comm, int rank) {
              std::vector<std::vector<float>> own;
              for (const std::size_t count : counts) own.push_back(make_values(rank, count));
              for (std::size_t step = 0; step < steps; ++step) {
                for (const std::vector<float>& values : own) {
                  std::vector<float> sum(values.size());
                  ASSERT_EQ(all_reduce(comm, values, sum, ncclSum), ncclSuccess);
                  sums[static_cast<std::size_t>(rank)].push_back(std::move(sum));
                }
              }
            });
  EXPECT_EQ(sums[0], sums[1]);
  std::vector<std::vector<bool>> lossy(steps);
  for (std::size_t i = 0; i < sums[0].size(); ++i) {
    const std::vector<float>& sum = sums[0][i];
    const std::vector<float> first = make_values(0, sum.size()),
                             second = make_values(1, sum.size());
    bool is_lossy = false;
    for (std::size_t k = 0; k < sum.size(); ++k) is_lossy |= sum[k] != first[k] + second[k];
    lossy[i / counts.size()].push_back(is_lossy);
  }
  return lossy;
}

TEST(InterposerWarmUp, LeavesTheFirstStepsToTheRealLibrary) {
  for (const char* const codec : {"q4", "sign", "powersgd"}) {
    const auto lossy = lossy_calls({20000, 30000}, 7, codec);
    for (std::size_t step = 0; step < lossy.size(); ++step) {
      EXPECT_EQ(lossy[step], std::vector<bool>(2, step >= kStepsOfWarmUp)) << codec << " " << step;
    }
  }
}

TEST(InterposerWarmUp, OfOneTensorGoesByItsCalls) {
  const auto lossy = lossy_calls({20000}, 6, "q4");
  for (std::size_t step = 0; step < lossy.size(); ++step) {
    EXPECT_EQ(lossy[step], std::vector<bool>{step >= kStepsOfWarmUp}) << step;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
