// Door A where devices are behind their programs, and ranks behind each other, by random times.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "nccl_plugin/interposer/calls/runner.h"
#include "tests/support/queued_device.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kSizesOfBuckets[] = {3000, 5000, 4000};
constexpr std::size_t kMostValues = 5000;

/// One rank of a training: its gradients are made in its stream, and its sums kept there.
class LateRank {
 public:
  LateRank(const ringpressRealNccl& real, const Settings& settings, ncclComm_t handle, int rank,
           microseconds most_delay)
      : real_(real),
        rank_(rank),
        device_(std::make_shared<QueuedDevice>(most_delay, 1000U * static_cast<unsigned>(rank))),
        comm_(Comm::make(real, settings, handle, {1, ""}, device_).value()),
        stream_(device_->create_stream().value()) {
    std::vector<int> hosts(static_cast<std::size_t>(comm_->size()));
    for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i] = static_cast<int>(i);
    comm_->policy().set_hosts(hosts);
    EXPECT_TRUE(comm_->prepare_to_compress().is_ok());
    comm_->open();
    for (const std::size_t count : kSizesOfBuckets) {
      gradients_.emplace_back(count);
      sums_.emplace_back(count);
    }
  }

  ~LateRank() { finish(); }
  LateRank(const LateRank&) = delete;
  LateRank& operator=(const LateRank&) = delete;

  Comm& comm() { return *comm_; }
  /// Of each step, the sums of the first values of its buckets.
  const std::vector<std::vector<float>>& kept() const { return kept_; }

  /// Asks for one step; `is_group`: its calls are one group.
  ncclResult_t make_step(int step, bool is_group) {
    std::vector<AcceptedCall> accepted;
    for (std::size_t bucket = 0; bucket < gradients_.size(); ++bucket) {
      queue_of(stream_).push([this, step, bucket] { fill(step, bucket); });
      PlannedCall planned{call_of(bucket)};
      if (!comm_->planner().plan(&planned)) {
        const ncclResult_t result = run_exactly(real_, planned.call);
        if (result != ncclSuccess) return result;
        continue;
      }
      accepted.push_back({comm_, planned});
      if (is_group) continue;
      const ncclResult_t result = run_calls(real_, accepted);
      if (result != ncclSuccess) return result;
      accepted.clear();
    }
    const ncclResult_t result = run_calls(real_, accepted);
    queue_of(stream_).push([this] { keep(); });
    return result;
  }
  void finish() { queue_of(stream_).drain(); }

  static float value_of(int rank, int step, std::size_t bucket, std::size_t i) {
    const auto salt = static_cast<unsigned>(step * 8 + static_cast<int>(bucket));
    std::minstd_rand dice(1 + static_cast<unsigned>(rank) * 7919U + salt * 104729U +
                          static_cast<unsigned>(i) * 31U);
    dice.discard(3);
    return static_cast<float>(dice() % 2001U) / 1000.0F - 1.0F;
  }

 private:
  Call call_of(std::size_t bucket) {
    Call call;
    call.send = gradients_[bucket].data();
    call.receive = sums_[bucket].data();
    call.count = gradients_[bucket].size();
    call.comm = comm_->handle();
    call.stream = static_cast<cudaStream_t>(stream_);
    return call;
  }
  void fill(int step, std::size_t bucket) {
    std::vector<float>& values = gradients_[bucket];
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank_, step, bucket, i);
  }
  void keep() {
    std::vector<float> all;
    for (const std::vector<float>& sum : sums_) all.insert(all.end(), sum.begin(), sum.end());
    kept_.push_back(std::move(all));
  }

  const ringpressRealNccl& real_;
  const int rank_;
  const std::shared_ptr<QueuedDevice> device_;
  const std::shared_ptr<Comm> comm_;
  const Stream stream_;
  std::vector<std::vector<float>> gradients_, sums_, kept_;
};

/// Runs body(handle, rank) in threads that form one communicator.
template <typename Body>
void run_late_ranks(const ringpressRealNccl& real, int size, Body body) {
  ncclUniqueId id{};
  ASSERT_EQ(real.GetUniqueId(&id), ncclSuccess);
  run_threads(size, [&](int rank) {
    ncclComm_t handle = nullptr;
    ASSERT_EQ(real.CommInitRank(&handle, size, id, rank), ncclSuccess);
    body(handle, rank);
  });
}

bool is_exact(const std::vector<float>& kept, int step, int size) {
  std::size_t first = 0;
  for (std::size_t bucket = 0; bucket < std::size(kSizesOfBuckets); ++bucket) {
    for (std::size_t i = 0; i < kSizesOfBuckets[bucket]; ++i) {
      float sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += LateRank::value_of(rank, step, bucket, i);
      if (std::abs(kept[first + i] - sum) > 1e-4F) return false;
    }
    first += kSizesOfBuckets[bucket];
  }
  return true;
}

constexpr int kLateSteps = 24;

