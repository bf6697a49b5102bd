// What door A does where the program has no host memory left: the program goes
// on, whatever becomes of its calls.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "tests/support/call_counter.h"
#include "tests/support/interposer_job.h"
#include "tests/support/uncounted_nccl.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kElements = 700001;  // Several chunks.

/// What becomes of two ranks whose second one is out of memory at some point of
/// its first call: true if that point was reached.
bool run_out_of_memory(long first_to_fail, bool and_all_after) {
  bool reached = false;
  Job job(make_settings({{"RINGPRESS_EF", "0"}}), uncounted_nccl());
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> values(kElements, rank == 0 ? 1.0f : 2.0f);
    std::vector<float> sums(kElements);
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
    const std::vector<float> other(kElements, 100.0f);
    if (job.all_reduce(comm, other, sums) == ncclSuccess) {
      EXPECT_EQ(sums.front(), 200.0f);
    }
  });
  return reached;
}

/// Where allocations fail, and how many there were in all.
struct Failing {
  long point = -1;  // None fails.
  bool and_all_after = false;
  long allocations = 0;  // Set by stop().

  void start() const {
    testing::start_counting_thread();
    testing::fail_thread_allocations(point, and_all_after);
  }
  void stop() { allocations = testing::stop_counting_thread(); }
};

/// Both ranks have the sum, or at least one an error: none waits for the other.
void expect_sum_or_error(Job& job, ncclComm_t comm, int rank, const Failing& failing) {
  const std::vector<float> values(kElements, rank == 0 ? 1.0f : 2.0f);
  std::vector<float> sums(kElements);
  const ncclResult_t result = job.all_reduce(comm, values, sums);
  if (result == ncclSuccess) {
    EXPECT_EQ(sums.front(), 3.0f) << failing.point;
  }
  if (failing.point < 0) {
    EXPECT_EQ(result, ncclSuccess);
  }
}

std::atomic<int> revokes{0};
thread_local int gathers = 0;

/// The stand-in, which counts what ranks tell each other.
const ringpressRealNccl& watched_nccl() {
  static const ringpressRealNccl table = [] {
    ringpressRealNccl watched = uncounted_nccl();
    watched.AllGather = [](const void* send, void* receive, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
      ++gathers;
      return uncounted_nccl().AllGather(send, receive, count, dtype, comm, stream);
    };
    watched.CommRevoke = [](ncclComm_t comm, int flags) {
      ++revokes;
      return uncounted_nccl().CommRevoke(comm, flags);
    };
    return watched;
  }();
  return table;
}

/// Two ranks split their communicator; allocations of rank 1 fail while it
/// makes what it keeps of the child and tells the other rank.
void run_out_of_memory_in_a_split(Failing& failing) {
  Job job(make_settings(), watched_nccl());
  std::array<int, 2> gathered{};
  revokes = 0;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    ncclComm_t child = nullptr;
    ASSERT_EQ(job.engine.making().expect_child(), ncclSuccess);
    ASSERT_EQ(job.engine.real().CommSplit(comm, 0, rank, &child, nullptr), ncclSuccess);
    gathers = 0;
    if (rank == 1) failing.start();
    job.engine.making().made_child(&child, comm, 0);
    if (rank == 1) failing.stop();
    gathered.at(static_cast<std::size_t>(rank)) = gathers;
    expect_sum_or_error(job, child, rank, failing);
    job.destroy(child);
    expect_sum_or_error(job, comm, rank, {});
  });  // With NVIDIA's library a rank waits for ever for another that does not
       // do its part.
  EXPECT_TRUE(revokes > 0 || gathered[0] == gathered[1]) << failing.point;
}

/// The same of a communicator of an id.
void run_out_of_memory_in_a_meeting(Failing& failing) {
  Job job(make_settings({{"RINGPRESS_TIMEOUT_MS", "100"}}), uncounted_nccl());
  const ncclUniqueId id = job.make_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    job.engine.making().joining(id);
    ASSERT_EQ(job.engine.real().CommInitRank(&comm, 2, id, rank), ncclSuccess);
    if (rank == 1) failing.start();
    job.engine.making().made_rank(&comm, id);
    if (rank == 1) failing.stop();
    expect_sum_or_error(job, comm, rank, failing);
    job.destroy(comm);
  });
}

