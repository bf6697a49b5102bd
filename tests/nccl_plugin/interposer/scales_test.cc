// Coordinate scales of calls in streams: the same results as on host memory.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/stream/stream_guard.h"
#include "nccl_plugin/interposer/stream/stream_scales.h"
#include "tests/compress_kernels/host_memory_device.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/noting_device.h"
#include "tests/support/scaled_steps.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

Settings with_scales(std::vector<std::pair<std::string, std::string>> more = {}) {
  more.push_back({"RINGPRESS_EF", "scales"});
  return make_settings(more);
}

/// All ranks end with the results of door C, and have as many calls with scales.
void expect_the_hosts_results(const char* codec, const char* algorithm, const ScaledSteps& steps) {
  const ScaledFile file, of_host;
  const Settings settings = with_scales(
      {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_ALGO", algorithm}, {"RINGPRESS_STATS", file.path}});
  Settings host_settings = settings;
  host_settings.statistics = of_host.path;
  const ScaledResults expected = scaled_results_of_host(host_settings, steps);
  Job job(settings);
  run_ranks(job, steps.size, [&](ncclComm_t comm, int rank) {
    const ScaledResults results =
        run_scaled_steps(steps, rank, [&](const auto& send, auto& receive) {
          ASSERT_EQ(job.all_reduce(comm, send, receive, steps.op), ncclSuccess);
        });
    EXPECT_TRUE(are_same_bytes(results, expected)) << codec << " " << algorithm << " " << rank;
  });
  const std::vector<int> scaled = file.scaled_calls();
  EXPECT_EQ(scaled.size(), static_cast<std::size_t>(steps.size));
  EXPECT_EQ(scaled, of_host.scaled_calls()) << codec << " " << algorithm;
  for (const int calls : scaled) EXPECT_GT(calls, 6) << codec << " " << algorithm;
}

TEST(InterposerScales, MakeTheHostsResults) {
  for (const char* const algorithm : {"sra", "ring"}) {
    expect_the_hosts_results("q4", algorithm, {2});
    expect_the_hosts_results("q3:block=64", algorithm, {3, ncclAvg});
    expect_the_hosts_results("q8", algorithm, {4});
  }
  expect_the_hosts_results("q2", "sra", {2});
}

/// What is not finite is no result to learn from.
TEST(InterposerScales, AnOverflowChangesNothingThatIsLearnt) {
  ScaledSteps steps{2};
  steps.change = [](int step, int rank, std::vector<float>& values) {
    if (step == 7 && rank == 1) values[100] = std::numeric_limits<float>::infinity();
  };
  const Settings settings = with_scales();
  const ScaledResults expected = scaled_results_of_host(settings, steps, false);
  Job job(settings);
  run_ranks(job, steps.size, [&](ncclComm_t comm, int rank) {
    const ScaledResults results =
        run_scaled_steps(steps, rank, [&](const auto& send, auto& receive) {
          ASSERT_EQ(job.all_reduce(comm, send, receive), ncclSuccess);
        });
    // (Door C halves its residuals then.)
    const auto first = results.begin(), wanted = expected.begin();
    EXPECT_TRUE(are_same_bytes({first, first + 3 * 7}, {wanted, wanted + 3 * 7}));
    EXPECT_FALSE(std::isfinite(results[3 * 7][100]));
    for (const float value : results.back()) ASSERT_TRUE(std::isfinite(value));
  });
}

/// Each host reduces a part of its own, of which its ranks learn.
TEST(InterposerScales, OfHostsAreThoseOfTheirParts) {
  const ScaledFile file;
  const Settings settings =
      with_scales({{"RINGPRESS_ALGO", "hier"}, {"RINGPRESS_STATS", file.path}});
  std::vector<ScaledResults> all(4);
  run_hosts(settings, {0, 0, 1, 1}, [&](const std::shared_ptr<Comm>& comm, int rank) {
    all[static_cast<std::size_t>(rank)] =
        run_scaled_steps(ScaledSteps{4}, rank, [&](const auto& send, auto& receive) {
          ASSERT_EQ(all_reduce(comm, send, receive, ncclSum), ncclSuccess);
        });
  });
  for (const ScaledResults& results : all) EXPECT_TRUE(are_same_bytes(results, all[0]));
  for (const int calls : file.scaled_calls()) EXPECT_GT(calls, 3 * 6);
}

TEST(InterposerScales, TakeTheMemoryOfResidualsOnceMoreAtMost) {
  ScaledSteps steps{2};
  const ScaledFile file;
  // Of three tensors one fits.
  const Settings settings =
      with_scales({{"RINGPRESS_EF_MAX_BYTES", "120000"}, {"RINGPRESS_STATS", file.path}});
  const ScaledResults expected = scaled_results_of_host(settings, steps, false);
  Job job(settings);
  run_ranks(job, steps.size, [&](ncclComm_t comm, int rank) {
    const ScaledResults results =
        run_scaled_steps(steps, rank, [&](const auto& send, auto& receive) {
          ASSERT_EQ(job.all_reduce(comm, send, receive), ncclSuccess);
        });
    EXPECT_TRUE(are_same_bytes(results, expected));
  });
  for (const int calls : file.scaled_calls()) {
    EXPECT_GT(calls, 6);
    EXPECT_LT(calls, 12);
  }
}

/// On which exact calls take long.
class SlowExactDevice final : public compress_kernels::testing::HostMemoryDevice {
 public:
  Result<double> seconds_between(Event, Event) override {
    return tuning::is_exact_slot(slot_++ % tuning::GuardedClass::kSlots) ? 1.0 : 0.01;
  }

 private:
  std::size_t slot_ = 0;
};

/// A word of rank 0 says so, with the verdict that such calls are compressed.
TEST(InterposerScales, OfAutomaticModeAreForCallsThatTakeLongAnyway) {
  for (const double cost : {1e-15, 1.0}) {
    SlowExactDevice device;
    const Settings settings = make_settings({{"RINGPRESS_CODEC", "auto"}});
    const auto guard = StreamGuard::make(device, settings, 0).value();
    guard->set_scale_cost(cost);
    PlanRequest request;
    request.count = 100000;
    for (int call = 0; call < 19; ++call) {
      EXPECT_FALSE(guard->wants_scales(request));
      EXPECT_EQ(guard->look_at(request), StreamGuard::Answer::kAsk);
      const CallFrame frame = guard->next(request, nullptr, "q4", {}).value().frame;
      if (frame.words.count == 1) *frame.words.received = *frame.words.sent;
    }
    // The next one hears the verdict.
    EXPECT_FALSE(guard->next(request, nullptr, "q4", {}).value().step.is_exact);
    EXPECT_EQ(guard->wants_scales(request), cost < 1) << cost;
  }
}

TEST(InterposerScales, CostSomething) {
  const auto device = make_host_device();
  const auto scales = StreamScales::make(*device, 0, std::make_shared<CallSequence>()).value();
  const std::optional<double> cost = scales->measure_cost(nullptr);
  ASSERT_TRUE(cost.has_value());
  EXPECT_GT(*cost, 0);
}

/// Calls of two tensors, in two streams that nothing else puts in order.
TEST(InterposerScales, AreLearntBeforeTheNextCallUsesThem) {
  constexpr std::size_t kCount = 3000, kWorld = 3;
  Notes these_notes;
  notes = &these_notes;
  NotingDevice device;
  const auto codec = device.make_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  LaneShape shape = sra_lane(kWorld, 0);
  shape.chunk_elements = 1024;
  shape.region_bytes = codec->codec().wire_bytes(1024);
  shape.scratch_bytes = kScratchBytes;
  shape.scales_bytes = StreamScales::kScratchBytes;
  const auto lane = Lane::make(device, shape).value();
  const auto sequence = std::make_shared<CallSequence>();
  const auto scales = StreamScales::make(device, 0, sequence).value();
  const ringpressRealNccl real = noting_nccl();
  std::vector<float> values(kCount);
  const Stream streams[] = {device.create_stream().value(), device.create_stream().value()};
  for (std::size_t number = 0; number < 10; ++number) {
    StreamCallParts parts;
    parts.real = &real;
    parts.rank = 1;
    parts.world = kWorld;
    parts.device = &device;
    parts.codec = codec.get();
    parts.lane = lane.get();
    parts.send = parts.receive = values.data();
    parts.count = kCount;
    parts.stream = streams[number / 2 % 2];
    these_notes.operation(parts.stream);
    // Places need two shapes.
    TensorCall tensor{CollectiveKind::kAllReduce, kCount + number % 2};
    sequence->begin_call();
    sequence->tell(tensor, {CallUser::kScales});
    const auto chosen = scales->choose(tensor, kCount, 128, lane->stream()).value();
    parts.scales = chosen.codes;
    const auto call = scales->learn_from(parts, chosen, parts.receive, make_sra_call(parts));
    for (std::size_t step = 0; step < call->steps(); ++step) {
      EXPECT_TRUE(call->prepare(step).is_ok());
      if (!call->exchanges(step)) continue;
      these_notes.operation(parts.stream);
      EXPECT_EQ(call->exchange(step), ncclSuccess);
      EXPECT_TRUE(call->conclude(step).is_ok());
    }
  }
  EXPECT_EQ(these_notes.race(), "");
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
