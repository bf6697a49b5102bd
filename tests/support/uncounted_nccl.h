// The stand-in for NVIDIA's library, whose own allocations are not counted and do not fail.
#ifndef TESTS_SUPPORT_UNCOUNTED_NCCL_H_
#define TESTS_SUPPORT_UNCOUNTED_NCCL_H_

#include "tests/support/call_counter.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {

/// A function of the stand-in, uncounted.
template <auto kField, typename Function>
struct Uncounted;
template <auto kField, typename... Args>
struct Uncounted<kField, ncclResult_t (*)(Args...)> {
  static ncclResult_t call(Args... args) {
    const bool is_counting = testing::pause_counting_thread();
    const ncclResult_t result = (recording_nccl().*kField)(args...);
    if (is_counting) testing::resume_counting_thread();
    return result;
  }
};

inline const ringpressRealNccl& uncounted_nccl() {
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
    REPLACE(CommInitRank)
    REPLACE(CommSplit)
    REPLACE(CommDestroy)
    REPLACE(CommRevoke)
    REPLACE(CommCount)
    REPLACE(CommUserRank)
#undef REPLACE
    return uncounted;
  }();
  return table;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_UNCOUNTED_NCCL_H_
