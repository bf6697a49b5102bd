// What a communicator consists of, each part alone.
#include <gtest/gtest.h>

#include <string>

#include "nccl_plugin/interposer/comm/kept.h"
#include "nccl_plugin/interposer/comm/lifetime.h"
#include "nccl_plugin/interposer/comm/policy.h"
#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/session/calls/codec_cache.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

TEST(MemoryAgreement, CoversSmallerCallsAndRefusesLargerOnes) {
  MemoryAgreement memory(1000);
  EXPECT_FALSE(memory.is_needed(1000, 0));
  EXPECT_TRUE(memory.is_needed(1001, 0));
  memory.note(2000, 0, true);
  EXPECT_FALSE(memory.is_needed(1500, 0));
  memory.note(5000, 0, false);
  memory.note(6000, 0, false);  // The least counts.
  EXPECT_FALSE(memory.has_refused(4999));
  EXPECT_TRUE(memory.has_refused(5000));
  EXPECT_FALSE(memory.is_needed(1500, 0));
}

TEST(MemoryAgreement, KnowsGraphsOneByOne) {
  MemoryAgreement memory(1000);
  EXPECT_TRUE(memory.is_needed(0, 7));
  memory.note(0, 7, true);
  EXPECT_FALSE(memory.is_needed(0, 7));
  EXPECT_TRUE(memory.is_needed(10, 7));  // A projected tensor has memory of its own there.
  EXPECT_TRUE(memory.is_needed(0, 8));
  memory.note(5000, 8, false);
  EXPECT_TRUE(memory.has_refused_graph(8));
  EXPECT_FALSE(memory.has_refused_graph(7));
  EXPECT_FALSE(memory.has_refused(5000));  // Outside of graphs there may be room.
}

TEST(CommPolicy, AHostsPartDecidesTheWay) {
  Settings settings;
  CommPolicy policy(settings, 4, true, "");
  policy.set_hosts({0, 0, 1, 1});
  Call call;
  call.count = 1001;
  Decision decision;
  decision.algorithm = Algorithm::kHier;
  EXPECT_EQ(policy.way(decision, call, false), Way{Algorithm::kSra});  // It has not been split.
  policy.set_position(find_position(policy.hosts(), 2));
  EXPECT_EQ(policy.way(decision, call, false), Way{Algorithm::kHier});
  EXPECT_EQ(policy.residual_count(call, Way{Algorithm::kHier}), 500u);
  EXPECT_EQ(policy.residual_count(call, Way{Algorithm::kSra}), 1001u);
  EXPECT_EQ(policy.way(decision, call, true), (Way{Algorithm::kSra, Way::Kind::kProjection}));
  EXPECT_EQ(policy.request(call).ranks_per_host, 2);
  call.count = 1;  // Fewer than ranks of a host.
  EXPECT_EQ(policy.way(decision, call, false), Way{Algorithm::kSra});
  call.kind = CollectiveKind::kAllGather;
  EXPECT_EQ(policy.way(decision, call, false), (Way{Algorithm::kSra, Way::Kind::kGather}));
}

/// What a library would be told, by a lifetime alone.
struct Told {
  static inline int revoked = 0;
  static inline int aborted = 0;
  static ringpressRealNccl library() {
    revoked = aborted = 0;
    ringpressRealNccl real{};
    real.CommRevoke = [](ncclComm_t, int) { return ++revoked, ncclSuccess; };
    real.CommAbort = [](ncclComm_t) { return ++aborted, ncclSuccess; };
    return real;
  }
};

TEST(CommLifetime, OnlyTheFirstFailureIsKeptAndTold) {
  const ringpressRealNccl real = Told::library();
  const std::unique_ptr<Device> device = make_host_device();
  CommLifetime lifetime(real, reinterpret_cast<ncclComm_t>(device.get()), *device,
                        std::chrono::minutes(1));
  HostGroups groups;
  groups.local = groups.cross = reinterpret_cast<ncclComm_t>(&groups);
  lifetime.set_groups(groups);
  lifetime.give_up(ncclSystemError);
  lifetime.give_up(ncclInternalError);
  lifetime.end_groups(true);
  EXPECT_EQ(lifetime.failure(), ncclSystemError);
  EXPECT_EQ(Told::revoked, 1);
  EXPECT_EQ(Told::aborted, 2);  // Both groups, once.
  EXPECT_TRUE(lifetime.watch().is_given_up());
}

/// Nonblocking: what is begun is looked at until it has ended.
TEST(CommLifetime, ARevokeInProgressIsWaitedFor) {
  static int looks = 0;
  looks = 0;
  ringpressRealNccl real{};
  real.CommRevoke = [](ncclComm_t, int) { return ncclInProgress; };
  real.CommGetAsyncError = [](ncclComm_t, ncclResult_t* error) {
    *error = ++looks < 5 ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
  };
  revoke(real, reinterpret_cast<ncclComm_t>(&real));
  EXPECT_EQ(looks, 5);
  real.CommGetAsyncError = nullptr;  // Nobody can tell.
  revoke(real, reinterpret_cast<ncclComm_t>(&real));
  revoke(real, nullptr);
  EXPECT_EQ(looks, 5);
}

TEST(CommLifetime, NobodyEntersWhatHasRetired) {
  const ringpressRealNccl real = Told::library();
  const std::unique_ptr<Device> device = make_host_device();
  CommLifetime lifetime(real, nullptr, *device, std::chrono::minutes(1));
  EXPECT_TRUE(lifetime.enter());
  lifetime.leave();
  lifetime.retire();
  EXPECT_FALSE(lifetime.enter());
  EXPECT_TRUE(lifetime.watch().is_given_up());
  lifetime.give_up(ncclSystemError);  // The handle is not the library's any more.
  EXPECT_EQ(Told::revoked, 0);
}

TEST(CodecCache, MakesEachOnceAndKeepsNoFailure) {
  CodecCache<std::string> cache;
  int made = 0;
  const auto make = [&made](const std::string& name, DType, ReduceOp) -> Result<std::string> {
    if (name == "bad") return Status(Code::kInvalidArgument, "no such codec");
    return name + std::to_string(++made);
  };
  const auto find_or_make = [&](const char* name, ReduceOp op) {
    return cache.find_or_make(name, DType::kFloat32, op, make);
  };
  EXPECT_EQ(cache.find("q", DType::kFloat32, ReduceOp::kSum), nullptr);
  const std::string* const first = find_or_make("q", ReduceOp::kSum).value();
  EXPECT_FALSE(find_or_make("bad", ReduceOp::kSum).is_ok());
  EXPECT_EQ(cache.find("bad", DType::kFloat32, ReduceOp::kSum), nullptr);
  EXPECT_EQ(*find_or_make("q", ReduceOp::kAvg).value(), "q2");
  EXPECT_EQ(find_or_make("q", ReduceOp::kSum).value(), first);  // It has not moved.
  EXPECT_EQ(*first, "q1");
  EXPECT_EQ(cache.find("q", DType::kFloat16, ReduceOp::kSum), nullptr);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