/// What a rank's program and its device are late by.
struct Lateness {
  microseconds device{0};   // Before each piece of work.
  microseconds program{0};  // Before each step.
  int steps_between = 1;    // The program waits for its device.
};

/// By seed: late devices, late programs, or both; which steps are groups; and whether pauses say
/// what sums are. If they do not, it is certain that these are gradients, however busy the machine.
void train(unsigned seed) {
  std::mt19937 dice(seed);
  const int size = 2 + static_cast<int>(seed % 3);
  std::vector<Lateness> ranks(static_cast<std::size_t>(size));
  for (Lateness& rank : ranks) {
    rank.device = microseconds(dice() % 2 * 200);
    rank.program = microseconds(dice() % 4 * 1000);
    rank.steps_between = 1 + static_cast<int>(dice() % 8);
  }
  std::vector<bool> is_group;
  for (int step = 0; step < kLateSteps; ++step) is_group.push_back(dice() % 3 == 0);
  const bool measures_pauses = seed % 2 == 0;
  const Settings settings =
      make_settings({{"RINGPRESS_CODEC", "auto"},
                     {"RINGPRESS_EF", "0"},
                     {"RINGPRESS_DETERMINISTIC", measures_pauses ? "0" : "1"}});
  QueuedNccl nccl;
  const ringpressRealNccl& real = nccl.table();
  LongestWait longest;
  std::mutex mutex;
  std::vector<std::vector<std::vector<float>>> kept(ranks.size());
  run_late_ranks(real, size, [&](ncclComm_t handle, int rank) {
    const auto number = static_cast<std::size_t>(rank);
    const Lateness& late = ranks[number];
    std::mt19937 own_dice(seed * 100 + static_cast<unsigned>(rank));
    {
      LateRank training(real, settings, handle, rank, late.device);
      for (int step = 0; step < kLateSteps; ++step) {
        std::this_thread::sleep_for(
            microseconds(2000 + own_dice() % (1 + static_cast<unsigned>(late.program.count()))));
        ASSERT_EQ(training.make_step(step, is_group[static_cast<std::size_t>(step)]), ncclSuccess);
        if (step % late.steps_between == 0) training.finish();
      }
      training.finish();
      kept[number] = training.kept();
      const std::lock_guard lock(mutex);
      longest.note(training.comm().lifetime().watch().waits->value());
    }
    ASSERT_EQ(real.CommDestroy(handle), ncclSuccess);
  });
  int lossy_steps = 0;
  for (int step = 0; step < kLateSteps; ++step) {
    const auto number = static_cast<std::size_t>(step);
    for (const auto& of_rank : kept) ASSERT_EQ(of_rank[number], kept[0][number]) << step;
    lossy_steps += is_exact(kept[0][number], step, size) ? 0 : 1;
  }
  if (!measures_pauses) {
    EXPECT_GT(lossy_steps, 0) << "nothing was taken for a gradient";
  }
  const std::chrono::duration<double, std::milli> waited = longest.value();
  std::printf("%d ranks: %d of %d steps are lossy; longest wait in a call: %.1f ms\n", size,
              lossy_steps, kLateSteps, waited.count());
}

class InterposerLateRanks : public ::testing::TestWithParam<unsigned> {};

TEST_P(InterposerLateRanks, HaveTheSameSums) {
  train(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Seeds, InterposerLateRanks, ::testing::Range(0U, 8U));

/// A rank waits in a call for what another one votes, which never comes to it: the wait ends when
/// another thread aborts the communicator.
TEST(InterposerLateRanks, AnAbortEndsAWaitForAVote) {
  const Settings settings = make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_EF", "0"}});
  QueuedNccl nccl;
  const ringpressRealNccl& real = nccl.table();
  constexpr int kStepsOfOther = 4;  // One fewer than what the ranks vote with.
  Milestone waiting_ended;
  run_late_ranks(real, 2, [&](ncclComm_t handle, int rank) {
    LateRank training(real, settings, handle, rank, microseconds(0));
    if (rank == 1) {
      for (int step = 0; step < kStepsOfOther; ++step) {
        ASSERT_EQ(training.make_step(step, false), ncclSuccess);
      }
      waiting_ended.wait();  // Whoever aborts ends what the other waits for, too.
      training.comm().lifetime().retire();
      static_cast<void>(real.CommAbort(handle));
      return;
    }
    std::atomic<int> made{0};
    ncclResult_t result = ncclSuccess;
    std::thread program([&] {
      for (; made < kLateSteps && result == ncclSuccess; ++made) {
        result = training.make_step(made, false);
      }
    });
    // Nothing tells that a thread waits: its steps stop.
    for (int before = -1; before != made || made < kStepsOfOther;) {
      before = made;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    training.comm().lifetime().retire();
    static_cast<void>(real.CommAbort(handle));
    program.join();
    EXPECT_NE(result, ncclSuccess);
    EXPECT_LT(made, kLateSteps);
    waiting_ended.reach();
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
