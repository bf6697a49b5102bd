// Door A under RINGPRESS_CODEC=auto: what makes a training step no shorter is left to the real
// library, by all ranks at the same call.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/interposer/stream/stream_steps.h"
#include "tests/compress_kernels/host_memory_device.h"
#include "tests/support/cuda_job.h"
#include "tests/support/interposer_hosts.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kMinimumBytes = 1024;
constexpr double kRate = 1e6;  // Of the link, bytes a second.
constexpr double kRatio = 0.125;
const Stream kStream = reinterpret_cast<Stream>(0x1000);

struct TimedCall {
  std::size_t count = 0;
  double backward_seconds = 0;  // From when the gradient before it is ready; of the first: from the
                                // last call of the step before.
};
using Step = std::vector<TimedCall>;

// 40 KB compressed take 5 ms, exact 40. What follows the first call leaves room for that; the last
// call has no time to lose.
const Step kWithABubble = {{10000, 0.3}, {10000, 0.1}, {10001, 0.001}, {10000, 0.001}};

/// Events happen when they are told to, and are seen to have happened later.
class TimedDevice final : public compress_kernels::testing::HostMemoryDevice {
 public:
  ~TimedDevice() override { EXPECT_EQ(events_, 0); }
  Result<Event> create_timing_event() override {
    if (events_ == most_events) return Status(Code::kSystem, "no memory for an event");
    ++events_;
    return Event(new double(0));
  }
  void destroy_event(Event event) override {
    --events_;
    delete static_cast<double*>(event);
  }
  Result<double> seconds_between(Event begin, Event end) override {
    if (fails) return Status(Code::kSystem, "the device has failed");
    const double first = *static_cast<double*>(begin), last = *static_cast<double*>(end);
    if (first > seen_until || last > seen_until) return -1.0;
    return last - first;
  }
  double seen_until = 0;
  int most_events = 1000000;
  bool fails = false;

 private:
  int events_ = 0;
};

