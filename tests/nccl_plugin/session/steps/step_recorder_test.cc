#include "nccl_plugin/session/steps/step_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "nccl_plugin/session/steps/step_link.h"
#include "nccl_plugin/session/steps/step_trace.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr double kBytesPerSecond = 1e6;
constexpr double kPause = 0.5;  // Before a step.

/// A program that makes calls; time passes in calls and between them.
class Program {
 public:
  /// One call, named by a letter, of so many bytes, `gap` seconds after the one before.
  void call(char name, std::size_t bytes, double gap, bool computes_itself = false) {
    RecordedCall call;
    call.call.count = bytes / sizeof(float);
    const auto place = addresses_stay_ ? static_cast<unsigned char>(name) : calls_++ % kPlaces;
    call.call.address = &addresses_[place];
    call.begin_seconds = now_ + gap;
    call.end_seconds = call.begin_seconds + static_cast<double>(bytes) / kBytesPerSecond;
    call.busy_before_seconds = computes_itself ? gap : 0;
    call.sent_bytes = bytes;
    now_ = call.end_seconds;
    recorder_.note(call);
  }
  /// Steps of the tensors in `step`: a letter's place in the alphabet, from 1 on, in KB.
  void steps(const std::string& step, int count, double gap = 0.01) {
    for (int i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < step.size(); ++at) {
        call(step[at], kilobytes(step[at]), at == 0 ? kPause : gap);
      }
    }
  }
  static std::size_t kilobytes(char name) {
    return static_cast<std::size_t>(name - 'A' + 1) * 1000;
  }

  void skip() { recorder_.skip(); }
  /// From now on each tensor is allocated anew.
  void change_addresses() { addresses_stay_ = false; }
  const StepRecorder& recorder() const { return recorder_; }

  /// The letters of the recorded step.
  std::string recorded() const {
    const auto step = recorder_.step();
    std::string names;
    if (!step) return names;
    for (const StepCall& call : step->calls) {
      names += static_cast<char>('A' + call.bytes() / 1000 - 1);
    }
    return names;
  }

 private:
  StepRecorder recorder_;
  double now_ = 0;
  bool addresses_stay_ = true;
  static constexpr std::size_t kPlaces = 100003;
  std::size_t calls_ = 0;
  std::vector<char> addresses_ = std::vector<char>(kPlaces);
};

TEST(StepRecorder, FindsTheStepAndWhereItBegins) {
  Program program;
  program.call('Z', 26000, 0);  // Of the beginning of a program.
  program.steps("CABA", 3);
  EXPECT_EQ(program.recorded(), "");
  program.steps("CABA", 4);
  EXPECT_EQ(program.recorded(), "CABA");
  const RecordedStep step = *program.recorder().step();
  EXPECT_NEAR(step.calls[0].gap_seconds, kPause, 1e-9);
  EXPECT_NEAR(step.calls[1].gap_seconds, 0.01, 1e-9);
  EXPECT_NEAR(step.seconds(), kPause + 0.03 + 0.007, 1e-9);
  EXPECT_EQ(step.bytes(), 7000U);
  EXPECT_TRUE(step.overlaps());
}

TEST(StepRecorder, AnUnusualStepChangesNoMedian) {
  Program program;
  program.steps("CAB", 8);
  program.steps("CAB", 2, 30.0);
  program.steps("CAB", 8);
  EXPECT_NEAR(program.recorder().step()->calls[1].gap_seconds, 0.01, 1e-9);
}

TEST(StepRecorder, AnOddLastBatchIsNoStep) {
  Program program;
  program.steps("CAB", 20);
  program.steps("CAD", 1);
  program.steps("B", 1);
  EXPECT_EQ(program.recorded(), "CAB");
  EXPECT_FALSE(program.recorder().current().has_value());
  program.steps("CAB", 20);
  EXPECT_EQ(program.recorded(), "CAB");
}

TEST(StepRecorder, AnotherModelInBetweenIsNotMixedIn) {
  Program program;
  program.steps("CAB", 20);
  program.steps("FED", 6);
  EXPECT_EQ(program.recorded(), "CAB");
  program.steps("CAB", 20);
  const RecordedStep step = *program.recorder().step();
  EXPECT_EQ(program.recorded(), "CAB");
  EXPECT_NEAR(step.calls[1].gap_seconds, 0.01, 1e-9);
}

