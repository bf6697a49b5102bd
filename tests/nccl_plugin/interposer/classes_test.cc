// Door A under RINGPRESS_CODEC=auto: gradients are compressed, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr int kRanksOfClasses = 2;
constexpr std::size_t kSmallBucket = 20000, kLargeBucket = 30000;

/// Whether the last sum of any step is lossy; `make_step` makes the calls of one step and gives
/// that sum. All ranks have the same sums.
template <typename MakeStep>
bool is_ever_compressed(int steps, MakeStep make_step) {
  std::vector<std::vector<std::vector<float>>> sums(kRanksOfClasses);
  run_hosts(make_settings({{"RINGPRESS_CODEC", "auto"}}), {0, 1},
            [&](const std::shared_ptr<Comm>& comm, int rank) {
              for (int step = 0; step < steps; ++step) {
                sums[static_cast<std::size_t>(rank)].push_back(make_step(comm, rank, step));
              }
            });
  EXPECT_EQ(sums[0], sums[1]);
  const std::size_t count = sums[0][0].size();
  const std::vector<float> first = make_values(0, count), second = make_values(1, count);
  float error = 0;
  for (const std::vector<float>& sum : sums[0]) {
    for (std::size_t i = 0; i < count; ++i) {
      error = std::max(error, std::abs(sum[i] - first[i] - second[i]));
    }
  }
  return error > 1e-3F;
}

void reduce_into(const std::shared_ptr<Comm>& comm, const std::vector<float>& send,
                 std::vector<float>& sum) {
  ASSERT_EQ(all_reduce(comm, send, sum, ncclSum), ncclSuccess);
}

/// A step of two buckets, which have buffers of their own.
struct TwoBuckets {
  std::vector<float> small, large, small_sum, large_sum;

  explicit TwoBuckets(int rank)
      : small(make_values(rank, kSmallBucket)),
        large(make_values(rank, kLargeBucket)),
        small_sum(kSmallBucket),
        large_sum(kLargeBucket) {}
};

TEST(InterposerClasses, BucketsWithBuffersOfTheirOwnAreGradients) {
  std::vector<TwoBuckets> buckets{TwoBuckets(0), TwoBuckets(1)};
  EXPECT_TRUE(is_ever_compressed(20, [&](const auto& comm, int rank, int) {
    TwoBuckets& mine = buckets[static_cast<std::size_t>(rank)];
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    reduce_into(comm, mine.small, mine.small_sum);
    reduce_into(comm, mine.large, mine.large_sum);
    return mine.large_sum;
  }));
}

/// The other rank's own buffers do not help: what the ranks vote holds for both.
TEST(InterposerClasses, OneRankWhoseBuffersChangeSaysNo) {
  std::vector<TwoBuckets> buckets{TwoBuckets(0), TwoBuckets(1)};
  EXPECT_FALSE(is_ever_compressed(12, [&](const auto& comm, int rank, int step) {
    TwoBuckets& mine = buckets[static_cast<std::size_t>(rank)];
    std::vector<float> moved(kLargeBucket + 12);
    const auto first = moved.begin() + (rank == 1 ? step : 0);
    std::copy(mine.large.begin(), mine.large.end(), first);
    reduce_into(comm, mine.small, mine.small_sum);
    Call call;
    call.send = &*first;
    call.receive = mine.large_sum.data();
    call.count = kLargeBucket;
    call.comm = comm->handle();
    PlannedCall planned{call};
    if (!comm->planner().plan(&planned)) {
      EXPECT_EQ(run_exactly(recording_nccl(), call), ncclSuccess);
    } else {
      const AcceptedCall accepted{comm, planned};
      EXPECT_EQ(run_calls(recording_nccl(), {&accepted, 1}), ncclSuccess);
    }
    return mine.large_sum;
  }));
}

/// Beside buckets of their own.
TEST(InterposerClasses, SumsInNewBuffersAreNoGradients) {
  std::vector<TwoBuckets> buckets{TwoBuckets(0), TwoBuckets(1)};
  std::vector<std::vector<std::vector<float>>> kept(2);  // So that no address comes again.
  EXPECT_FALSE(is_ever_compressed(12, [&](const auto& comm, int rank, int) {
    TwoBuckets& mine = buckets[static_cast<std::size_t>(rank)];
    std::vector<std::vector<float>>& own = kept[static_cast<std::size_t>(rank)];
    own.push_back(make_values(rank, 2 * kSmallBucket));
    std::vector<float> sum(2 * kSmallBucket);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    reduce_into(comm, mine.small, mine.small_sum);
    reduce_into(comm, own.back(), sum);
    reduce_into(comm, mine.large, mine.large_sum);
    return sum;
  }));
}

/// Layer by layer, through two blocks of memory in turn, with a longer pause backward.
TEST(InterposerClasses, ActivationsOfEqualLayersAreNotCompressed) {
  std::vector<std::vector<std::vector<float>>> blocks;
  for (int rank = 0; rank < kRanksOfClasses; ++rank) {
    blocks.push_back({make_values(rank, kLargeBucket), make_values(rank, kLargeBucket)});
  }
  EXPECT_FALSE(is_ever_compressed(12, [&](const auto& comm, int rank, int) {
    std::vector<float> sum(kLargeBucket);
    for (int layer = 0; layer < 12; ++layer) {
      reduce_into(comm, blocks[static_cast<std::size_t>(rank)][layer % 2], sum);
    }
    return sum;
  }));
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