/// Ranks that make the same calls.
class Ranks {
 public:
  /// Rank 0's program is so many calls ahead of its device.
  explicit Ranks(int world, std::size_t ahead = 0) : ahead_(ahead) {
    settings_ = make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}});
    for (int rank = 0; rank < world; ++rank) {
      devices_.push_back(std::make_unique<TimedDevice>());
      steps_.push_back(StreamSteps::make(*devices_.back(), settings_, rank, world).value());
    }
  }

  /// True if the plan left it exact, on all ranks; a failure if they differ.
  bool call(const TimedCall& timed, bool is_trial = false) {
    const PlanRequest request{CollectiveKind::kAllReduce, timed.count, DType::kFloat32};
    TensorCall tensor;
    tensor.count = timed.count;
    tensor.address = &timed;
    if (arrives_ == 0) deliver();
    if (arrives_ > 0) --arrives_;
    const bool takes = steps_[0]->takes(request);
    std::optional<bool> exact;
    for (auto& steps : steps_) {
      EXPECT_EQ(steps->takes(request), takes);
      if (!takes) continue;
      const Result<SteppedCall> stepped = next(*steps, tensor);
      if (!exact) exact = stepped.value().stays_exact.has_value();
      EXPECT_EQ(stepped.value().stays_exact.has_value(), *exact);
      if (stepped.value().words.count > 0) words_.push_back(stepped.value().words);
    }
    if (!words_.empty()) {
      EXPECT_EQ(words_.size(), steps_.size());
      if (arrives_ < 0) arrives_ = static_cast<int>(ahead_);
    }
    take_time(tensor, timed, is_trial, exact.value_or(false));
    had_plan_ |= steps_[0]->has_plan();
    return exact.value_or(false);
  }

  /// The calls of some steps that were left exact: "0100 " and so on.
  std::string steps(const Step& step, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      ready_ = now_;
      for (const TimedCall& timed : step) text += call(timed, timed.count == tried) ? '1' : '0';
      text += ' ';
    }
    return text;
  }

  bool takes_calls() const {
    return steps_[0]->takes({CollectiveKind::kAllReduce, 10000, DType::kFloat32});
  }
  TimedDevice& device() { return *devices_[0]; }
  StreamSteps& of(int rank) { return *steps_[static_cast<std::size_t>(rank)]; }
  bool had_plan() const { return had_plan_; }
  int waits() const { return waits_; }

  Stream stream = kStream;
  double exact_factor = 1;  // Of what an exact call takes.
  std::size_t tried = 0;    // Calls of so many elements are made now in one way and now in another,
  std::size_t ruled = 0;    // and of so many as a rule says.

 private:
  Result<SteppedCall> next(StreamSteps& steps, const TensorCall& tensor) {
    return steps.next(tensor, kStream, {[this] {
                        // Whoever waits, waits until the device gets there.
                        if (!words_.empty()) ++waits_;
                        deliver();
                        return false;
                      }});
  }
  void deliver() {
    for (const TravelingWords& words : words_) {
      std::memcpy(words.received, words_[0].sent, words.count * sizeof(std::uint64_t));
    }
    words_.clear();
    arrives_ = -1;
  }
  void take_time(const TensorCall& tensor, const TimedCall& timed, bool is_trial, bool exact) {
    const double bytes = static_cast<double>(timed.count * sizeof(float));
    const double sent = exact ? bytes : kRatio * bytes;
    ready_ += timed.backward_seconds;
    const double begin = std::max(ready_, now_ + 1e-6);
    now_ = begin + sent / kRate * (exact ? exact_factor : 1);
    CallFrame frame;
    for (auto& steps : steps_)
      is_trial ? steps->skip() : steps->time(tensor, stream, timed.count == ruled, &frame);
    if (frame.begin != nullptr) {
      *static_cast<double*>(frame.begin) = begin;
      *static_cast<double*>(frame.end) = now_;
      const auto raw = static_cast<std::uint64_t>(bytes);
      const auto compressed = static_cast<std::uint64_t>(sent);
      *frame.sent = {true, exact ? 0 : compressed, exact ? 0 : raw};
    }
    ends_.push_back(now_);
    if (ends_.size() > ahead_) devices_[0]->seen_until = ends_[ends_.size() - 1 - ahead_];
  }

  const std::size_t ahead_;
  Settings settings_;
  std::vector<std::unique_ptr<TimedDevice>> devices_;
  std::vector<std::unique_ptr<StreamSteps>> steps_;
  std::vector<TravelingWords> words_;  // On their way, by rank.
  int arrives_ = -1;                   // After so many calls; -1: nothing is on its way.
  std::vector<double> ends_;
  double now_ = 0;    // The end of the last call.
  double ready_ = 0;  // The last gradient.
  bool had_plan_ = false;
  int waits_ = 0;
};

/// Makes events happen, and says what the clock then tells of: "begin-end " in seconds.
struct ClockTest {
  TimedDevice device;
  StreamClock clock{device, 2};

  CallFrame begin(double from, double to, Stream stream = kStream) {
    RecordedCall call;
    call.call.count = 100;
    CallFrame frame;
    EXPECT_TRUE(clock.begin(call, stream, &frame));
    *static_cast<double*>(frame.begin) = from;
    *static_cast<double*>(frame.end) = to;
    *frame.sent = {true, 50, 200};
    return frame;
  }
  std::vector<RecordedCall> tell(double until) {
    device.seen_until = until;
    std::vector<RecordedCall> told(1);
    while (clock.next(&told.back()) == StreamClock::Seen::kCall) told.emplace_back();
    told.pop_back();
    return told;
  }
};