/// What is made without being shown: steps of what lies between are none.
TEST(StepRecorder, WhatLacksACallIsNoStep) {
  Program program;
  program.steps("CAB", 8);
  for (int i = 0; i < 100; ++i) {
    program.steps("CA", 1);
    program.skip();
    EXPECT_FALSE(program.recorder().current().has_value());
  }
  EXPECT_EQ(program.recorded(), "CAB");
  program.steps("CAB", 8);
  EXPECT_EQ(program.recorded(), "CAB");
  EXPECT_TRUE(program.recorder().current().has_value()) << "what came before counts no more";
}

TEST(StepRecorder, ARebuiltStepTakesOverWhenMoreCallsWerePartOfIt) {
  Program program;
  program.steps("CAB", 6);
  program.steps("FED", 30);
  EXPECT_EQ(program.recorded(), "FED");
}

/// Twelve equal layers in a row look like a step of one layer until their end.
TEST(StepRecorder, LayersThatRepeatAreNotTakenForSteps) {
  Program program;
  program.change_addresses();
  std::string step = "D";
  for (int layer = 0; layer < 12; ++layer) step += "BA";
  program.steps(step, 12);
  EXPECT_EQ(program.recorded(), "");  // It is not certain yet.
  program.steps(step, 200);
  EXPECT_EQ(program.recorded(), step);
  EXPECT_EQ(program.recorder().current()->calls.size(), step.size());
}

TEST(StepRecorder, WithoutAddressesAStepOfEqualCallsIsNone) {
  Program program;
  program.change_addresses();
  program.steps("AAA", 30);
  EXPECT_EQ(program.recorded(), "");
}

/// Nothing compressed, the recorded job takes as long as the recorded step took.
double predicted(const RecordedStep& step) {
  espresso::Job job = job_of(step, 2, {0, kBytesPerSecond});
  for (const StepCall& call : step.calls) {
    job.calls.push_back({call.bytes(), call.call_seconds, call.call_seconds});
  }
  const std::vector<espresso::Choice> nothing(job.tensors.size());
  return espresso::predict(job, espresso::call_options(), nothing).seconds;
}

TEST(StepRecorder, TheJobTakesAsLongAsTheStepTook) {
  Program program;
  for (int i = 0; i < 6; ++i) {
    program.call('E', 5000, kPause);
    program.call('B', 2000, 1e-6);  // They were waiting.
    program.call('C', 3000, 1e-6);
    program.call('A', 1000, 0.25);  // Was waited for.
  }
  const RecordedStep step = *program.recorder().step();
  EXPECT_NEAR(predicted(step), step.seconds(), 1e-9);
  const espresso::Job job = job_of(step, 2, {0, kBytesPerSecond});
  EXPECT_NEAR(job.forward_seconds, kPause, 1e-9);
  EXPECT_EQ(job.tensors[1].backward_seconds, 0);
  EXPECT_EQ(job.tensors[2].backward_seconds, 0);
  EXPECT_NEAR(job.tensors[3].backward_seconds, 0.25 + 0.010002, 1e-9);
}

TEST(StepRecorder, AThreadThatComputesOverlapsNothing) {
  Program program;
  for (int i = 0; i < 6; ++i) {
    program.call('E', 5000, kPause, true);
    program.call('A', 1000, 0.25, true);
  }
  const RecordedStep step = *program.recorder().step();
  EXPECT_FALSE(step.overlaps());
  const espresso::Tensor second = job_of(step, 2, {0, kBytesPerSecond}).tensors[1];
  EXPECT_EQ(second.backward_seconds, 0);
  EXPECT_NEAR(second.after_seconds.value(), 0.25, 1e-9);
  EXPECT_NEAR(predicted(step), step.seconds(), 1e-9);
}

/// Steps of three calls whose times and pauses vary from step to step, and that wait for each other
/// or do not.
class Trainer {
 public:
  enum class Waits { kForCalls, kForGradients };

  Trainer(Waits waits, bool is_busy) : waits_(waits), is_busy_(is_busy) {}

  /// From now on the call before so many others takes a second more, once.
  void delay_one_call(std::size_t calls) { delayed_ = calls; }

  /// A call takes `call_seconds`, more or less; in the steps of a trial a fifth of it.
  void steps(int count, bool is_trial = false) {
    for (int step = 0; step < count; ++step) {
      ready_ = now_ + kForward + noise_(random_);
      for (std::size_t i = 0; i < std::size(kBytes); ++i) call(i, is_trial && step % 2 == 0);
    }
  }

