// Door A under RINGPRESS_CODEC=auto: what compressing does not make quicker is left to the real
// library, by all ranks at the same call.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/session/tuning/guarded_class.h"
#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr int kTurns = 19;

ncclResult_t slow_all_reduce(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (count > 1) std::this_thread::sleep_for(std::chrono::milliseconds(40));
  return counting_all_reduce(send, receive, count, dtype, op, comm, stream);
}
ncclResult_t slow_send(const void* send, size_t count, ncclDataType_t dtype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  return counting_send(send, count, dtype, peer, comm, stream);
}

Settings guarded_settings(std::vector<std::pair<std::string, std::string>> more = {}) {
  more.insert(
      more.end(),
      {{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}, {"RINGPRESS_BUDGET", "q4"}});
  return make_settings(more);
}

/// Ranks of as many hosts.
std::vector<int> hosts_of(int size) {
  std::vector<int> hosts(static_cast<std::size_t>(size));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

/// All-reduces as the engine makes them: what is not accepted goes to the real library at once, the
/// rest follows when the group ends.
class Group {
 public:
  Group(const ringpressRealNccl& real, std::shared_ptr<Comm> comm)
      : real_(real), comm_(std::move(comm)) {}

  void add(const std::vector<float>& send, std::vector<float>& receive) {
    Call call;
    call.send = send.data();
    call.receive = receive.data();
    call.count = send.size();
    call.comm = comm_->handle();
    PlannedCall planned{call};
    if (comm_->planner().plan(&planned)) {
      accepted_.push_back({comm_, planned});
    } else {
      ASSERT_EQ(run_exactly(real_, call), ncclSuccess);
    }
  }
  void end() { EXPECT_EQ(run_calls(real_, std::exchange(accepted_, {})), ncclSuccess); }

 private:
  const ringpressRealNccl& real_;
  const std::shared_ptr<Comm> comm_;
  std::vector<AcceptedCall> accepted_;
};

struct Outcome {
  int compressed = 0;
  int exact = 0;
};

Outcome count_exact(const std::vector<std::vector<float>>& results, int size) {
  const std::size_t count = results[0].size();
  std::vector<float> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> values = make_values(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  Outcome outcome;
  for (const std::vector<float>& result : results) {
    float error = 0;
    for (std::size_t i = 0; i < count; ++i) error = std::max(error, std::abs(result[i] - sum[i]));
    ++(error < 1e-4F ? outcome.exact : outcome.compressed);
  }
  return outcome;
}

/// Makes `calls` calls on `size` ranks, in groups of four or one by one. All ranks have the same
/// results.
Outcome make_calls(const Settings& settings, const ringpressRealNccl& real, int size, int calls,
                   bool in_groups) {
  constexpr std::size_t kCount = 20000;
  std::vector<std::vector<std::vector<float>>> results(static_cast<std::size_t>(size));
  run_hosts(
      settings, hosts_of(size),
      [&](const std::shared_ptr<Comm>& comm, int rank) {
        const std::vector<float> send = make_values(rank, kCount);
        auto& mine = results[static_cast<std::size_t>(rank)];
        mine.assign(static_cast<std::size_t>(calls), std::vector<float>(kCount));
        Group group(real, comm);
        for (std::size_t call = 0; call < mine.size(); ++call) {
          group.add(send, mine[call]);
          if (!in_groups || call % 4 == 3) group.end();
        }
        group.end();
      },
      real);
  for (const auto& of_rank : results) EXPECT_EQ(of_rank, results[0]);
  return count_exact(results[0], size);
}

ringpressRealNccl with_slow_sends() {
  ringpressRealNccl real = recording_nccl();
  real.Send = slow_send;
  return real;
}
ringpressRealNccl with_slow_all_reduces() {
  ringpressRealNccl real = recording_nccl();
  real.AllReduce = slow_all_reduce;
  return real;
}

class InterposerGuard : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(InterposerGuard, LeavesCallsThatGainNothing) {
  const auto [size, in_groups] = GetParam();
  const Outcome outcome = make_calls(guarded_settings(), with_slow_sends(), size, 60, in_groups);
  // The turns' compressed ones, and no more.
  EXPECT_EQ(outcome.compressed, 13);
}

TEST_P(InterposerGuard, CompressesCallsThatGain) {
  const auto [size, in_groups] = GetParam();
  const Outcome outcome =
      make_calls(guarded_settings(), with_slow_all_reduces(), size, 40, in_groups);
  // Those before they recur, and the turns' exact ones.
  EXPECT_LE(outcome.exact, 6 + 4);
  EXPECT_GE(outcome.exact, 6);
}

INSTANTIATE_TEST_SUITE_P(Ranks, InterposerGuard,
                         ::testing::Values(std::tuple{2, false}, std::tuple{2, true},
                                           std::tuple{4, true}));

/// Calls of two sizes in one group that has more of them than there are turns.
TEST(InterposerGuardAlone, ClassesHaveVerdictsOfTheirOwn) {
  const ringpressRealNccl real = with_slow_sends();
  run_hosts(
      guarded_settings(), hosts_of(2),
      [&](const std::shared_ptr<Comm>& comm, int rank) {
        const std::vector<float> small = make_values(rank, 3000), large = make_values(rank, 9000);
        std::vector<float> small_sum(small.size()), large_sum(large.size());
        Group group(real, comm);
        for (int call = 0; call < 3 * kTurns; ++call) {
          group.add(small, small_sum);
          if (call % 6 == 0) group.add(large, large_sum);
        }
        group.end();
        // While a step is looked for, exact calls too are made in the order of ours.
        PlannedCall planned{{CollectiveKind::kAllReduce, small.data(), small_sum.data(),
                             small.size(), ncclFloat32, ncclSum, comm->handle(), nullptr}};
        EXPECT_TRUE(comm->planner().plan(&planned));
        EXPECT_TRUE(planned.gains_nothing());
        const AcceptedCall exact{comm, planned};
        planned.call.send = large.data();
        planned.call.receive = large_sum.data();
        planned.call.count = large.size();
        EXPECT_TRUE(comm->planner().plan(&planned));
        EXPECT_TRUE(planned.takes_turn);
        const AcceptedCall accepted[] = {exact, {comm, planned}};
        EXPECT_EQ(run_calls(real, accepted), ncclSuccess);
      },
      real);
}

TEST(InterposerGuardAlone, NothingIsTriedWhereNothingIsLeftToBeChosen) {
  for (const auto& [name, value] :
       {std::pair{"RINGPRESS_DETERMINISTIC", "1"}, {"RINGPRESS_CODEC", "q4"}}) {
    std::vector<std::pair<std::string, std::string>> all = {
        {"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}, {name, value}};
    const Outcome outcome = make_calls(make_settings(all), with_slow_sends(), 2, 32, false);
    EXPECT_LE(outcome.exact, 4) << name;
  }
}

TEST(InterposerGuardAlone, TheLogSaysWhatWasFound) {
  const auto path = std::filesystem::temp_directory_path() / "interposer_guard.csv";
  std::filesystem::remove(path);
  make_calls(guarded_settings({{"RINGPRESS_TUNING_LOG", path.string()}}), with_slow_sends(), 2, 40,
             false);
  std::ifstream file(path);
  std::string line, last;
  std::size_t lines = 0;
  while (std::getline(file, line)) ++lines, last = line;
  EXPECT_GE(lines, 4u);
  EXPECT_NE(last.find("none"), std::string::npos) << last;
  std::filesystem::remove(path);
}

/// Rank 0 has ended before it said what it found out.
TEST(InterposerGuardAlone, AVerdictThatNeverComesEndsTheCall) {
  const Settings settings = guarded_settings();
  Watch watch{[] { return false; }};
  watch.timeout = std::chrono::seconds(1);
  auto device = make_device(Backend::kHost, 0).value();
  auto guard = StreamGuard::make(*device, settings, 1).value();
  const PlanRequest request{CollectiveKind::kAllReduce, 20000, DType::kFloat32};
  for (int call = 0; call < kTurns; ++call) {
    ASSERT_EQ(guard->look_at(request), StreamGuard::Answer::kAsk);
    ASSERT_TRUE(guard->next(request, nullptr, "q4", {[] { return false; }}).is_ok());
  }
  EXPECT_EQ(guard->next(request, nullptr, "q4", {[] { return true; }}).status().code(),
            Code::kAborted);
  EXPECT_EQ(guard->next(request, nullptr, "q4", watch).status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