TEST(StreamClock, TellsOfCallsThatTheDeviceHasDone) {
  ClockTest test;
  test.begin(1, 2);
  test.begin(5, 7, nullptr);
  test.begin(7.5, 9);
  EXPECT_TRUE(test.tell(1.5).empty());
  const std::vector<RecordedCall> told = test.tell(8);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_DOUBLE_EQ(told[0].end_seconds - told[0].begin_seconds, 1);
  EXPECT_DOUBLE_EQ(told[1].begin_seconds - told[0].end_seconds, 3);
  EXPECT_DOUBLE_EQ(told[1].end_seconds - told[1].begin_seconds, 2);
  EXPECT_DOUBLE_EQ(told[0].busy_before_seconds, 0);
  EXPECT_DOUBLE_EQ(told[1].busy_before_seconds, 3);  // In the default stream.
  EXPECT_EQ(told[1].sent_bytes, 100U);               // A quarter of 400.
  EXPECT_EQ(test.clock.under_way().size(), 1U);
  EXPECT_EQ(test.tell(9).size(), 1U);
}

/// As those of one group, or of two streams: their time is counted once.
TEST(StreamClock, CallsAtOnceAreOne) {
  ClockTest test;
  test.begin(1, 4);
  test.begin(1, 4);
  test.begin(2, 6);
  const std::vector<RecordedCall> told = test.tell(10);
  ASSERT_EQ(told.size(), 3U);
  for (const auto& [index, seconds] : {std::pair{0, 3.0}, {1, 0.0}, {2, 2.0}}) {
    const RecordedCall& call = told[static_cast<std::size_t>(index)];
    EXPECT_DOUBLE_EQ(call.end_seconds - call.begin_seconds, seconds);
  }
  EXPECT_DOUBLE_EQ(told[2].end_seconds - told[0].begin_seconds, 5);
}

TEST(StreamClock, WaitsForACallThatIsStillAskedFor) {
  ClockTest test;
  test.begin(1, 2).sent->is_known = false;
  test.begin(3, 4);
  EXPECT_TRUE(test.tell(10).empty());
  test.clock.forget();
  EXPECT_TRUE(test.clock.under_way().empty());
}

std::string last_step(const std::string& seen) {
  return seen.substr(seen.size() - 5);
}

class StreamStepsAhead : public ::testing::TestWithParam<std::size_t> {};

/// However far the program is ahead of its device.
TEST_P(StreamStepsAhead, LeavesExactWhatComesBeforeABubble) {
  Ranks ranks(3, GetParam());
  const std::string seen = ranks.steps(kWithABubble, 200);
  EXPECT_EQ(seen.substr(0, 5), "0000 ");
  EXPECT_EQ(last_step(seen), "1000 ");
  EXPECT_EQ(ranks.waits() > 0, GetParam() > 32);
}

