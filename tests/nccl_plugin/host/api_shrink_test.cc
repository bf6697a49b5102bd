// Ranks that go on without one of them: it is silent, or dead, and never destroys its communicator.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

constexpr int kMembers = 4;
constexpr std::size_t kValues = 100000;

/// How the others leave one behind.
struct Leaving {
  bool is_blocking = false;
  bool revokes = false;
  int flags = NCCL_SHRINK_DEFAULT;
  bool is_dead = false;     // The one that is left; else it is silent until all others have ended.
  bool is_in_call = false;  // The others wait for it in a call.
};

std::string name_of(const ::testing::TestParamInfo<Leaving>& info) {
  const Leaving& leaving = info.param;
  return std::string(leaving.is_blocking ? "Blocking" : "Nonblocking") +
         (leaving.revokes ? "Revoked" : "") +
         (leaving.flags == NCCL_SHRINK_ABORT ? "Aborting" : "") +
         (leaving.is_dead ? "Dead" : "Silent") + (leaving.is_in_call ? "InACall" : "");
}

/// Polls until `comm` is no longer in progress.
ncclResult_t poll_until_settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) return asked;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return state;
}

/// Of a call on `comm`, once it has ended.
ncclResult_t ended(ncclResult_t result, ncclComm_t comm) {
  return result == ncclInProgress ? poll_until_settled(comm) : result;
}

ncclComm_t make_comm(const Leaving& leaving, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = leaving.is_blocking ? 1 : 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, kMembers, id, rank, &config);
  EXPECT_EQ(ended(begun, comm), ncclSuccess) << ncclGetLastError(comm);
  return comm;
}

void expect_ones_added(ncclComm_t comm, int size) {
  std::vector<float> values(kValues, 1);
  EXPECT_EQ(
      ended(ncclAllReduce(values.data(), values.data(), kValues, ncclFloat, ncclSum, comm, nullptr),
            comm),
      ncclSuccess)
      << ncclGetLastError(comm);
  EXPECT_EQ(values, std::vector<float>(kValues, static_cast<float>(size)));
}

/// A call that never ends well, as one rank does not take part.
void call_in_vain(const Leaving& leaving, ncclComm_t comm, std::vector<float>* values) {
  const ncclResult_t result = ncclAllReduce(values->data(), values->data(), values->size(),
                                            ncclFloat, ncclSum, comm, nullptr);
  EXPECT_EQ(result, leaving.is_blocking ? ncclRemoteError : ncclInProgress);
  if (leaving.is_dead && !leaving.is_blocking) {
    EXPECT_EQ(poll_until_settled(comm), ncclRemoteError);
  }
}

/// What a rank does that goes on.
void leave_behind(const Leaving& leaving, int excluded, ncclComm_t comm, int rank) {
  std::vector<float> values(kValues, 1);
  if (leaving.is_in_call) call_in_vain(leaving, comm, &values);
  if (leaving.revokes) {
    EXPECT_EQ(ended(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), 1, ncclFloat, ncclSum, comm, nullptr),
              ncclInvalidUsage);
  }
  ncclComm_t child = nullptr;
  const ncclResult_t begun = ncclCommShrink(comm, &excluded, 1, &child, nullptr, leaving.flags);
  ASSERT_NE(child, nullptr) << ncclGetLastError(nullptr);
  ASSERT_EQ(ended(begun, child), ncclSuccess) << ncclGetLastError(child);
  int child_rank = -1;
  EXPECT_NCCL_OK(ncclCommUserRank(child, &child_rank));
  EXPECT_EQ(child_rank, rank > excluded ? rank - 1 : rank);
  expect_ones_added(child, kMembers - 1);
  EXPECT_EQ(poll_until_settled(comm), ncclSuccess);
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
  expect_ones_added(child, kMembers - 1);
  EXPECT_NCCL_OK(ncclCommDestroy(child));
}

/// All others have ended the call before: a revoke would end it for them, too.
class Gathering {
 public:
  void wait_for_others() const {
    has_come_.raise();
    may_go_.wait();
  }
  void let_go() const {
    for (int other = 1; other < kMembers; ++other) has_come_.wait();
    for (int other = 1; other < kMembers; ++other) may_go_.raise();
  }

 private:
  const Signal has_come_;
  const Signal may_go_;
};

