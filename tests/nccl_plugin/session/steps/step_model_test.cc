// The model of a job, from steps that are known, and what it says of other numbers of workers.
#include "nccl_plugin/session/steps/step_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "nccl_plugin/session/steps/step_link.h"
#include "nccl_plugin/session/steps/step_trace.h"

namespace ringpress::nccl_plugin {
namespace {

/// What the calls of these tests go by.
struct Truth {
  double workers = 4;
  double ratio = 0.25;  // In both halves.
  double bytes_per_second = 1e8;
  double overhead_seconds = 1e-3;  // Of a call.
  double codec_seconds_per_byte = 1e-10;
  double pause_seconds = 0.02;  // Before each call.
};

StepCall call_of(const Truth& truth, std::size_t bytes) {
  const double half = static_cast<double>(bytes) * (truth.workers - 1) / truth.workers;
  StepCall call;
  call.call.count = bytes / sizeof(float);
  call.gap_seconds = truth.pause_seconds;
  call.sent_bytes = static_cast<std::size_t>(2 * truth.ratio * half);
  call.call_seconds = static_cast<double>(call.sent_bytes) / truth.bytes_per_second +
                      half * truth.codec_seconds_per_byte + truth.overhead_seconds;
  return call;
}

RecordedStep step_of(const Truth& truth, const std::vector<std::size_t>& sizes) {
  RecordedStep step;
  step.steps = 10;
  for (const std::size_t bytes : sizes) step.calls.push_back(call_of(truth, bytes));
  return step;
}

CodecSpeed codec_of(const Truth& truth) {
  CodecSpeed codec;
  codec.codec = "q8";
  codec.ratio = truth.ratio;
  codec.hop.seconds_per_byte = truth.codec_seconds_per_byte;
  return codec;
}

JobModel model_from(const Truth& truth, const std::vector<std::size_t>& sizes) {
  const auto model =
      model_of(step_of(truth, sizes), static_cast<std::size_t>(truth.workers), codec_of(truth));
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return model.is_ok() ? model.value() : JobModel();
}

TEST(JobModel, IsTheFormulaOfTheRing) {
  const JobModel model = {1000, 0.5, 0.25, 100, 0.01, 2, 3};
  EXPECT_DOUBLE_EQ(step_seconds(model, 4), 750 * (0.75 / 100 + 0.01) + 5);
  EXPECT_DOUBLE_EQ(step_seconds(model, 1), 2);
  // Bounded, however many there are.
  EXPECT_NEAR(step_seconds(model, 1000000), 1000 * (0.75 / 100 + 0.01) + 5, 1e-3);
}

// Of one size: all that they take may be what any call takes. It does not matter where that is
// little of a step.
TEST(StepLink, IsDoubtedWhereCallsOfOneSizeAreMuchOfAStep) {
  const auto is_sure = [](double pause_seconds, const std::vector<std::size_t>& sizes) {
    Truth truth;
    truth.pause_seconds = pause_seconds;
    return link_behind(step_of(truth, sizes), 4, codec_of(truth)).value().is_sure;
  };
  const std::vector<std::size_t> equal(6, 400000), different = {40000, 400000, 4000000, 800000};
  EXPECT_FALSE(is_sure(0.005, equal));
  EXPECT_TRUE(is_sure(1, equal));
  EXPECT_TRUE(is_sure(0.005, different));
}

/// A step of a program that waits for its calls, of 2 ranks, traced with q4.
struct StepOverLink {
  std::vector<std::size_t> bytes;
  double start_seconds = 0, bytes_per_second = 1;  // Of calls; a burst makes them start below 0.
  double compute_seconds = 0;                      // Of a step.
  double exact_seconds = 0;                        // A step's, as it was measured.
  LinkSpeed measured;                              // The link by itself.