/// A word counts later than it is sent: at another call of the step, then.
TEST_P(StreamStepsAhead, WhereverInTheStepAWordIsHeard) {
  for (std::size_t more = 0; more < 6; ++more) {
    Ranks ranks(2, GetParam());
    Step step = kWithABubble;
    step.insert(step.end(), more, {10000, 0.001});
    const std::string seen = ranks.steps(step, 200);
    EXPECT_EQ(seen.substr(seen.size() - step.size() - 1), "1" + std::string(3 + more, '0') + " ");
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, StreamStepsAhead, ::testing::Values(0, 1, 7, 30, 60));

TEST(StreamSteps, ACallThatDoesNotFitEndsThePlanAtOnce) {
  Ranks ranks(2, 3);
  static_cast<void>(ranks.steps(kWithABubble, 100));
  EXPECT_EQ(ranks.steps(kWithABubble, 1), "1000 ");
  EXPECT_FALSE(ranks.call({777, 0.1}));  // An odd last batch.
  EXPECT_EQ(ranks.steps(kWithABubble, 1), "0000 ");
  const std::string seen = ranks.steps(kWithABubble, 600);
  EXPECT_EQ(last_step(seen), "1000 ");
}

/// Also one that comes while the judgement on the plan is on its way: that is of no plan any more.
TEST(StreamSteps, AWordOnAPlanThatHasEndedIsNotHeard) {
  for (std::size_t odd = 0; odd < 300; ++odd) {
    Ranks ranks(2, 5);
    ranks.exact_factor = 5;
    static_cast<void>(ranks.steps(kWithABubble, 26));
    for (std::size_t i = 0; i < odd; ++i) ranks.call(kWithABubble[i % kWithABubble.size()]);
    ranks.call({777, 0.1});
    const bool looks_on = ranks.takes_calls();  // No: it was given up before.
    ranks.exact_factor = 1;
    const std::string seen = ranks.steps(kWithABubble, 1200);
    EXPECT_EQ(last_step(seen), looks_on ? "1000 " : "0000 ") << "after " << odd << " calls";
    ASSERT_FALSE(HasFailure()) << odd;
  }
}

TEST(StreamSteps, APlanThatMakesTheStepLongerIsGivenUpForGood) {
  Ranks ranks(2, 4);
  ranks.exact_factor = 5;
  const std::string seen = ranks.steps(kWithABubble, 1000);
  EXPECT_NE(seen.find("1000 "), std::string::npos);
  EXPECT_EQ(last_step(seen), "0000 ");
  EXPECT_FALSE(ranks.takes_calls());  // They cost nothing from now on.
}

TEST(StreamSteps, WithoutAStepCallsAreLeftAloneAtLast) {
  Ranks ranks(2);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) EXPECT_FALSE(ranks.call({10000 + random() % 999983, 0.001}));
  EXPECT_FALSE(ranks.takes_calls());
  EXPECT_FALSE(ranks.had_plan());
}

TEST(StreamSteps, NothingIsLeftExactWhereCallsWaitForEachOther) {
  Ranks ranks(2, 2);
  const Step full = {{10000, 0.02}, {10000, 1e-6}, {10000, 1e-6}};
  EXPECT_EQ(ranks.steps(full, 400).find('1'), std::string::npos);
}

/// What computes there does so only while no call is under way.
TEST(StreamSteps, NothingIsLeftExactInTheDefaultStream) {
  Ranks ranks(2, 2);
  ranks.stream = nullptr;
  EXPECT_EQ(ranks.steps(kWithABubble, 400).find('1'), std::string::npos);
}

TEST(StreamSteps, NoPlanIsMadeForWhatARuleDecides) {
  Ranks ranks(2, 2);
  ranks.ruled = 10000;
  EXPECT_EQ(ranks.steps(kWithABubble, 400).find('1'), std::string::npos);
  EXPECT_FALSE(ranks.had_plan());
  EXPECT_FALSE(ranks.takes_calls());  // They cost nothing from now on.
}

TEST(StreamSteps, NoPlanIsMadeWhileACallIsTriedOut) {
  Ranks ranks(2, 2);
  ranks.tried = 10001;
  EXPECT_EQ(ranks.steps(kWithABubble, 1000).find('1'), std::string::npos);
  ranks.tried = 0;
  EXPECT_EQ(last_step(ranks.steps(kWithABubble, 1000)), "1000 ");
}

TEST(StreamSteps, ADeviceThatDoesNotTellTimesHasNoPlan) {
  Ranks without_events(2, 5), failing(2);
  without_events.device().most_events = 3;
  EXPECT_EQ(without_events.steps(kWithABubble, 300).find('1'), std::string::npos);
  failing.device().fails = true;
  EXPECT_EQ(failing.steps(kWithABubble, 300).find('1'), std::string::npos);
}

TEST(StreamSteps, OnlyLargeAllReducesTakePart) {
  Ranks ranks(2);
  EXPECT_TRUE(ranks.takes_calls());
  EXPECT_FALSE(ranks.of(1).takes({CollectiveKind::kAllReduce, 10, DType::kFloat32}));
  EXPECT_FALSE(ranks.of(1).takes({CollectiveKind::kReduceScatter, 10000, DType::kFloat32}));
}

