// What compressed all-reduces lose is measured while they are made, and kept within the budget.
#include "nccl_plugin/session/calls/error_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "nccl_plugin/session/settings/budget_error.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::error_guard_test {
namespace {

using Floats = std::vector<float>;
using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr TensorCall kCall{CollectiveKind::kAllReduce, 20000, DType::kFloat32, ReduceOp::kSum};

/// A call whose result is off by so much in each value; what the guard says of it.
std::string make_call(ErrorGuard* guard, double error, const std::string& codec = "q4") {
  guard->codec_for(kCall, codec);
  if (!guard->is_due(kCall)) return "not due";
  const Floats exact(kCall.count, 1.0F);
  guard->take(kCall, exact.data());
  const Floats result(kCall.count, static_cast<float>(1 + error));
  return guard->judge(kCall, result.data(), 2, codec, true);
}

/// Until it is due again.
std::string make_calls(ErrorGuard* guard, double error, const std::string& codec = "q4") {
  std::string said = "not due";
  for (int i = 0; i < 2000 && said == "not due"; ++i) said = make_call(guard, error, codec);
  return said;
}

std::vector<MeasuredError> errors_of(const ErrorGuard& guard, std::size_t most) {
  std::vector<MeasuredError> errors;
  guard.list_errors(most, &errors);
  return errors;
}

TEST(ErrorGuard, LooksAtOneCallInAThousandInTheEnd) {
  ErrorGuard guard(0);
  std::vector<int> looks;
  for (int call = 1; call <= 10000; ++call) {
    if (make_call(&guard, 0.1) != "not due") looks.push_back(call);
  }
  EXPECT_EQ(std::vector<int>(looks.begin(), looks.begin() + 5),
            (std::vector<int>{16, 64, 256, 1024, 2048}));
  EXPECT_EQ(looks.size(), 12U);
}

TEST(ErrorGuard, SaysWhatCallsLose) {
  ErrorGuard guard(0);
  EXPECT_TRUE(errors_of(guard, 9).empty());
  EXPECT_EQ(make_calls(&guard, 0.1), "");
  EXPECT_EQ(make_calls(&guard, 0.3), "") << "it is only watched";
  const std::vector<MeasuredError> errors = errors_of(guard, 9);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].count, kCall.count);
  EXPECT_EQ(errors[0].looks, 2U);
  EXPECT_NEAR(errors[0].last, 0.3, 1e-6);
  EXPECT_NEAR(errors[0].worst, 0.3, 1e-6);
  EXPECT_NEAR(errors[0].mean, std::sqrt(0.05), 1e-6);
  EXPECT_EQ(errors[0].more_bits, 0);
  EXPECT_TRUE(errors_of(guard, 0).empty());
}

TEST(ErrorGuard, GivesMoreBitsWhereTooMuchIsLostAndTakesThemBack) {
  ErrorGuard guard(0.2);
  EXPECT_EQ(guard.codec_for(kCall, "q4"), "q4");
  EXPECT_EQ(make_calls(&guard, 0.15), "");
  const std::string line = make_calls(&guard, 0.5);
  EXPECT_EQ(line,
            "all-reduces of 20000 float32: q4 loses 0.5 of a sum, more than the 0.2 of "
            "RINGPRESS_BUDGET: q6 from now on");
  EXPECT_EQ(guard.codec_for(kCall, "q4"), "q6");
  EXPECT_EQ(guard.codec_for(kCall, "q4:block=64"), "q6:block=64");
  EXPECT_EQ(guard.codec_for(kCall, "bf16"), "bf16") << "it has no bits";
  EXPECT_EQ(errors_of(guard, 1)[0].more_bits, 2);
  const TensorCall other{CollectiveKind::kAllReduce, 30000, DType::kFloat32, ReduceOp::kSum};
  EXPECT_EQ(guard.codec_for(other, "q4"), "q4");
  for (int look = 0; look < 3; ++look) EXPECT_EQ(make_calls(&guard, 0.03), "");
  EXPECT_EQ(make_calls(&guard, 0.03),
            "all-reduces of 20000 float32: q4 loses 0.03 of a sum: one bit less from now on");
  EXPECT_EQ(guard.codec_for(kCall, "q4"), "q5");
  EXPECT_EQ(make_calls(&guard, 0.15), "") << "that is neither too much nor little";
}

TEST(ErrorGuard, LeavesCallsExactThatNoCodecCanMake) {
  ErrorGuard guard(0.2);
  const std::string line = make_calls(&guard, 3, "q8");
  EXPECT_TRUE(line.ends_with("RINGPRESS_BUDGET: the next 1024 are exact")) << line;
  for (int call = 0; call < 1024; ++call) ASSERT_EQ(guard.codec_for(kCall, "q4"), "");
  EXPECT_EQ(guard.codec_for(kCall, "q4"), "q4") << "it is tried again";
  EXPECT_TRUE(make_calls(&guard, 3, "q8").ends_with("the next 2048 are exact"));
}