/// The same of a first call, in a group, and of the end of the communicator.
void run_out_of_memory_in_a_group(Failing& failing) {
  Job job(make_settings({{"RINGPRESS_EF", "0"}, {"RINGPRESS_STATS", "/dev/null"}}),
          uncounted_nccl());
  const ncclUniqueId id = job.make_id();
  run_threads(2, [&](int rank) {
    const ncclComm_t comm = job.join(id, 2, rank);
    const std::vector<float> values(kElements, rank == 0 ? 1.0f : 2.0f);
    std::vector<float> sums(kElements);
    if (rank == 1) failing.start();
    ncclResult_t result = job.engine.group_start();
    if (result == ncclSuccess) {
      static_cast<void>(job.all_reduce(comm, values, sums));
      result = job.engine.group_end();
    }
    ncclResult_t failure = ncclSuccess;
    EXPECT_EQ(job.engine.async_error(comm, &failure), ncclSuccess);
    job.destroy(comm);
    if (rank == 1) failing.stop();
    if (result == ncclSuccess && failure == ncclSuccess) {
      EXPECT_EQ(sums.front(), 3.0f) << failing.point;
    }
  });
}

/// At every `stride`-th allocation. All of them would take a minute.
void fail_at_many_points(void (*run)(Failing&), long stride) {
  for (const bool and_all_after : {false, true}) {
    Failing none;
    run(none);
    EXPECT_GT(none.allocations, 3);
    for (long point = 1; point < none.allocations; point += stride) {
      Failing failing{point, and_all_after};
      run(failing);
    }
  }
}

/// Runs body() again and again on an engine that has run start(), each time
/// with the next one of its allocations failing, alone or with all that come
/// after it.
template <typename Start, typename Body>
void fail_each_allocation(Start start, Body body) {
  for (const bool and_all_after : {false, true}) {
    Failing failing{0, and_all_after};
    do {
      Job job(make_settings({{"RINGPRESS_STATS", "/dev/null"}}), uncounted_nccl());
      auto state = start(job);
      failing.start();
      body(job, state);
      failing.stop();
    } while (failing.point++ < failing.allocations);
    EXPECT_GT(failing.point, 2);
  }
}

TEST(InterposerMemory, ThatIsNotThereForAnIdEndsNothing) {
  const auto start = [](Job& job) {
    ncclUniqueId id{};
    EXPECT_EQ(job.engine.real().GetUniqueId(&id), ncclSuccess);
    return id;
  };
  fail_each_allocation(start, [](Job& job, ncclUniqueId& id) { job.engine.making().id_made(&id); });
}

TEST(InterposerMemory, ThatIsNotThereForAPlaceEndsNothing) {
  const auto start = [](Job& job) { return job.make_id(); };
  fail_each_allocation(start, [](Job& job, ncclUniqueId& id) {
    job.engine.making().joining(id);
    job.engine.making().not_joined(id, "its ncclCommInit answers ", ncclSystemError);
  });
}

/// All that is done for a communicator that is left to the real library.
void live_alone(Job& job, const ncclUniqueId& id, ncclComm_t comm) {
  Engine& engine = job.engine;
  float value = 1;
  ncclComm_t child = nullptr;
  engine.making().made_rank(&comm, id);
  if (engine.making().expect_child() == ncclSuccess) {
    EXPECT_EQ(engine.real().CommSplit(comm, 0, 0, &child, nullptr), ncclSuccess);
    engine.making().made_child(&child, comm, 0);
    engine.making().made_nonblocking(&child);
    job.destroy(child);
  }
  EXPECT_EQ(engine.reduce({CollectiveKind::kAllReduce, &value, &value, 1, ncclFloat32, ncclSum,
                           comm, nullptr}),
            ncclSuccess);
  job.destroy(comm);
}

TEST(InterposerMemory, ThatIsNotThereForASingleRankEndsNothing) {
  struct Alone {
    ncclUniqueId id{};
    ncclComm_t comm = nullptr;
  };
  for (const bool has_place : {true, false}) {
    const auto start = [&](Job& job) {
      Alone alone;
      EXPECT_EQ(job.engine.real().GetUniqueId(&alone.id), ncclSuccess);
      if (has_place) job.engine.making().id_made(&alone.id);
      EXPECT_EQ(job.engine.real().CommInitRank(&alone.comm, 1, alone.id, 0), ncclSuccess);
      return alone;
    };
    fail_each_allocation(
        start, [](Job& job, const Alone& alone) { live_alone(job, alone.id, alone.comm); });
  }
}

TEST(InterposerMemory, ThatIsNotThereForAChildKeepsNobodyWaiting) {
  fail_at_many_points(run_out_of_memory_in_a_split, 7);
}

TEST(InterposerMemory, ThatIsNotThereForAMeetingKeepsNobodyWaiting) {
  fail_at_many_points(run_out_of_memory_in_a_meeting, 61);
}

TEST(InterposerMemory, ThatIsNotThereForAGroupKeepsNobodyWaiting) {
  fail_at_many_points(run_out_of_memory_in_a_group, 1);
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