/// Rank 0 has ended before it said what it found out.
TEST(StreamSteps, AWordThatNeverComesEndsTheCall) {
  const Settings settings =
      make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}});
  Watch watch{[] { return false; }};
  watch.timeout = std::chrono::seconds(1);
  TimedDevice device;
  const auto steps = StreamSteps::make(device, settings, 1, 2).value();
  TensorCall call;
  call.count = 10000;
  for (int i = 0; i < 64 + 32; ++i) {
    ASSERT_TRUE(steps->next(call, kStream, {[] { return false; }}).is_ok());
  }
  EXPECT_EQ(steps->next(call, kStream, {[] { return true; }}).status().code(), Code::kAborted);
  EXPECT_EQ(steps->next(call, kStream, watch).status().code(), Code::kTimeout);
}

TEST(StreamSteps, AWordThatMakesNoSenseEndsTheCall) {
  for (const bool is_too_long : {false, true}) {
    TimedDevice device;
    const Settings settings =
        make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}});
    const auto steps = StreamSteps::make(device, settings, 1, 2).value();
    TensorCall call;
    call.count = 10000;
    TravelingWords words;
    for (int i = 0; i < 64 + 32; ++i) {
      const SteppedCall stepped = steps->next(call, kStream, {[] { return false; }}).value();
      if (stepped.words.count > 0) words = stepped.words;
    }
    ASSERT_GT(words.count, 0U);
    StepMessage::Header header{1, is_too_long ? 1U << 30 : 2U, 2, 1};
    std::memcpy(words.received, &header, sizeof header);
    words.received[words.count - 1] = 1;
    EXPECT_EQ(steps->next(call, kStream, {[] { return false; }}).status().code(), Code::kMismatch);
  }
}

/// Other models in between, odd batches, trials, devices that are far behind.
TEST(StreamSteps, RanksNeverDiffer) {
  int plans = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Ranks ranks(2 + static_cast<int>(seed % 4), random() % 50);
    std::vector<Step> models(3, kWithABubble);
    for (std::size_t i = 0; i < models.size(); ++i) {
      for (TimedCall& call : models[i]) call.count += i;
      std::rotate(models[i].begin(), models[i].begin() + static_cast<int>(i), models[i].end());
    }
    for (int part = 0; part < 6; ++part) {
      const Step& model = models[random() % models.size()];
      ranks.tried = random() % 4 == 0 ? 10001 : 0;
      static_cast<void>(ranks.steps(model, 1 + static_cast<int>(random() % 200)));
      if (random() % 2 == 0) ranks.call({1000 + random() % 9, 0.01});
    }
    plans += ranks.had_plan() ? 1 : 0;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(plans, 100);
}

constexpr std::size_t kLarge = 20000;

template <const ringpressRealNccl& (*kNccl)()>
ncclResult_t slow_all_reduce(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (count == kLarge) std::this_thread::sleep_for(std::chrono::milliseconds(8));
  return kNccl().AllReduce(send, receive, count, dtype, op, comm, stream);
}

struct Training {
  std::vector<std::vector<float>> results;  // Of each call.
  std::set<std::string> reasons;
};

/// Of a step of three tensors the first is ready long before the others.
void train(const std::shared_ptr<Comm>& comm, const ringpressRealNccl& real, cudaStream_t stream,
           Training* training, int steps) {
  std::vector<std::vector<float>> tensors;
  for (unsigned i = 0; i < 3; ++i) tensors.push_back(make_values(comm->rank(), kLarge, i));
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (i < 2) std::this_thread::sleep_for(std::chrono::milliseconds(i == 0 ? 30 : 14));
      Call call;
      call.send = tensors[i].data();
      training->results.emplace_back(kLarge);
      call.receive = training->results.back().data();
      call.count = step == steps / 2 && i == 1 ? kLarge - 100 : kLarge;  // An odd batch.
      call.comm = comm->handle();
      call.stream = stream;
      PlannedCall planned{call};
      if (!comm->planner().plan(&planned)) {
        ASSERT_EQ(run_exactly(real, call), ncclSuccess);
        continue;
      }
      const AcceptedCall accepted{comm, planned};
      ASSERT_EQ(run_calls(real, {&accepted, 1}), ncclSuccess);
      training->reasons.insert(to_text(comm->starter().exact_because()));
    }
  }
}

