// The models behind `ringpress estimate` and `ringpress plan --preset`, against what was measured
// and published.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nccl_plugin/command/estimate/gpus.h"
#include "nccl_plugin/command/estimate/step_model.h"
#include "nccl_plugin/command/explain/processors.h"
#include "nccl_plugin/command/plan/presets.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr double kBackward = 2.0 / 3;

nlohmann::json results(const std::string& name) {
  std::ifstream file(std::string(RESULTS) + "/" + name);
  return nlohmann::json::parse(file);
}

TEST(StepModel, CutsGradientsIntoBuckets) {
  const Buckets many = cut_into_buckets(100, 30);
  EXPECT_EQ(many.count, 4U);
  EXPECT_EQ(many.last, 10U);
  const Buckets whole = cut_into_buckets(90, 30);
  EXPECT_EQ(whole.count, 3U);
  EXPECT_EQ(whole.last, 30U);
  const Buckets one = cut_into_buckets(7, 30);
  EXPECT_EQ(one.count, 1U);
  EXPECT_EQ(one.last, 7U);
}

/// The formula, step by step: a bucket is reduced when it is ready and the one before is done.
double simulated_step(const Buckets& buckets, const BucketSeconds& seconds, double compute) {
  const double forward = compute * (1 - kBackward);
  double done = 0;
  for (std::size_t i = 0; i < buckets.count; ++i) {
    const bool is_last = i + 1 == buckets.count;
    const double ready = forward + kBackward * compute * static_cast<double>(i + 1) /
                                       static_cast<double>(buckets.count);
    done = std::max(done, ready) + (is_last ? seconds.last : seconds.each);
  }
  return std::max(done, compute);
}

TEST(StepModel, IsWhatASimulationSays) {
  for (const std::size_t count : {1U, 2U, 7U, 100U}) {
    const Buckets buckets = {30, count, 10};
    for (const double each : {0.0, 0.001, 0.01, 0.1, 1.0}) {
      const BucketSeconds seconds = {each, each / 2};
      const StepTimes times = time_step(buckets, seconds, 0.6, kBackward);
      EXPECT_NEAR(times.step, simulated_step(buckets, seconds, 0.6), 1e-12) << count << " " << each;
      EXPECT_NEAR(times.step, 0.6 + times.exposed, 1e-12);
      const double compute = compute_of_step(buckets, seconds, times.step, kBackward);
      EXPECT_NEAR(compute, 0.6, 1e-9) << count << " " << each;
    }
  }
  EXPECT_LT(compute_of_step({30, 4, 30}, {1, 1}, 3.9, kBackward), 0);
}

/// A call as `ringpress explain` predicted it.
CallCost call_of(const nlohmann::json& row) {
  CallCost call;
  call.seconds = row["predicted_ms"].get<double>() / 1e3;
  call.codec_seconds = row["codec_ms"].get<double>() / 1e3;
  call.wire_bytes = row["predicted_bytes"].get<std::size_t>();
  return call;
}

CodecSpeed codec_of(const std::string& setting) {
  CodecSpeed codec;
  for (const char* whole : {"topk", "randk", "powersgd"}) {
    if (setting.starts_with(whole)) codec.look.seconds_per_byte = 1;
  }
  return codec;
}

// perf/results/explain-check.json: 2 and 4 ranks on two cores, 1 and 10 Gb/s, calls of 32 MB.
TEST(Processors, AreWithinAQuarterOfWhatWasMeasured) {
  constexpr std::size_t kLarge = 32 << 20;
  std::size_t dense = 0, near = 0;
  const nlohmann::json file = results("explain-check.json");
  for (const nlohmann::json& row : file["rows"]) {
    if (row["bytes"].get<std::size_t>() != kLarge) continue;
    const auto setting = row["setting"].get<std::string>();
    const CodecSpeed codec = codec_of(setting);
    const double cores = row["ranks"].get<int>() > 2 ? 0.5 : 1;
    const BusySeconds busy = with_processors(call_of(row), codec, cores);
    const double factor = row["measured_ms"].get<double>() / 1e3 / busy.seconds;
    const bool is_dense = codec.look.seconds_per_byte == 0;
    // What is sparse waits for memory where the link is the limit, too.
    if (is_dense || busy.is_busy) {
      EXPECT_GE(factor, busy.range.least) << row;
      EXPECT_LE(factor, busy.range.most) << row;
    }
    dense += is_dense ? 1 : 0;
    near += is_dense && std::abs(1 / factor - 1) <= 0.25 ? 1 : 0;
  }
  EXPECT_EQ(dense, 48U);
  EXPECT_GE(near, 47U);
}

TEST(Gpus, HaveTheRatesThatWereMeasured) {
  std::size_t count = 0;
  const nlohmann::json file = results("gpu-codec-perf.json");
  for (const nlohmann::json& row : file["rows"]) {
    const DType dtype = row["dtype"] == "float32" ? DType::kFloat32 : DType::kBfloat16;
    const auto codec = row["codec"].get<std::string>();
    const KernelRates* const rates = find_kernel_rates(codec, dtype);
    ASSERT_NE(rates, nullptr) << codec;
    const auto operation = row["operation"].get<std::string>();
    const double known = operation == "encode"      ? rates->encode
                         : operation == "encode_ef" ? rates->encode_with_feedback
                         : operation == "decode"    ? rates->decode
                                                    : rates->hop;
    EXPECT_NEAR(known, row["gigabytes_per_second"].get<double>(), 0.6) << codec << " " << operation;
    ++count;
  }
  EXPECT_GT(count, 100U);
}

TEST(Gpus, AreFoundAsPeopleTypeThem) {
  for (const char* name : {"h100", "H100", "RTX 4090", "rtx-4090"}) {
    EXPECT_NE(find_gpu(name), nullptr) << name;
  }
  EXPECT_EQ(find_gpu("none"), nullptr);
  EXPECT_EQ(find_gpu(""), nullptr);
}

TEST(Gpus, KernelsArePredictedByMemory) {
  CodecSpeed here;
  here.codec = "q4";
  here.ratio = 0.13;
  const auto fast = speed_on(*find_gpu("h200"), here, DType::kFloat32);
  const auto slow = speed_on(*find_gpu("a100"), here, DType::kFloat32);
  ASSERT_TRUE(fast && slow);
  EXPECT_NEAR(slow->decode.seconds_per_byte / fast->decode.seconds_per_byte, 4800.0 / 2039, 1e-9);
  here.codec = "powersgd";
  EXPECT_FALSE(speed_on(*find_gpu("h200"), here, DType::kFloat32).has_value());
}

TEST(Presets, HaveAsManyParametersAsPublished) {
  for (const std::string_view name : preset_names()) {
    double count = 0, operations = 0;
    for (const Parameter& one : *preset_parameters(name)) {
      EXPECT_GE(one.count, 1) << name << " " << one.name;
      count += one.count;
      operations += one.operations;
    }
    EXPECT_EQ(count, published_parameters(name)) << name;
    EXPECT_GT(operations, 2 * count * 0.6) << name;
  }
  EXPECT_FALSE(preset_parameters("gpt").has_value());
}

TEST(Presets, CostAsManyOperationsAsPublished) {
  // Of an image, products and sums counted apart; He et al. and others count a pair as one.
  for (const auto& [name, billions] : {std::pair("resnet50", 2 * 4.1), {"vgg16", 2 * 15.5}}) {
    double operations = 0;
    for (const Parameter& one : *preset_parameters(name)) operations += one.operations;
    EXPECT_NEAR(operations / 1e9 / billions, 1, 0.05) << name;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
