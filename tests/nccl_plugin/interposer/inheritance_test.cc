// What ranks go on with whose communicator was shrunk, part by part.
#include "nccl_plugin/interposer/comm/inheritance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

const std::vector<int> kHostsOfHeirs = {0, 1};
constexpr std::size_t kBucketOfHeirs = 20000;

/// Another communicator of the same ranks.
std::shared_ptr<Comm> make_heir(const Settings& settings, const std::shared_ptr<Comm>& parent) {
  const ringpressRealNccl& real = recording_nccl();
  ncclComm_t handle = nullptr;
  EXPECT_EQ(real.CommSplit(parent->handle(), 0, parent->rank(), &handle, nullptr), ncclSuccess);
  std::shared_ptr<Comm> heir = Comm::make(real, settings, handle, {2, ""}).value();
  heir->policy().set_hosts(kHostsOfHeirs);
  EXPECT_TRUE(heir->prepare_to_compress().is_ok());
  heir->open();
  return heir;
}

/// A step of two buckets of their own, between pauses.
struct HeirBuckets {
  explicit HeirBuckets(int rank)
      : small(make_values(rank, kBucketOfHeirs)), large(make_values(rank, 2 * kBucketOfHeirs)) {}

  std::vector<float> small, large;
  std::vector<float> small_sum = std::vector<float>(kBucketOfHeirs);
  std::vector<float> large_sum = std::vector<float>(2 * kBucketOfHeirs);

  /// Whether it was compressed, for which its sum is not exact.
  bool step(const std::shared_ptr<Comm>& comm) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(all_reduce(comm, small, small_sum, ncclSum), ncclSuccess);
    EXPECT_EQ(all_reduce(comm, large, large_sum, ncclSum), ncclSuccess);
    const std::vector<float> first = make_values(0, large.size());
    const std::vector<float> second = make_values(1, large.size());
    float error = 0;
    for (std::size_t i = 0; i < large.size(); ++i) {
      error = std::max(error, std::abs(large_sum[i] - first[i] - second[i]));
    }
    return error > 1e-3F;
  }
};

/// Whether the first step of an heir is compressed, and one after some more, in automatic mode.
std::vector<bool> steps_of_heir(Alike alike) {
  std::vector<bool> compressed;
  const Settings settings = make_settings({{"RINGPRESS_CODEC", "auto"}});
  std::vector<std::unique_ptr<Inheritance>> inherited(2);
  std::barrier two(2);
  run_hosts(settings, kHostsOfHeirs, [&](const std::shared_ptr<Comm>& comm, int rank) {
    HeirBuckets buckets(rank);
    bool is_compressed = false;
    for (int step = 0; step < 20; ++step) is_compressed |= buckets.step(comm);
    EXPECT_TRUE(is_compressed);
    const std::shared_ptr<Comm> heir = make_heir(settings, comm);
    auto& mine = inherited[static_cast<std::size_t>(rank)];
    mine = std::make_unique<Inheritance>(comm, heir);
    two.arrive_and_wait();
    EXPECT_EQ(inherited[0]->number_of_all(), inherited[1]->number_of_all());
    EXPECT_EQ(inherited[0]->number_of_classes(), inherited[1]->number_of_classes());
    EXPECT_GT(mine->number_of_classes(), 0);
    mine->give(alike);
    for (int step = 0; step < 12; ++step) {
      const bool is_step_compressed = buckets.step(heir);
      if (rank == 0) compressed.push_back(is_step_compressed);
    }
    two.arrive_and_wait();
    mine.reset();
    EXPECT_EQ(recording_nccl().CommDestroy(heir->handle()), ncclSuccess);
  });
  return compressed;
}

TEST(InterposerInheritance, GradientsAreKnownAtOnce) {
  EXPECT_TRUE(steps_of_heir(Alike::kAll).front());
  EXPECT_TRUE(steps_of_heir(Alike::kClasses).front());
}

/// Where ranks do not know the same, they find it out anew.
TEST(InterposerInheritance, GradientsAreFoundAnewWhereRanksDiffer) {
  const std::vector<bool> compressed = steps_of_heir(Alike::kNothing);
  EXPECT_FALSE(compressed.front());
  EXPECT_NE(std::count(compressed.begin(), compressed.end(), true), 0);
}