/// On host memory, or on the CUDA device with its stand-in runtime.
class StreamStepsInCalls : public ::testing::TestWithParam<bool> {};

/// Through the engine's own calls. What is planned is a matter of times here, so the tests above,
/// whose times are made up, are those that require it.
TEST_P(StreamStepsInCalls, RanksHaveTheSameBytes) {
  constexpr int kWorld = 3;
  const bool is_cuda = GetParam();
  ringpressRealNccl real = is_cuda ? nccl_in_streams() : recording_nccl();
  real.AllReduce = is_cuda ? slow_all_reduce<nccl_in_streams> : slow_all_reduce<recording_nccl>;
  std::vector<Training> ranks(kWorld);
  run_hosts(
      make_settings({{"RINGPRESS_CODEC", "auto"},
                     {"RINGPRESS_GRADIENTS", "all"},
                     {"RINGPRESS_BUDGET", "q4"},
                     {"RINGPRESS_BACKEND", is_cuda ? "cuda" : "host"}}),
      {0, 1, 2},
      [&](const std::shared_ptr<Comm>& comm, int rank) {
        const cudaStream_t stream = is_cuda ? make_stream() : static_cast<cudaStream_t>(kStream);
        train(comm, real, stream, &ranks[static_cast<std::size_t>(rank)], 90);
        EXPECT_TRUE(!is_cuda || cudaStreamDestroy(stream) == cudaSuccess);
      },
      real);
  for (const Training& rank : ranks) {
    EXPECT_EQ(rank.results, ranks[0].results);
    EXPECT_EQ(rank.reasons, ranks[0].reasons);
  }
}

/// As all ranks follow a step by the calls that they are shown, those that automatic mode leaves
/// exact until they recur are shown too: without them the plan would be at another call of the
/// step, which need not differ from the right one in its shape.
TEST(StreamStepsInCallsAlone, ACallThatIsNewIsPartOfTheStep) {
  const ringpressRealNccl& real = recording_nccl();
  const Settings settings =
      make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}});
  run_hosts(settings, {0, 1}, [&](const std::shared_ptr<Comm>& comm, int rank) {
    const std::vector<float> values = make_values(rank, kLarge);
    const std::vector<float> others = make_values(1 - rank, kLarge);
    std::vector<float> sums(kLarge);
    for (int made = 0; made < 3; ++made) {
      PlannedCall planned{{CollectiveKind::kAllReduce, values.data(), sums.data(), kLarge,
                           ncclFloat32, ncclSum, comm->handle(),
                           static_cast<cudaStream_t>(kStream)}};
      ASSERT_TRUE(comm->planner().plan(&planned));
      EXPECT_TRUE(planned.is_of_step);
      const AcceptedCall accepted{comm, planned};
      ASSERT_EQ(run_calls(real, {&accepted, 1}), ncclSuccess);
      if (made == 2) continue;  // It is compressed, as a trial.
      EXPECT_EQ(comm->starter().exact_because().reason, ExactReason::kNotRecurred);
      for (std::size_t i = 0; i < kLarge; ++i) ASSERT_EQ(sums[i], values[i] + others[i]) << i;
    }
    EXPECT_EQ(comm->starter().exact_because().reason, ExactReason::kNone);
  });
}

INSTANTIATE_TEST_SUITE_P(Places, StreamStepsInCalls, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Cuda" : "Host"; });

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