  static CodecSpeed q4() {
    CodecSpeed codec;
    codec.codec = "q4";
    codec.ratio = 0.1328;
    codec.hop.seconds_per_byte = 3e-11;
    return codec;
  }
  RecordedStep step() const {
    RecordedStep step;
    step.steps = 10;
    step.pauses_show = PausesShow::kWaitsForCalls;
    for (const std::size_t of : bytes) {
      StepCall call;
      call.call.count = of / sizeof(float);
      call.sent_bytes = static_cast<std::size_t>(static_cast<double>(of) * q4().ratio);
      call.gap_seconds = compute_seconds / static_cast<double>(bytes.size());
      call.call_seconds = start_seconds + static_cast<double>(call.sent_bytes) / bytes_per_second;
      call.call_error_seconds = 0.02 * call.call_seconds;
      step.calls.push_back(call);
    }
    return step;
  }
  double predicted_exact_seconds(const StepLink& link) const {
    espresso::Job job = job_of(step(), 2, link.speed);
    CodecSpeed exact;
    exact.codec = "none";
    EXPECT_TRUE(espresso::price_calls(exact, q4(), 0, &job).is_ok());
    return espresso::plan_nothing(job, espresso::call_options()).seconds;
  }
};

// Calls of about one size do not show whether they wait or move bytes: over loopback nearly all is
// waiting, behind a shaper nothing is, and its bursts make short calls quicker than its rate.
TEST(StepLink, IsTheOneThatWasMeasuredWhereTheCallsDoNotShowIt) {
  const StepOverLink over[] = {
      // 120 us a call, and exact 135 us (perf/results/step_loopback.txt).
      {std::vector<std::size_t>(6, 197600), 100e-6, 1.3e9, 5e-3, 5e-3 + 6 * 135e-6, {3e-6, 4.4e9}},
      // 100 Mb/s, 35.5 ms of calls, and exact 303.6 ms (perf/results/step_traces.txt).
      {{600000, 1200000, 800000, 1000000}, -1.15e-3, 11.9e6, 48e-3, 351.6e-3, {22e-6, 11.8e6}},
  };
  for (const StepOverLink& one : over) {
    const auto behind = [&one](const std::optional<LinkSpeed>& measured) {
      return link_behind(one.step(), 2, StepOverLink::q4(), measured).value();
    };
    EXPECT_FALSE(behind({}).is_sure);
    EXPECT_GT(std::abs(one.predicted_exact_seconds(behind({})) / one.exact_seconds - 1), 0.1);
    EXPECT_TRUE(behind(one.measured).is_measured);
    EXPECT_NEAR(one.predicted_exact_seconds(behind(one.measured)) / one.exact_seconds, 1, 0.06);
    // On a machine that was too busy to measure it, calls are believed.
    const StepLink busy = behind(LinkSpeed{1e-3, one.measured.bytes_per_second / 100});
    EXPECT_FALSE(busy.is_sure || busy.is_measured);
  }
}

TEST(StepModel, FindsWhatTheStepWasMadeOf) {
  const Truth truth;
  const JobModel model = model_from(truth, {4000000, 16000000, 40000000});
  EXPECT_DOUBLE_EQ(model.bytes, 60e6);
  EXPECT_NEAR(model.ratio_all_gather, 0.25, 1e-9);
  EXPECT_NEAR(model.ratio_reduce_scatter, 0.25, 1e-6);
  EXPECT_NEAR(model.overhead_seconds, 3e-3, 1e-6);
  EXPECT_NEAR(model.compute_seconds, 0.06, 1e-12);
  EXPECT_NEAR(model.codec_seconds_per_byte, 1e-10, 1e-20);
  EXPECT_NEAR(model.bytes_per_second, 1e8, 1e3);
}

TEST(StepModel, SaysWhatOtherNumbersOfWorkersTake) {
  Truth truth;
  const std::vector<std::size_t> sizes = {4000000, 16000000, 40000000};
  const JobModel model = model_from(truth, sizes);
  for (const std::size_t workers : {2, 3, 8, 64}) {
    truth.workers = static_cast<double>(workers);
    EXPECT_NEAR(step_seconds(model, workers), step_of(truth, sizes).seconds(), 1e-6) << workers;
  }
}

TEST(StepModel, ASlowCodecIsHiddenBehindTheWire) {
  Truth truth;
  CodecSpeed slow = codec_of(truth);
  slow.hop.seconds_per_byte = 1;
  const RecordedStep step = step_of(truth, {4000000, 16000000});
  const auto model = model_of(step, 4, slow);
  ASSERT_TRUE(model.is_ok());
  EXPECT_GT(model.value().bytes_per_second, 0);
  EXPECT_NEAR(step_seconds(model.value(), 4), step.seconds(), 1e-9);
}

TEST(StepModel, CallsOfOneSizeShowNoOverhead) {
  const JobModel model = model_from(Truth(), {8000000});
  EXPECT_EQ(model.overhead_seconds, 0);
  EXPECT_NEAR(step_seconds(model, 4), step_of(Truth(), {8000000}).seconds(), 1e-9);
}

TEST(StepModel, AStepThatSendsNothingHasNone) {
  Truth truth;
  truth.ratio = 0;
  EXPECT_EQ(model_of(step_of(truth, {4000}), 4, codec_of(truth)).status().code(),
            Code::kInvalidUsage);
}

TEST(StepModel, IsAMemberOfTheTrace) {
  const Truth truth;
  const auto text = job_text(step_of(truth, {4000000, 16000000}), 4, codec_of(truth));
  ASSERT_TRUE(text.is_ok());
  EXPECT_NE(text.value().find(
                "\"model\": {\"workers\": 4, \"codec\": \"q8\",\n    \"bytes_per_step\": 20000000, "
                "\"ratio_reduce_scatter\": 0.250000, \"ratio_all_gather\": 0.250000,"),
            std::string::npos)
      << text.value();
}

/// A call that was there as soon as the one before had ended was ready by then: since when, nothing
/// shows.
TEST(StepTrace, SaysOfHowManyTensorsItIsNotSeenWhenTheyAreReady) {
  const Truth truth;
  RecordedStep step = step_of(truth, {4000000, 16000000, 8000000});
  const auto note_of = [&] { return job_text(step, 4, codec_of(truth)).value(); };
  EXPECT_EQ(note_of().find("hide"), std::string::npos);
  step.calls[1].gap_seconds = step.calls[2].gap_seconds = 1e-6;
  EXPECT_NE(note_of().find("hide when the tensors of 2 are ready"), std::string::npos) << note_of();
  step.calls[2].is_with_the_one_before = true;  // In one group: they were ready at once.
  EXPECT_NE(note_of().find("hide when the tensors of 1 are ready"), std::string::npos) << note_of();
  step.pauses_show = PausesShow::kWaitsForCalls;
  EXPECT_EQ(note_of().find("hide"), std::string::npos);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
