// After its first calls door A's engine allocates no host memory, in any algorithm. What NVIDIA's
// library would do is a stand-in's here, which does allocate: that is not counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/call_counter.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/uncounted_nccl.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kValues = 700001;  // Several chunks.
constexpr int kFirstCalls = 4;
constexpr int kCountedCalls = 8;
// Of a projection's kernels on host memory, for Q, in each all-reduce. Those of a device have none.
constexpr long kOfHostProjection = 5;

/// Allocations of this thread in the last of many calls.
template <typename MakeCalls>
long count_allocations(MakeCalls make_calls) {
  for (int i = 0; i < kFirstCalls; ++i) make_calls();
  testing::start_counting_thread();
  for (int i = 0; i < kCountedCalls; ++i) make_calls();
  return testing::stop_counting_thread();
}

struct Case {
  std::string name;
  std::string codec;
  std::string algorithm;
  int ranks = 3;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.codec << ", " << c.algorithm << ", " << c.ranks << " ranks";
}

class InterposerAllocations : public ::testing::TestWithParam<Case> {
 protected:
  Settings settings() const {
    return make_settings({{"RINGPRESS_CODEC", GetParam().codec},
                          {"RINGPRESS_ALGO", GetParam().algorithm},
                          {"RINGPRESS_ALL_GATHER", "1"}});
  }
};

/// One all-reduce, then a group of one of each kind.
TEST_P(InterposerAllocations, AreNoneAfterTheFirstCalls) {
  Job job(settings(), uncounted_nccl());
  run_ranks(job, GetParam().ranks, [&](ncclComm_t comm, int rank) {
    const auto ranks = static_cast<std::size_t>(GetParam().ranks);
    const std::vector<float> values = make_values(rank, kValues * ranks);
    std::vector<float> sums(values.size());
    const auto ask = [&](CollectiveKind kind) {
      ASSERT_EQ(job.engine.reduce({kind, values.data(), sums.data(), kValues, ncclFloat32, ncclSum,
                                   comm, nullptr}),
                ncclSuccess);
    };
    const int sent_before = all_reduces + sends;
    const long allocations = count_allocations([&] {
      ask(CollectiveKind::kAllReduce);
      ASSERT_EQ(job.engine.group_start(), ncclSuccess);
      ask(CollectiveKind::kAllReduce);
      ask(CollectiveKind::kReduceScatter);
      ask(CollectiveKind::kAllGather);
      ASSERT_EQ(job.engine.group_end(), ncclSuccess);
    });
    constexpr int kAllReduces = 2;
    const bool projects = GetParam().codec.starts_with("powersgd");
    EXPECT_EQ(allocations, projects ? kCountedCalls * kAllReduces * kOfHostProjection : 0);
    EXPECT_GT(all_reduces + sends, sent_before);
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* algorithm : {"sra", "ring"}) {
    for (const char* codec :
         {"q4", "fp16", "qsgd:bits=4", "qsgd-ms:bits=4/8", "topk", "randk", "powersgd:rank=2"}) {
      const std::string family = std::string(codec).substr(0, std::string(codec).find(':'));
      all.push_back(
          {std::to_string(all.size()) + "_" + family + "_" + algorithm, codec, algorithm});
    }
  }
  for (Case& c : all) std::replace(c.name.begin(), c.name.end(), '-', '_');
  return all;
}

INSTANTIATE_TEST_SUITE_P(Codecs, InterposerAllocations, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(InterposerAllocationsOfHier, AreNoneAfterTheFirstCalls) {
  const auto reduce = [](const std::shared_ptr<Comm>& comm, int rank) {
    const std::vector<float> values = make_values(rank, kValues);
    std::vector<float> sums(kValues);
    const long allocations = count_allocations(
        [&] { ASSERT_EQ(all_reduce(comm, values, sums, ncclSum, uncounted_nccl()), ncclSuccess); });
    EXPECT_EQ(allocations, 0);
  };
  run_hosts(make_settings({{"RINGPRESS_ALGO", "hier"}}), {0, 0, 1, 1}, reduce, uncounted_nccl());
}

/// Whether compressing gains anything is settled by the 200th call, and looked at again after the
/// 1000th. Rank 0 looks for a step besides, 8192 calls at most where it finds none.
TEST(InterposerAllocationsOfAutomaticMode, AreNoneWhileNothingIsToBeFoundOut) {
  constexpr int kWindow = 100, kWindows = 90;
  const auto reduce = [](const std::shared_ptr<Comm>& comm, int rank) {
    const std::vector<float> values = make_values(rank, 2000);
    std::vector<float> sums(values.size());
    std::vector<long> allocations;
    for (int window = 0; window < kWindows; ++window) {
      testing::start_counting_thread();
      for (int i = 0; i < kWindow; ++i)
        ASSERT_EQ(all_reduce(comm, values, sums, ncclSum, uncounted_nccl()), ncclSuccess);
      allocations.push_back(testing::stop_counting_thread());
    }
    EXPECT_EQ(*std::min_element(allocations.begin(), allocations.end()), 0) << rank;
    if (rank == 0) return;
    EXPECT_EQ(*std::max_element(allocations.begin() + 2, allocations.begin() + 9), 0);
  };
  run_hosts(make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}}), {0, 1},
            reduce, uncounted_nccl());
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