TEST(ErrorGuard, TakesNothingFromZerosAndOverflows) {
  ErrorGuard guard(0.2);
  EXPECT_EQ(make_calls(&guard, std::numeric_limits<double>::infinity()), "");
  EXPECT_EQ(make_calls(&guard, std::nan("")), "");
  EXPECT_TRUE(errors_of(guard, 9).empty());
  const TensorCall small{CollectiveKind::kAllReduce, 1023, DType::kFloat32, ReduceOp::kSum};
  for (int call = 0; call < 100; ++call) EXPECT_FALSE(guard.is_due(small));
}

TEST(ErrorGuard, GoesOnFromAState) {
  ErrorGuard unbroken(0.2), resumed(0.2);
  make_calls(&unbroken, 0.5);
  make_calls(&unbroken, 0.1);
  StateBytes to;
  unbroken.save(to);
  const std::vector<std::byte> bytes = to.bytes();
  StateView from(bytes);
  resumed.load(from);
  ASSERT_TRUE(from.is_ok() && from.left() == 0);
  EXPECT_EQ(resumed.codec_for(kCall, "q4"), "q6");
  for (int call = 0; call < 3000; ++call) {
    const double error = call % 3 == 0 ? 0.5 : 0.01;
    ASSERT_EQ(make_call(&resumed, error), make_call(&unbroken, error)) << call;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::vector<std::byte> part(bytes.begin(),
                                      bytes.begin() + static_cast<std::ptrdiff_t>(at));
    StateView cut(part);
    ErrorGuard other(0.2);
    other.load(cut);
    EXPECT_FALSE(cut.is_ok());
  }
}

struct GuardedJob {
  int world = 2;
  Environment environment = {};
  std::size_t steps = 40;
  std::string rule_codec = {};  // Of all calls.
  DType dtype = DType::kFloat32;
  bool cancels = false;  // Sums are a hundredth of what the ranks have.
};

Floats gradient_of(const GuardedJob& job, std::size_t step, int rank) {
  Floats values = testing::random_gradient(20000, step, rank);
  if (!job.cancels) return values;
  const Floats common = testing::random_gradient(20000, 1000 + step, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.01F * values[i] + (rank % 2 == 0 ? common[i] : -common[i]);
  }
  return values;
}

/// All ranks end with the same bytes and have measured the same.
Statistics run(const GuardedJob& job) {
  Environment environment = job.environment;
  environment.insert(environment.end(), {{"RINGPRESS_CACHE", "off"},
                                         {"RINGPRESS_TUNING_TRIALS", "0"},
                                         {"RINGPRESS_GRADIENTS", "all"}});
  Settings settings = parse_settings(environment, nullptr);
  EXPECT_EQ(settings.mistake, "");
  if (!job.rule_codec.empty()) {
    settings.rule_list.emplace_back();
    settings.rule_list.back().codec = job.rule_codec;
  }
  const auto fabric = std::make_shared<testing::ThreadFabric>(job.world, false, 2e-8);
  std::vector<Floats> results(static_cast<std::size_t>(job.world));
  std::vector<Statistics> statistics(results.size());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < job.world; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      const auto own = static_cast<std::size_t>(rank);
      for (std::size_t step = 0; step < job.steps; ++step) {
        Floats values = gradient_of(job, step, rank);
        ASSERT_TRUE(communicator
                        .all_reduce(values.data(), values.data(), values.size(), job.dtype,
                                    {job.world == 3 ? ReduceOp::kAvg : ReduceOp::kSum})
                        .is_ok());
        results[own].insert(results[own].end(), values.begin(), values.end());
      }
      statistics[own] = communicator.statistics();
    });
  }
  threads.clear();
  for (std::size_t rank = 1; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank], results[0]);
    EXPECT_EQ(statistics[rank].exact_calls, statistics[0].exact_calls);
    EXPECT_EQ(statistics[rank].errors.size(), statistics[0].errors.size());
  }
  return statistics[0];
}