  RecordedStep step() const { return recorder_.step().value(); }
  bool has_step() const { return recorder_.step().has_value(); }

  static constexpr double kForward = 0.5, kBackward = 0.25, kCall = 0.1;
  static constexpr std::size_t kBytes[] = {8000, 12000, 8000};

 private:
  void call(std::size_t i, bool is_trial) {
    if (i > 0) {
      const double from = waits_ == Waits::kForCalls ? now_ : ready_;
      ready_ = from + kBackward + noise_(random_);
    }
    RecordedCall call;
    call.call.count = kBytes[i] / sizeof(float);
    call.call.address = &kBytes[i];
    call.begin_seconds = std::max(ready_, now_ + 1e-6);
    call.busy_before_seconds = is_busy_ ? call.begin_seconds - now_ : 0;
    call.is_trial = is_trial;
    call.sent_bytes = is_trial ? kBytes[i] / 5 : kBytes[i];
    const double seconds = (is_trial ? kCall / 5 : kCall) + (delayed_-- == 0 ? 1 : 0);
    call.end_seconds = now_ = call.begin_seconds + seconds + std::abs(longer_(random_));
    recorder_.note(call);
  }

  const Waits waits_;
  const bool is_busy_;
  StepRecorder recorder_;
  std::mt19937 random_{7};
  std::normal_distribution<double> noise_{0, 0.0005};  // Of compute,
  std::normal_distribution<double> longer_{0, 0.002};  // and of calls.
  double now_ = 0, ready_ = 0;
  std::size_t delayed_ = static_cast<std::size_t>(-1);
};

/// What one call adds to how much calls vary once hid all that the others show: the trace then said
/// that compute goes on beside calls, and a step was promised that takes three times as long.
TEST(StepRecorder, OneLateCallHidesNothing) {
  for (const auto waits : {Trainer::Waits::kForCalls, Trainer::Waits::kForGradients}) {
    Trainer trainer(waits, false);
    trainer.delay_one_call(91);  // Of the 31st step.
    trainer.steps(40);
    const RecordedStep step = trainer.step();
    EXPECT_EQ(step.overlaps(), waits == Trainer::Waits::kForGradients);
    EXPECT_FALSE(step.is_overlap_guessed());
  }
}

TEST(StepRecorder, CallsThatNeverVaryShowNothingOfWaits) {
  Program program;
  program.steps("CAB", 20);
  EXPECT_TRUE(program.recorder().step()->is_overlap_guessed());
}

/// Before its calls and forward a thread may compute, whoever computes what lies between.
TEST(StepRecorder, ComputeBeforeAStepIsNoneBetweenItsCalls) {
  Program program;
  for (int i = 0; i < 8; ++i) {
    program.call('E', 5000, kPause, true);
    program.call('A', 1000, 0.01);
    program.call('B', 2000, 1e-6);
  }
  EXPECT_TRUE(program.recorder().step()->overlaps());
}

/// Whoever looks at cores alone takes a thread that sleeps for one that waits for another.
TEST(StepRecorder, AThreadThatSleepsAndWaitsForItsCallsOverlapsNothing) {
  for (const bool is_busy : {false, true}) {
    Trainer trainer(Trainer::Waits::kForCalls, is_busy);
    trainer.steps(40);
    const RecordedStep step = trainer.step();
    EXPECT_FALSE(step.overlaps());
    const espresso::Job job = job_of(step, 2, {0, kBytesPerSecond});
    EXPECT_EQ(job.tensors[1].backward_seconds, 0);
    EXPECT_NEAR(job.tensors[1].after_seconds.value_or(0), Trainer::kBackward, 0.002);
    EXPECT_NEAR(predicted(step), step.seconds(), 0.002);
  }
}

TEST(StepRecorder, AThreadThatWaitsForGradientsOverlaps) {
  Trainer trainer(Trainer::Waits::kForGradients, false);
  trainer.steps(40);
  const RecordedStep step = trainer.step();
  EXPECT_TRUE(step.overlaps());
  const espresso::Job job = job_of(step, 2, {0, kBytesPerSecond});
  EXPECT_FALSE(job.tensors[1].after_seconds.has_value());
  EXPECT_NEAR(job.tensors[1].backward_seconds, Trainer::kBackward, 0.002);
  EXPECT_NEAR(predicted(step), step.seconds(), 0.002);
}