class Left : public ::testing::TestWithParam<Leaving> {};

TEST_P(Left, TheOthersGoOn) {
  const Leaving& leaving = GetParam();
  // Of a dead one, others look for the cause for a second.
  for (const int excluded : leaving.is_dead ? std::vector{0} : std::vector{0, 2}) {
    const Signal is_over;
    const Gathering gathering;
    run_processes(kMembers, [&](const ncclUniqueId& id, int rank) {
      const ncclComm_t comm = make_comm(leaving, id, rank);
      ASSERT_NE(comm, nullptr);
      expect_ones_added(comm, kMembers);
      if (rank != excluded) {
        gathering.wait_for_others();
        leave_behind(leaving, excluded, comm, rank);
        is_over.raise();
        return;
      }
      gathering.let_go();
      for (int other = 1; !leaving.is_dead && other < kMembers; ++other) is_over.wait();
      _exit(HasFailure() ? 1 : 0);  // Without a goodbye.
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Behind, Left,
                         ::testing::Values(Leaving{false, true, NCCL_SHRINK_DEFAULT, false, true},
                                           Leaving{false, true, NCCL_SHRINK_DEFAULT, false, false},
                                           Leaving{false, true, NCCL_SHRINK_ABORT, false, true},
                                           Leaving{false, true, NCCL_SHRINK_DEFAULT, true, true},
                                           Leaving{false, false, NCCL_SHRINK_ABORT, false, true},
                                           Leaving{false, false, NCCL_SHRINK_ABORT, false, false},
                                           Leaving{false, false, NCCL_SHRINK_ABORT, true, true},
                                           Leaving{false, false, NCCL_SHRINK_DEFAULT, false, false},
                                           Leaving{true, false, NCCL_SHRINK_DEFAULT, false, false},
                                           Leaving{true, false, NCCL_SHRINK_ABORT, true, true},
                                           Leaving{true, true, NCCL_SHRINK_DEFAULT, true, true}),
                         name_of);

/// Each time the first rank goes, and those who are left have another one of them serve.
TEST(Shrinks, OneAfterTheOtherDownToOneRank) {
  run_processes(kMembers, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = make_comm({true}, id, rank);
    for (int size = kMembers; size > 1; --size) {
      int own = -1, excluded = 0;
      ASSERT_NCCL_OK(ncclCommUserRank(comm, &own));
      if (own == excluded) {
        EXPECT_NCCL_OK(ncclCommAbort(comm));
        return;
      }
      ncclComm_t child = nullptr;
      ASSERT_NCCL_OK(ncclCommShrink(comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
      comm = child;
      // Ranks that are ahead may end it, by the next abort, while this one is at it.
      float one = 1;
      static_cast<void>(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
    }
    expect_ones_added(comm, 1);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

/// A process that was forked in between holds copies of all sockets.
TEST(Shrinks, ThoughAChildProcessHoldsTheSockets) {
  const Signal is_over;
  run_processes(kMembers, [&](const ncclUniqueId& id, int rank) {
    const Leaving leaving{false, true};
    const ncclComm_t comm = make_comm(leaving, id, rank);
    const pid_t worker = fork();
    if (worker == 0) {
      pause();
      _exit(0);
    }
    if (rank == 3) {
      for (int other = 1; other < kMembers; ++other) is_over.wait();
    } else {
      leave_behind(leaving, 3, comm, rank);
      is_over.raise();
    }
    kill(worker, SIGKILL);
    EXPECT_EQ(waitpid(worker, nullptr, 0), worker);
    _exit(HasFailure() ? 1 : 0);
  });
}

TEST(Shrinks, OfACommunicatorThatHasEndedAreRefused) {
  run_processes(2, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr, child = nullptr;
    int other = 1 - rank;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    EXPECT_NCCL_OK(ncclCommFinalize(comm));
    EXPECT_EQ(ncclCommShrink(comm, &other, 1, &child, nullptr, NCCL_SHRINK_ABORT),
              ncclInvalidUsage);
    expect_last_error("finalized");
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
    EXPECT_EQ(ncclCommShrink(comm, &other, 1, &child, nullptr, NCCL_SHRINK_ABORT),
              ncclInvalidArgument);
  });
}

}  // namespace
}  // namespace ringpress::testing