/// A rank that has begun one more call has another number; what the calls are, it knows alike.
TEST(InterposerInheritance, ANumberTellsRanksAtOtherCalls) {
  const Settings settings = make_settings();
  std::vector<std::int32_t> all(2), classes(2);
  run_hosts(settings, kHostsOfHeirs, [&](const std::shared_ptr<Comm>& comm, int rank) {
    HeirBuckets buckets(rank);
    for (int step = 0; step < 3; ++step) buckets.step(comm);
    if (rank == 1) ++comm->starter().turns().calls;
    const std::shared_ptr<Comm> heir = make_heir(settings, comm);
    const Inheritance inherited(comm, heir);
    all[static_cast<std::size_t>(rank)] = inherited.number_of_all();
    classes[static_cast<std::size_t>(rank)] = inherited.number_of_classes();
    EXPECT_EQ(recording_nccl().CommDestroy(heir->handle()), ncclSuccess);
  });
  EXPECT_NE(all[0], all[1]);
  EXPECT_EQ(classes[0], classes[1]);
}

/// What was left out of calls comes in the heir's, whatever else ranks have alike.
TEST(InterposerInheritance, ResidualsAreOnesOwn) {
  for (const Alike alike : {Alike::kNothing, Alike::kClasses, Alike::kAll}) {
    const Settings settings = make_settings({{"RINGPRESS_CODEC", "topk:density=0.1,select=chunk"}});
    std::vector<std::vector<float>> sums(2);
    std::barrier two(2);
    run_hosts(settings, kHostsOfHeirs, [&](const std::shared_ptr<Comm>& comm, int rank) {
      const std::vector<float> ones(kBucketOfHeirs, 1);
      std::vector<float>& sum = sums[static_cast<std::size_t>(rank)];
      sum.resize(kBucketOfHeirs);
      for (int call = 0; call < 7; ++call) {
        EXPECT_EQ(all_reduce(comm, ones, sum, ncclSum), ncclSuccess);
      }
      const std::shared_ptr<Comm> heir = make_heir(settings, comm);
      Inheritance(comm, heir).give(alike);
      EXPECT_EQ(all_reduce(heir, ones, sum, ncclSum), ncclSuccess);
      EXPECT_GE(*std::max_element(sum.begin(), sum.end()), 10);
      two.arrive_and_wait();
      EXPECT_EQ(recording_nccl().CommDestroy(heir->handle()), ncclSuccess);
    });
    EXPECT_EQ(sums[0], sums[1]);
  }
}

/// What compressing gains is not tried anew.
TEST(InterposerInheritance, VerdictsThatHoldGoOn) {
  tuning::GuardedClass turns;
  for (int call = 0; !turns.is_settled() && call < 100; ++call) {
    if (turns.awaits_verdict()) turns.apply(tuning::Verdict::kExact);
    static_cast<void>(turns.next());
  }
  ASSERT_TRUE(turns.is_settled());
  SettledClasses settled, loaded;
  settled.all()[{CollectiveKind::kAllReduce, DType::kFloat32, 16}] = {turns, true};
  StateBytes saved;
  settled.save(saved);
  StateView from(saved.bytes());
  loaded.load(from);
  ASSERT_TRUE(from.is_ok());
  EXPECT_EQ(from.left(), 0U);
  const auto device = make_host_device();
  const Settings settings = make_settings({{"RINGPRESS_CODEC", "auto"}});
  const auto guard = StreamGuard::make(*device, settings, 0).value();
  PlanRequest request;
  request.count = 20000;
  EXPECT_EQ(guard->look_at(request), StreamGuard::Answer::kAsk);
  guard->prepare(loaded);
  EXPECT_EQ(guard->look_at(request), StreamGuard::Answer::kAsk);
  guard->adopt(loaded);
  EXPECT_EQ(guard->look_at(request), StreamGuard::Answer::kExact);
  EXPECT_TRUE(guard->wants_scales(request));
  EXPECT_EQ(guard->settled().all().size(), 1U);
  // What makes no sense is not taken.
  for (std::size_t bytes = 0; bytes < saved.bytes().size(); ++bytes) {
    StateView cut(std::span(saved.bytes()).first(bytes));
    SettledClasses none;
    none.load(cut);
    EXPECT_FALSE(cut.is_ok()) << bytes;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