/// Automatic mode tries calls all the time at first.
TEST(StepRecorder, CallsUnderTrialArePartOfTheStep) {
  for (const auto waits : {Trainer::Waits::kForCalls, Trainer::Waits::kForGradients}) {
    Trainer trainer(waits, false);
    trainer.steps(60, true);
    ASSERT_TRUE(trainer.has_step());
    const RecordedStep step = trainer.step();
    EXPECT_EQ(step.calls.size(), std::size(Trainer::kBytes));
    // What is usual counts, its times beside its sizes.
    EXPECT_NEAR(step.calls[1].call_seconds, Trainer::kCall, 0.005);
    EXPECT_EQ(step.calls[1].sent_bytes, Trainer::kBytes[1]);
    EXPECT_EQ(step.overlaps(), waits == Trainer::Waits::kForGradients);
  }
}

/// Issued by a program that looks whether they have ended; times in seconds.
RecordedCall issued_call(std::size_t bytes, double issued, std::optional<double> awaited,
                         double begin, double end) {
  RecordedCall call;
  call.call.count = bytes / sizeof(float);
  call.sent_bytes = bytes;
  call.begin_seconds = begin;
  call.end_seconds = end;
  call.issue = CallIssue{issued, awaited};
  return call;
}

TEST(StepRecorder, WhatAProgramThatDoesNotBlockDidIsKnown) {
  StepRecorder recorder;
  for (int step = 0; step < 8; ++step) {
    const double at = 10.0 * step;
    // After the first call it computes 2 s, waits for it, and then computes 0.5 s more.
    recorder.note(issued_call(4000, at + 1, at - 5, at + 1, at + 4));
    recorder.note(issued_call(8000, at + 4.5, at + 3, at + 4.5, at + 5));
    recorder.note(issued_call(400, at + 4.5, at + 3, at + 5, at + 5.5));  // In one group with it.
  }
  const RecordedStep step = recorder.step().value();
  const espresso::Job job = job_of(step, 2, {0, kBytesPerSecond});
  EXPECT_NEAR(job.tensors[1].backward_seconds, 2, 1e-9);
  EXPECT_NEAR(job.tensors[1].after_seconds.value_or(-1), 0.5, 1e-9);
  EXPECT_EQ(job.tensors[2].backward_seconds, 0);
  EXPECT_FALSE(job.tensors[2].after_seconds.has_value());
  EXPECT_NEAR(predicted(step), step.seconds(), 1e-9);
}

TEST(StepRecorder, TheLinkIsWhatExplainsTheCalls) {
  RecordedStep step;
  for (const std::size_t bytes : {1000UL, 20000UL, 300000UL}) {
    StepCall call;
    call.sent_bytes = bytes;
    call.call_seconds = 2 * 0.003 + static_cast<double>(bytes) / 5e6;
    step.calls.push_back(call);
  }
  const LinkSpeed link = link_of(step).value();
  EXPECT_NEAR(link.latency_seconds, 0.003, 1e-9);
  EXPECT_NEAR(link.bytes_per_second, 5e6, 1);
  step.calls.resize(1);
  EXPECT_NEAR(link_of(step).value().bytes_per_second, 1000 / 0.0062, 1e-3);
  step.calls[0].sent_bytes = 0;
  EXPECT_FALSE(link_of(step).is_ok());
}

/// What rank 0 of three writes of so many steps; empty: nothing.
std::string trace_of(int steps) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringpress-trace-" + std::to_string(getpid()) + ".json");
  const Settings settings = parse_settings({{"RINGPRESS_TIMEOUT_MS", "100000"},
                                            {"RINGPRESS_CODEC", "none"},
                                            {"RINGPRESS_TRACE", file.string()}},
                                           nullptr);
  constexpr int kRanks = 3;
  const auto id = make_unique_id(settings);
  EXPECT_TRUE(id.is_ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = Communicator::create(id.value(), rank, kRanks, settings);
      ASSERT_TRUE(made.is_ok()) << made.status().message();
      std::vector<std::vector<float>> tensors;
      for (const std::size_t count : {300UL, 70000UL, 20UL}) tensors.emplace_back(count);
      for (int step = 0; step < steps; ++step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        for (auto& tensor : tensors) {
          const Status status = made.value()->all_reduce(tensor.data(), tensor.data(),
                                                         tensor.size(), DType::kFloat32, {});
          ASSERT_TRUE(status.is_ok()) << status.message();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  return text.str();
}

// In this order: once a process has written a file, it says no more.
TEST(StepTrace, RankZeroSaysThatThereIsNoStep) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(trace_of(0), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("RINGPRESS_TRACE"), std::string::npos);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(trace_of(2), "");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("repeat no step 4 times in a row"), std::string::npos) << said;
}

