// What the engine does in a rank that the system gives no threads. Not with sanitizers, which have
// a pthread_create() of their own.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <vector>

#include "tests/support/interposer_job.h"

namespace {

constexpr int kNoLimit = -1;
/// How many more this thread may start.
thread_local int threads_left = kNoLimit;

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  if (threads_left == 0) return EAGAIN;
  if (threads_left > 0) --threads_left;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, argument);
}

namespace ringpress::nccl_plugin::interposer {
namespace {

/// The limit of this thread once the real library has made its communicators.
thread_local int limit_after_group = kNoLimit;

/// The real library itself may start what it needs.
ncclResult_t group_end_then_limit() {
  threads_left = kNoLimit;
  const ncclResult_t result = real_nccl.GroupEnd();
  threads_left = limit_after_group;
  return result;
}

class FewThreads : public ::testing::TestWithParam<int> {};

// The other rank has met for some communicators of the group, and counts on this one from then on.
TEST_P(FewThreads, AllCommunicatorsOfAGroupAreMade) {
  constexpr int kComms = 3;
  ringpressRealNccl real = recording_nccl();
  real.GroupEnd = group_end_then_limit;
  Job job(make_settings(), real);
  ncclUniqueId ids[kComms];
  for (ncclUniqueId& id : ids) id = job.make_id();
  all_reduces = 0;
  run_threads(2, [&](int rank) {
    ncclComm_t comms[kComms] = {};
    for (const ncclUniqueId& id : ids) job.engine.making().joining(id);
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    for (int i = 0; i < kComms; ++i) {
      ASSERT_EQ(job.engine.real().CommInitRank(&comms[i], 2, ids[i], rank), ncclSuccess);
      job.engine.making().made_rank(&comms[i], ids[i]);
    }
    if (rank == 1) limit_after_group = GetParam();
    EXPECT_EQ(job.engine.group_end(), ncclSuccess);
    limit_after_group = threads_left = kNoLimit;
    for (const ncclComm_t comm : comms) {
      std::vector<float> values = make_values(rank, 5000);
      EXPECT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
      job.destroy(comm);
    }
  });
  EXPECT_EQ(all_reduces, 0) << "some communicator was left to plain NCCL";
}

INSTANTIATE_TEST_SUITE_P(Threads, FewThreads, ::testing::Values(0, 1));

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
