// The NCCL API between processes, as programs use it: forked ranks, killed ranks, ranks whose
// environments differ.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/sanitizers.h"

namespace ringpress::testing {
namespace {

TEST(Processes, CollectivesAndTransfers) {
  constexpr int kSize = 3;
  run_processes(kSize, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, kSize, id, rank));
    for (const std::size_t count : {std::size_t{1}, std::size_t{1023}, std::size_t{300001}}) {
      std::vector<float> values(count, static_cast<float>(rank + 1));
      ASSERT_NCCL_OK(
          ncclAllReduce(values.data(), values.data(), count, ncclFloat, ncclSum, comm, nullptr));
      EXPECT_EQ(values, std::vector<float>(count, 6));
      std::vector<float> received(count);
      EXPECT_NCCL_OK(ncclGroupStart());
      EXPECT_NCCL_OK(ncclSend(values.data(), count, ncclFloat, (rank + 1) % kSize, comm, nullptr));
      EXPECT_NCCL_OK(
          ncclRecv(received.data(), count, ncclFloat, (rank + kSize - 1) % kSize, comm, nullptr));
      EXPECT_NCCL_OK(ncclGroupEnd());
      EXPECT_EQ(received, values);
    }
    ncclComm_t child = nullptr;
    ASSERT_NCCL_OK(ncclCommSplit(comm, 0, -rank, &child, nullptr));
    double value = rank == 0 ? 7 : 0;
    EXPECT_NCCL_OK(ncclBroadcast(&value, &value, 1, ncclDouble, kSize - 1, child, nullptr));
    EXPECT_EQ(value, 7) << "rank 0 of the parent is the last of the child";
    EXPECT_NCCL_OK(ncclCommDestroy(child));
    EXPECT_NCCL_OK(ncclCommFinalize(comm));
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

/// Ranks 0 and 2 on one host, 1 and 3 on another; values whose sums show the order in which they
/// are taken. The sum of a shard begins with the rank after its owner: here of the shard of rank 1.
void expect_sum(const char* topology, float expected) {
  static constexpr std::array<float, 4> kValues = {1e8F, 3, 1, -1e8F};
  run_processes(4, [=](const ncclUniqueId& id, int rank) {
    setenv("NCCL_HOSTID", rank % 2 == 0 ? "a" : "b", 1);
    setenv("RINGPRESS_ALGO", "ring", 1);
    if (topology != nullptr) setenv("RINGPRESS_TOPOLOGY", topology, 1);
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 4, id, rank));
    std::vector<float> values(300000, kValues[static_cast<std::size_t>(rank)]);
    ASSERT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                                 comm, nullptr));
    EXPECT_EQ(values[3 * values.size() / 8], expected);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Processes, ARingVisitsHostsOneAfterTheOther) {
  expect_sum(nullptr, 4);  // 0, 2, 1, 3: so ((-1e8 + 1e8) + 1) + 3.
  expect_sum("ranks", 3);  // ((1 - 1e8) + 1e8) + 3: the 1 is lost.
}

ncclComm_t late_comm = nullptr;
std::vector<float>* late_values = nullptr;
ncclResult_t reduce_late() {
  return ncclAllReduce(late_values->data(), late_values->data(), late_values->size(), ncclFloat,
                       ncclSum, late_comm, nullptr);
}

/// As a program's static objects may, when the main thread's own are gone.
TEST(Processes, CallsWhileTheProgramEnds) {
  run_processes(2, [](const ncclUniqueId& id, int rank) {
    setenv("RINGPRESS_CODEC", "topk", 1);
    ASSERT_NCCL_OK(ncclCommInitRank(&late_comm, 2, id, rank));
    late_values = new std::vector<float>(200000);
    std::iota(late_values->begin(), late_values->end(), 0.0f);
    ASSERT_NCCL_OK(reduce_late());
    std::atexit([] { _exit(reduce_late() == ncclSuccess && !HasFailure() ? 0 : 1); });
  });
}

#if !defined(RINGPRESS_WITH_ASAN) && !defined(RINGPRESS_WITH_TSAN)  // They map memory themselves.
/// Of this process, for good.
void take_all_memory() {
  const rlimit none{0, 0};
  EXPECT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  for (std::size_t bytes = std::size_t{1} << 20; bytes >= 16; bytes /= 2) {
    for (void* volatile taken = malloc(bytes); taken != nullptr;) taken = malloc(bytes);
  }
}

TEST(Processes, WithoutMemoryCallsFailAndTheProgramGoesOn) {
  run_processes(1, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 1, id, rank));
    take_all_memory();
    const bool is_refused =
        ncclAllReduce(nullptr, nullptr, 8, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess;
    static_cast<void>(ncclCommDestroy(comm));
    _exit(is_refused ? 0 : 1);
  });
}
#endif

TEST(Processes, ARankThatDiesIsAnErrorOnEveryOther) {
  const Signal done;  // Raised by each rank that has finished the first call.
  run_processes(3, [&](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 3, id, rank));
    std::vector<float> values(200000, 1);
    ASSERT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                                 comm, nullptr));
    if (rank == 2) {
      done.wait();
      done.wait();
      _exit(HasFailure() ? 1 : 0);  // Without a goodbye.
    }
    done.raise();
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm,
                            nullptr),
              ncclRemoteError);
    EXPECT_STRNE(ncclGetLastError(comm), "");
    ncclResult_t state = ncclSuccess;
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclRemoteError);
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
}

TEST(Processes, DifferentSettingsAreRefusedWithBothValues) {
  run_processes(2, [](const ncclUniqueId& id, int rank) {
    const ScopedEnvironment codec("RINGPRESS_CODEC", rank == 0 ? "q4" : "q8");
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclInvalidUsage);
    expect_last_error("RINGPRESS_CODEC");
    expect_last_error("q4");
    expect_last_error("q8");
    EXPECT_EQ(comm, nullptr);
  });
}

TEST(Processes, AnAbortReachesThePeers) {
  const Signal done;
  run_processes(2, [&](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    float value = 1;
    ASSERT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    if (rank == 0) {
      done.wait();
    } else {
      done.raise();
      EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr),
                ncclRemoteError);
    }
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
}

}  // namespace
}  // namespace ringpress::testing
