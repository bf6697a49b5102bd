// After the first steps CollNet allocates nothing, neither in NCCL's thread nor in those that
// reduce, and none of them holds a mutex while it calls the system for a socket.
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/call_counter.h"
#include "tests/support/collnet_proxy.h"
#include "tests/support/peer_group.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {
namespace {

constexpr std::uint64_t kCommId = 1;
constexpr std::size_t kCount = 65536;  // Of one call.
constexpr std::size_t kCalls = 8;      // Of one tensor, all under way at once.
constexpr int kNodes = 3;
constexpr int kFirstSteps = 10;
constexpr int kCountedSteps = 15;

struct Case {
  std::string name;
  const char* codec;
  const char* algorithm;
  bool has_profiler;  // NCCL tells which tensor a call belongs to.
};

/// Tells of the next tensor as NCCL does, in this thread.
class Teller {
 public:
  Teller(void* library, int rank) : api_(profiler_api_of(library, 6)) {
    api_.init(&ctx_, {kCommId, kNodes, kNodes, rank});
  }
  ~Teller() { api_.finalize(ctx_); }
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  void tell(const void* send) {
    ProfiledTensor tensor;
    tensor.send = send;
    tensor.count = kCalls * kCount;
    tensor.sequence = sequence_++;
    void* const event = api_.start_tensor(ctx_, tensor);
    api_.stop(event);
    for (ProxyArgs* args : {&send_, &receive_}) {
      api_.start_channel(ctx_, event, 0, kCalls, kCount * sizeof(float), &args->subs[0].event);
    }
  }
  /// For the requests of its pieces.
  void** requests() { return send_.subs[0].requests.data(); }

 private:
  const ProfilerApi api_;
  void* ctx_ = nullptr;
  std::uint64_t sequence_ = 0;
  ProxyArgs send_;
  ProxyArgs receive_;
};

/// The calls of one tensor; true if all succeed. `requests`: places for kCalls.
bool run_calls(const ProxyNode& node, void** requests, std::vector<float>* buffer) {
  void* mhandles[2] = {nullptr, nullptr};
  bool ok = true;
  for (std::size_t i = 0; i < kCalls && ok; ++i) {
    float* const send = buffer->data() + 2 * i * kCount;
    ok = node.api().iallreduce(node.coll_comm(), send, send + kCount, kCount, ncclFloat32, mhandles,
                               &requests[i]) == ncclSuccess &&
         requests[i] != nullptr;
  }
  for (std::size_t i = 0; i < kCalls; ++i) {
    int done = 0;
    while (ok && done == 0) {
      ok = node.api().test(requests[i], &done, nullptr) == ncclSuccess;
      sched_yield();
    }
  }
  return ok;
}

/// What was counted in this process, as text.
std::string run_node(const Case& c, int rank, NodeMeeting* meeting) {
  setenv("RINGPRESS_SOCKET_IFNAME", "lo", 1);
  setenv("RINGPRESS_SHM", "0", 1);  // Nodes are apart.
  setenv("RINGPRESS_CODEC", c.codec, 1);
  setenv("RINGPRESS_ALGO", c.algorithm, 1);
  void* const library = open_plugin(RINGPRESS_PLUGIN);
  std::optional<Teller> teller;
  if (c.has_profiler) teller.emplace(library, rank);
  ProxyOptions options;
  options.rank = rank;
  options.comm_id = kCommId;
  options.profiler_version = 0;  // `teller` is it.
  ProxyNode node(library, options, meeting, nullptr);
  if (node.connect() != ncclSuccess) return "connect";
  std::vector<float> buffer = random_gradient(2 * kCalls * kCount, 1, rank);
  void* untold[kCalls] = {};
  bool ok = true;
  for (int step = 0; step < kFirstSteps + kCountedSteps && ok; ++step) {
    if (step == kFirstSteps) start_counting();
    if (teller) teller->tell(&buffer);
    ok = run_calls(node, teller ? teller->requests() : untold, &buffer);
  }
  const CallCounts counts = stop_counting();
  meeting->wait();  // Nobody says goodbye while others count.
  if (!ok) return "an error";
  if (counts.socket_calls == 0) return "no socket calls seen";
  return std::to_string(counts.allocations) + " allocations, " +
         std::to_string(counts.socket_calls_locked) + " socket calls under a lock";
}

class CollNetSteadyState : public ::testing::TestWithParam<Case> {};

TEST_P(CollNetSteadyState, AllocatesNothingAndLocksNothing) {
  NodeMeeting meeting(kNodes);
  const auto reports = run_peers(PeerKind::kProcesses, kNodes,
                                 [&](int rank) { return run_node(GetParam(), rank, &meeting); });
  for (const PeerReport& report : reports) {
    EXPECT_EQ(report.text, "0 allocations, 0 socket calls under a lock");
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* codec :
       {"none", "q2", "q4", "q8", "q4:grid=lloyd", "sign", "tern", "qsgd:bits=4", "fp8"}) {
    for (const char* algorithm : {"sra", "ring"}) {
      for (const bool has_profiler : {false, true}) {
        std::string name = std::to_string(all.size()) + "_" + codec + "_" + algorithm +
                           (has_profiler ? "_by_tensor" : "");
        std::replace_if(
            name.begin(), name.end(), [](char c) { return c == ':' || c == '='; }, '_');
        all.push_back({name, codec, algorithm, has_profiler});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Codecs, CollNetSteadyState, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace ringpress::testing