TEST(StepTrace, RankZeroWritesTheStepOfACommunicator) {
  const std::string text = trace_of(8);
  std::string sizes;
  for (std::size_t at = 0; (at = text.find("\"bytes\": ", at)) != std::string::npos; ++at) {
    sizes += std::to_string(std::atol(text.c_str() + at + 9)) + " ";
  }
  EXPECT_EQ(sizes, "1200 280000 80 ") << text;
  EXPECT_NE(text.find("\"machines\": 3,"), std::string::npos) << text;
}

/// Between hosts, where automatic mode tries out what is best.
TEST(StepTrace, OfAutomaticModeIsWritten) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringpress-auto-trace-" + std::to_string(getpid()) + ".json");
  const Settings settings = parse_settings(
      {{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_CACHE", "off"}, {"RINGPRESS_TRACE", file.string()}},
      nullptr);
  constexpr int kRanks = 2;
  const auto fabric = std::make_shared<testing::ThreadFabric>(kRanks, false);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      std::vector<std::vector<float>> tensors;
      for (const std::size_t count : {50000UL, 90000UL, 30000UL}) tensors.emplace_back(count, 1.0F);
      for (int step = 0; step < 60; ++step) {
        for (auto& tensor : tensors) {
          ASSERT_TRUE(communicator
                          .all_reduce(tensor.data(), tensor.data(), tensor.size(), DType::kFloat32,
                                      {ReduceOp::kAvg})
                          .is_ok());
        }
      }
    });
  }
  threads.clear();
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_NE(text.str().find("\"bytes\": 360000"), std::string::npos) << text.str();
}

const TensorCall kSomeCall = {CollectiveKind::kAllReduce, 1, DType::kFloat32, ReduceOp::kSum, {}};

TEST(CallClock, AThreadThatSleepsBetweenItsCallsIsNotBusy) {
  CallClock clock;
  clock.begin_call(0);
  const RecordedCall first = clock.end_call(kSomeCall, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  clock.begin_call(100);
  const RecordedCall second = clock.end_call(kSomeCall, 164);
  const double gap = second.begin_seconds - first.end_seconds;
  EXPECT_GE(gap, 0.02);
  EXPECT_LT(second.busy_before_seconds, 0.5 * gap);
  EXPECT_GE(second.busy_before_seconds, 0);
  EXPECT_EQ(second.sent_bytes, 64u);
}

/// However many others there are for its core: it is busy as long as it waits for nothing.
TEST(CallClock, AThreadThatWaitsForNothingIsBusy) {
  std::atomic<bool> is_over{false};
  std::vector<std::jthread> others;  // They look at it until they have ended.
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    others.emplace_back([&] {
      while (!is_over) {
      }
    });
  }
  // A thread may wait for what it does not know of, such as memory: once of several times it does
  // not.
  double busy_share = 0;
  for (int attempt = 0; attempt < 10 && busy_share < 0.9; ++attempt) {
    CallClock clock;
    clock.begin_call(0);
    const RecordedCall first = clock.end_call(kSomeCall, 0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
    while (std::chrono::steady_clock::now() < end) {
    }
    clock.begin_call(0);
    const RecordedCall second = clock.end_call(kSomeCall, 0);
    busy_share = second.busy_before_seconds / (second.begin_seconds - first.end_seconds);
  }
  is_over = true;
  EXPECT_GE(busy_share, 0.9);
}

TEST(CallClock, APauseThatIsOverAtOnceCountsAsBusy) {
  CallClock clock;
  std::optional<RecordedCall> last;
  for (int calls = 0; calls < 10000; ++calls) {
    clock.begin_call(0);
    const RecordedCall now = clock.end_call(kSomeCall, 0);
    if (last) {
      const double gap = now.begin_seconds - last->end_seconds;
      if (gap <= kAtOnceSeconds) {
        EXPECT_EQ(now.busy_before_seconds, gap);
        return;
      }
    }
    last = now;
  }
  FAIL() << "each of these pauses took long";
}

}  // namespace
}  // namespace ringpress::nccl_plugin