/// (These values have heavier tails than gradients of the models that the table is of.)
TEST(ErrorGuard, TellsWhatTheCodecsOfCommunicatorsLose) {
  for (const char* const codec : {"q2", "q3", "q4", "q5", "q6", "q7", "q8"}) {
    for (const int world : {2, 3}) {
      const Statistics all = run({world, {{"RINGPRESS_CODEC", codec}}, 20});
      ASSERT_EQ(all.errors.size(), 1U) << codec;
      EXPECT_EQ(all.errors[0].looks, 1U);
      EXPECT_GT(all.errors[0].worst, 0.4 * usual_error(codec)) << codec;
      EXPECT_LT(all.errors[0].worst, 2.8 * usual_error(codec)) << codec;
    }
  }
  EXPECT_TRUE(run({2, {{"RINGPRESS_CODEC", "lossless"}}, 20}).errors.empty());
  EXPECT_TRUE(run({2, {{"RINGPRESS_CODEC", "none"}}, 20}).errors.empty());
  EXPECT_TRUE(run({2, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_GUARD", "0"}}, 20}).errors.empty());
}

TEST(ErrorGuard, KeepsAutomaticModeWithinItsBudget) {
  GuardedJob job{3, {{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_BUDGET", "q4"}}, 60};
  const Statistics usual = run(job);
  ASSERT_EQ(usual.errors.size(), 1U);
  EXPECT_EQ(usual.errors[0].more_bits, 0);
  job.cancels = true;
  job.world = 2;
  const Statistics raised = run(job);
  ASSERT_EQ(raised.errors.size(), 1U);
  EXPECT_GT(raised.errors[0].worst, 1);
  EXPECT_GT(raised.errors[0].more_bits, 0);
  EXPECT_LT(raised.errors[0].last, 0.2 * raised.errors[0].worst);
  job.environment[0].second = "q4";
  EXPECT_EQ(run(job).errors[0].more_bits, 0) << "the user names the codec";
}

/// It compares sums, which are the same from run to run.
TEST(ErrorGuard, KeepsTheBudgetWhereCallsAreDeterministic) {
  // (Steps here have new buffers, so residuals would be found by chance.)
  const Environment environment = {
      {"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_DETERMINISTIC", "1"}, {"RINGPRESS_EF", "0"}};
  GuardedJob job{2, environment, 60};
  job.cancels = true;
  const Statistics raised = run(job);
  ASSERT_EQ(raised.errors.size(), 1U);
  EXPECT_GT(raised.errors[0].worst, 1);
  EXPECT_GT(raised.errors[0].more_bits, 0);
  EXPECT_LT(raised.errors[0].last, 0.2 * raised.errors[0].worst);
  EXPECT_EQ(run(job).errors[0].last, raised.errors[0].last);
}

TEST(ErrorGuard, OnlyWatchesWhatOthersThanAutomaticModeDecide) {
  GuardedJob job{2, {{"RINGPRESS_CODEC", "auto"}}, 60};
  job.cancels = true;
  job.rule_codec = "q4";
  const Statistics by_rule = run(job);
  ASSERT_EQ(by_rule.errors.size(), 1U);
  EXPECT_GT(by_rule.errors[0].worst, 1);
  EXPECT_EQ(by_rule.errors[0].more_bits, 0);
  EXPECT_EQ(by_rule.errors[0].looks, 1U) << "60 calls";
  job.rule_codec.clear();
  job.environment.emplace_back("RINGPRESS_WARMUP_STEPS", "1000");
  job.environment.emplace_back("RINGPRESS_WARMUP_CODECS", "q4");
  EXPECT_EQ(run(job).errors.at(0).more_bits, 0);
}

TEST(ErrorGuard, ABudgetMayBeAnError) {
  const auto codec_of = [](const char* budget) {
    return parse_settings({{"RINGPRESS_BUDGET", budget}}, nullptr).budget.codec;
  };
  EXPECT_EQ(codec_of("error=2"), "q2");
  EXPECT_EQ(codec_of("error=0.25"), "q4");
  EXPECT_EQ(codec_of("error=0.05"), "q6");
  EXPECT_EQ(codec_of("error=1e-9"), "none");
  EXPECT_EQ(codec_of("q3:block=64"), "q3:block=64");
  for (const char* const wrong : {"error=", "error=0", "error=-1", "error=0.1x", "error=nan"}) {
    const Settings settings = parse_settings({{"RINGPRESS_BUDGET", wrong}}, nullptr);
    EXPECT_EQ(settings.mistake, std::string("RINGPRESS_BUDGET=") + wrong +
                                    ": expected a codec, or error= and a number above 0, such as "
                                    "error=0.1");
  }
  for (const char* const slip : {"erorr=0.1", "0.1", "error:0.1", "error 0.1", "error0.1"}) {
    EXPECT_EQ(parse_settings({{"RINGPRESS_BUDGET", slip}}, nullptr).mistake,
              std::string("RINGPRESS_BUDGET=") + slip +
                  ": expected a codec, or error= and a number above 0, such as error=0.1 (maybe "
                  "error=0.1?)");
  }
  for (const char* const none :
       {"4", "q4", "bf16", "topk:density=0.01", "q0.1", "-0.1", "error:0"}) {
    EXPECT_EQ(parse_settings({{"RINGPRESS_BUDGET", none}}, nullptr).mistake, "");
  }
  const Statistics within = run({2, {{"RINGPRESS_BUDGET", "error=0.05"}}, 40});
  ASSERT_EQ(within.errors.size(), 1U);
  EXPECT_LT(within.errors[0].last, 0.05) << "it has more bits, as that is measured";
  EXPECT_GT(within.compressed_calls, 20U);
  const Statistics unmet = run({2, {{"RINGPRESS_BUDGET", "error=1e-9"}}, 40});
  EXPECT_EQ(
      unmet.exact_calls.at("each codec of automatic mode loses more than RINGPRESS_BUDGET allows"),
      unmet.calls - unmet.exact_calls.at("has not recurred yet"));
}

}  // namespace
}  // namespace ringpress::nccl_plugin::error_guard_test
