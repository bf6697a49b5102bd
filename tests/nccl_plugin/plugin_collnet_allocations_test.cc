// CollNet allocates nothing in NCCL's progress thread after the first steps. Counts by standing in
// for malloc(), so not for sanitizers.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cerrno>

#include "tests/support/collnet_proxy.h"
#include "tests/support/peer_group.h"
#include "tests/support/random_tensor.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> in_calls{0};
thread_local bool inside_call = false;

void count_one() {
  if (inside_call && counting.load(std::memory_order_relaxed)) ++in_calls;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count_one();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  count_one();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count_one();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_one();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count_one();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace ringpress::testing {
namespace {

constexpr std::size_t kCount = 65536;
constexpr std::size_t kCalls = 8;

/// So many calls under way at once; true if all succeed.
bool run_calls(const ProxyNode& node, std::vector<std::vector<float>>* buffers) {
  void* requests[kCalls] = {};
  void* mhandles[2] = {node.coll_comm(), node.coll_comm()};
  bool ok = true;
  for (std::size_t i = 0; i < kCalls; ++i) {
    float* const data = (*buffers)[i].data();
    inside_call = true;
    ok &= node.api().iallreduce(node.coll_comm(), data, data + kCount, kCount, ncclFloat32,
                                mhandles, &requests[i]) == ncclSuccess;
    inside_call = false;
    if (!ok || requests[i] == nullptr) return false;
  }
  for (void* request : requests) {
    int done = 0;
    while (ok && done == 0) {
      inside_call = true;
      ok &= node.api().test(request, &done, nullptr) == ncclSuccess;
      inside_call = false;
      sched_yield();
    }
  }
  return ok;
}

TEST(CollNetAllocations, ThereAreNoneAfterTheFirstSteps) {
  NodeMeeting meeting(3);
  const auto reports = run_peers(PeerKind::kProcesses, 3, [&](int rank) -> std::string {
    setenv("RINGPRESS_SOCKET_IFNAME", "lo", 1);
    setenv("RINGPRESS_CODEC", "q4:block=128", 1);
    ProxyOptions options;
    options.rank = rank;
    options.profiler_version = 0;
    ProxyNode node(open_plugin(RINGPRESS_PLUGIN), options, &meeting, nullptr);
    if (node.connect() != ncclSuccess) return "connect";
    std::vector<std::vector<float>> buffers(kCalls);
    for (auto& buffer : buffers) {
      buffer = random_gradient(kCount, 1, rank);
      buffer.resize(2 * kCount);
    }
    for (int step = 0; step < 20; ++step) {
      if (step == 5) counting.store(true);
      if (!run_calls(node, &buffers)) return "an error";
    }
    counting.store(false);
    return std::to_string(in_calls.load());
  });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, "0");
}

TEST(CollNetAllocations, AreCounted) {
  counting.store(true);
  inside_call = true;
  // Through a pointer that the compiler does not see through.
  void* (*volatile allocate)(std::size_t) = &malloc;
  free(allocate(1));
  inside_call = false;
  counting.store(false);
  EXPECT_EQ(in_calls.exchange(0), 1);
}

}  // namespace
}  // namespace ringpress::testing
