// After its first calls door A's engine allocates no host memory, in any algorithm. What NVIDIA's
// library would do is a stand-in's here, which does allocate: that is not counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/call_counter.h"
#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kValues = 700001;  // Several chunks.
constexpr int kFirstCalls = 4;
constexpr int kCountedCalls = 8;
// Of a projection's kernels on host memory, for Q, in each all-reduce. Those of a device have none.
constexpr long kOfHostProjection = 5;

/// A function of the stand-in, uncounted.
template <auto kField, typename Function>
struct Uncounted;
template <auto kField, typename... Args>
struct Uncounted<kField, ncclResult_t (*)(Args...)> {
  static ncclResult_t call(Args... args) {
    testing::pause_counting_thread();
    const ncclResult_t result = (recording_nccl().*kField)(args...);
    testing::resume_counting_thread();
    return result;
  }
};

const ringpressRealNccl& uncounted_nccl() {
  static const ringpressRealNccl table = [] {
    ringpressRealNccl uncounted = recording_nccl();
#define REPLACE(name) \
  uncounted.name = Uncounted<&ringpressRealNccl::name, decltype(ringpressRealNccl::name)>::call;
    REPLACE(GroupStart)
    REPLACE(GroupEnd)
    REPLACE(Send)
    REPLACE(Recv)
    REPLACE(AllReduce)
    REPLACE(ReduceScatter)
    REPLACE(AllGather)
    REPLACE(CommRevoke)
#undef REPLACE
    return uncounted;
  }();
  return table;
}

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

/// What becomes of two ranks whose second one is out of memory at some point of its first call:
/// true if that point was reached.
bool run_out_of_memory(long first_to_fail, bool and_all_after) {
  bool reached = false;
  Job job(make_settings({{"RINGPRESS_EF", "0"}}), uncounted_nccl());
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> values(kValues, rank == 0 ? 1.0f : 2.0f);
    std::vector<float> sums(kValues);
    if (rank == 1) {
      testing::start_counting_thread();
      testing::fail_thread_allocations(first_to_fail, and_all_after);
    }
    const ncclResult_t first = job.all_reduce(comm, values, sums);
    if (rank == 1) reached = testing::stop_counting_thread() > first_to_fail;
    ncclResult_t failure = ncclSuccess;
    EXPECT_EQ(job.engine.async_error(comm, &failure), ncclSuccess);
    if (first == ncclSuccess && failure == ncclSuccess) {
      EXPECT_EQ(sums.front(), 3.0f);
    }
    if (rank == 1) {
      EXPECT_EQ(first == ncclSuccess, failure == ncclSuccess);
    }
    // What comes after it never meets the first call of the other rank.
    const std::vector<float> other(kValues, 100.0f);
    if (job.all_reduce(comm, other, sums) == ncclSuccess) {
      EXPECT_EQ(sums.front(), 200.0f);
    }
  });
  return reached;
}

/// Two ranks split their communicator; an allocation of rank 1 fails while it makes what it keeps
/// of the child. Gives how many there were until then; first_to_fail < 0: none fails.
long run_out_of_memory_in_a_split(long first_to_fail) {
  long allocations = 0;
  Job job(make_settings(), uncounted_nccl());
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    ncclComm_t child = nullptr;
    ASSERT_EQ(job.engine.real().CommSplit(comm, 0, rank, &child, nullptr), ncclSuccess);
    if (rank == 1) {
      testing::start_counting_thread();
      testing::fail_thread_allocations(first_to_fail, false);
    }
    job.engine.made_child(&child, comm, 0);
    if (rank == 1) allocations = testing::stop_counting_thread();
    const std::vector<float> values(kValues, rank == 0 ? 1.0f : 2.0f);
    std::vector<float> sums(kValues);
    EXPECT_EQ(job.all_reduce(child, values, sums), ncclSuccess) << first_to_fail;
    EXPECT_EQ(sums.front(), 3.0f) << first_to_fail;
    job.destroy(child);
  });
  return allocations;
}

TEST(InterposerMemory, ThatIsNotThereForAChildMeansPlainNccl) {
  // The first ones are of the communicator itself, most of codecs and devices.
  const long all = run_out_of_memory_in_a_split(-1);
  for (const long point : {10L, all / 4, all / 2, all * 3 / 4}) run_out_of_memory_in_a_split(point);
}

TEST(InterposerMemory, ThatIsNotThereEndsACommunicatorAndNothingElse) {
  for (const bool and_all_after : {false, true}) {
    long point = 0;
    while (run_out_of_memory(point, and_all_after)) ++point;
    EXPECT_GT(point, 3) << "of a thread's first call";
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
