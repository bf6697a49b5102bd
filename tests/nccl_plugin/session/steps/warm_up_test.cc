// RINGPRESS_WARMUP_STEPS: the stage of the chain, what codecs have at first, and communicators.
#include "nccl_plugin/session/steps/warm_up.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/decision_chain.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/communicator_ranks.h"
#include "tests/support/random_tensor.h"

namespace ringpress::nccl_plugin {
namespace {

using testing::RankEnvironment;

Settings settings_of(RankEnvironment environment) {
  return parse_settings(environment, nullptr);
}

Decision compressed(std::string_view codec) {
  Decision decision;
  decision.codec = codec;
  decision.error_feedback = true;
  return decision;
}

TEST(WarmUp, LeavesCallsExactWithTheReason) {
  const Decision made = follow_warm_up(WarmUpCall{kNoCodec, 30}, compressed("sign"));
  EXPECT_TRUE(made.is_exact());
  EXPECT_FALSE(made.error_feedback);
  EXPECT_EQ(made.why.reason, ExactReason::kWarmUp);
  EXPECT_EQ(made.codec_origin, Origin::kWarmUp);
  EXPECT_EQ(to_text(made.why), "RINGPRESS_WARMUP_STEPS: the first 30 steps go without sign");
}

TEST(WarmUp, GivesCallsAnotherCodec) {
  const Decision made = follow_warm_up(WarmUpCall{"q8", 30}, compressed("sign"));
  EXPECT_EQ(made.codec, "q8");
  EXPECT_TRUE(made.error_feedback);
  EXPECT_EQ(made.codec_origin, Origin::kWarmUp);
}

TEST(WarmUp, ChangesNothingElse) {
  const Decision sign = compressed("sign");
  EXPECT_EQ(follow_warm_up(std::nullopt, sign).codec, "sign");
  const Decision exact = left_exact(sign, ExactReason::kTooSmall);
  EXPECT_EQ(follow_warm_up(WarmUpCall{"q8", 30}, exact).why.reason, ExactReason::kTooSmall);
}

TEST(WarmUp, EndsAfterItsSteps) {
  const WarmUp warm_up(settings_of({{"RINGPRESS_CODEC", "sign"}, {"RINGPRESS_WARMUP_STEPS", "3"}}));
  EXPECT_EQ(warm_up.steps(), 3U);
  for (std::size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(warm_up.at({step, false}, "sign").has_value(), step < 3) << step;
    EXPECT_FALSE(warm_up.at({step, true}, "q4").has_value());  // Nothing gives it to a call.
  }
}

TEST(WarmUp, HasItsCodecsOneAfterTheOther) {
  const WarmUp warm_up(settings_of({{"RINGPRESS_CODEC", "sign"},
                                    {"RINGPRESS_WARMUP_STEPS", "6"},
                                    {"RINGPRESS_WARMUP_CODECS", "none;q8;q4"}}));
  for (std::size_t step = 0; step < 6; ++step) {
    ASSERT_TRUE(warm_up.at({step, false}, "sign").has_value());
    const char* const expected[] = {"none", "q8", "q4"};
    EXPECT_EQ(warm_up.at({step, false}, "sign")->codec, expected[step / 2]) << step;
  }
}

TEST(WarmUp, SpacesBetweenCodecsAreOfNoMatter) {
  const CallSettings settings = settings_of({{"RINGPRESS_WARMUP_CODECS", " none; q8 ;q4"}});
  EXPECT_EQ(warm_up_codecs(settings), (std::vector<std::string>{"none", "q8", "q4"}));
}

TEST(WarmUp, RefusesWhatIsNoCodec) {
  for (const char* const codecs : {"q9", ";q8", "none,q8", "q8;;q4", "q8; ;q4", "topk:density=2"}) {
    const Settings settings = settings_of({{"RINGPRESS_WARMUP_CODECS", codecs}});
    const Status status = check_warm_up(settings);
    EXPECT_FALSE(status.is_ok()) << codecs;
    EXPECT_NE(status.message().find("RINGPRESS_WARMUP_CODECS"), std::string::npos);
  }
}

TEST(WarmUp, SaysWhatIsMeant) {
  const auto message_on = [](const char* codecs) {
    return check_warm_up(settings_of({{"RINGPRESS_WARMUP_CODECS", codecs}})).message();
  };
  for (const char* const codecs : {"exact", "q8;exact", "nnone"}) {
    EXPECT_NE(message_on(codecs).find("(maybe none?)"), std::string::npos) << message_on(codecs);
  }
  const std::string parted = "; codecs are parted by ;";
  for (const char* const codecs : {"q8,none", "none,q8", "none;q8,q4", "q8:block=64,none",
                                   "none,q8:block=64", "q8, q4:block=64"}) {
    EXPECT_TRUE(message_on(codecs).ends_with(parted)) << message_on(codecs);
  }
  for (const char* const codecs :
       {"q9", "q8:block=3,round=stochastic", "topk:density=2", "q8;;q4"}) {
    EXPECT_FALSE(message_on(codecs).ends_with(parted)) << message_on(codecs);
  }
}

TEST(WarmUp, IsForWhatLosesSomething) {
  for (const char* codec : {"none", "lossless"}) {
    EXPECT_EQ(
        WarmUp(settings_of({{"RINGPRESS_CODEC", codec}, {"RINGPRESS_WARMUP_STEPS", "3"}})).steps(),
        0U)
        << codec;
  }
  for (const char* mode : {"off", "lossless", "observe"}) {
    EXPECT_EQ(WarmUp(settings_of({{"RINGPRESS", mode},
                                  {"RINGPRESS_CODEC", "sign"},
                                  {"RINGPRESS_WARMUP_STEPS", "3"}}))
                  .steps(),
              0U)
        << mode;
  }
}

TEST(WarmUp, IsLongerTheFewerTheBitsByDefault) {
  const std::pair<const char*, std::size_t> expected[] = {
      {"q8", 0},     {"q4", 0},     {"q4:grid=lloyd", 0},  {"fp8", 0},       {"bf16", 0},
      {"q3", 10},    {"q2", 30},    {"q2:grid=lloyd", 30}, {"tern", 30},     {"q1", 100},
      {"sign", 100}, {"topk", 100}, {"randk", 100},        {"powersgd", 100}};
  for (const auto& [codec, steps] : expected) {
    const WarmUp warm_up(settings_of({{"RINGPRESS_CODEC", codec}}));
    EXPECT_EQ(warm_up.steps(), steps) << codec;
    EXPECT_EQ(warm_up.at({0, true}, codec).has_value(), steps != 0) << codec;
    EXPECT_FALSE(warm_up.at({0, false}, codec).has_value()) << codec;
    EXPECT_FALSE(warm_up.at({steps, true}, codec).has_value()) << codec;
    if (steps != 0) {
      EXPECT_EQ(warm_up.at({0, true}, codec)->codec, "q8") << codec;
    }
    EXPECT_EQ(
        WarmUp(settings_of({{"RINGPRESS_CODEC", codec}, {"RINGPRESS_WARMUP_STEPS", "0"}})).steps(),
        0U)
        << codec;
  }
}

/// What rank 0 counted after each call; all ranks' results are the same bits.
struct Made {
  std::vector<Statistics> after;
  std::vector<std::vector<std::vector<float>>> results;  // By rank, then call.
  std::string failure;
};

/// Steps of such calls. Ranks are late at random.
Made make_steps(int ranks, const RankEnvironment& environment,
                const std::vector<std::size_t>& counts, std::size_t steps) {
  Made made;
  made.results.resize(static_cast<std::size_t>(ranks));
  made.failure = testing::failures_of(
      testing::run_communicators(ranks, environment, [&](Communicator* communicator) -> Status {
        const int rank = communicator->rank();
        auto& results = made.results[static_cast<std::size_t>(rank)];
        std::mt19937 random(static_cast<unsigned>(rank));
        std::vector<std::vector<float>> own;
        for (std::size_t i = 0; i < counts.size(); ++i) {
          own.push_back(testing::random_gradient(counts[i], i, rank));
        }
        for (std::size_t step = 0; step < steps; ++step) {
          for (std::vector<float>& values : own) {
            if (random() % 4 == 0) {
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
            }
            std::vector<float> result(values.size());
            RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(values.data(), result.data(),
                                                               values.size(), DType::kFloat32, {}));
            results.push_back(std::move(result));
            if (rank == 0) made.after.push_back(communicator->statistics());
          }
        }
        return Status::ok();
      }));
  for (const auto& results : made.results) EXPECT_EQ(results, made.results[0]);
  return made;
}

RankEnvironment environment_of(const char* codec, const char* steps) {
  return {{"RINGPRESS_CODEC", codec},
          {"RINGPRESS_WARMUP_STEPS", steps},
          {"RINGPRESS_WARMUP_CODECS", "none"},
          {"RINGPRESS_CACHE", "off"},
          {"RINGPRESS_SOCKET_IFNAME", "lo"}};
}

TEST(WarmUp, IsOfTheFirstStepsOfACommunicator) {
  const Made made = make_steps(2, environment_of("q2", "5"), {20000, 30000, 40000}, 9);
  EXPECT_EQ(made.failure, "");
  for (std::size_t call = 0; call < made.after.size(); ++call) {
    const Statistics& after = made.after[call];
    EXPECT_EQ(after.last_reason.find("RINGPRESS_WARMUP_STEPS") != std::string::npos, call < 15)
        << call << ": " << after.last_reason;
  }
}

/// A ramp: ranks end each step with the same bytes, and bytes become fewer.
TEST(WarmUp, MayBeARampOfDensities) {
  RankEnvironment environment = environment_of("topk:density=0.01", "9");
  environment[2].second = "q8;topk:density=0.25;powersgd:rank=4;topk:density=0.05";
  const Made made = make_steps(3, environment, {20000, 17000, 20000}, 14);
  EXPECT_EQ(made.failure, "");
  EXPECT_EQ(made.after.back().compressed_calls, 14U * 3);
  std::uint64_t before = 0, first = 0, last = 0;
  for (std::size_t step = 0; step < 14; ++step) {
    const std::uint64_t sent = made.after[3 * step + 2].wire_bytes;
    if (step == 1) first = sent - before;
    if (step == 13) last = sent - before;
    before = sent;
  }
  EXPECT_GT(first, 5 * last);
}

std::uint64_t sent_in(const Made& made, std::size_t calls_a_step, std::size_t step) {
  const std::size_t last = calls_a_step * (step + 1) - 1;
  const std::uint64_t before = step == 0 ? 0 : made.after[last - calls_a_step].wire_bytes;
  return made.after[last].wire_bytes - before;
}

/// Three steps at most until the step is known; then 8 bits, and two from the 31st step on.
TEST(WarmUp, ComesByDefaultWhereAStepIsKnown) {
  RankEnvironment environment = environment_of("q2", "auto");
  environment[2].second = "q8";
  const Made made = make_steps(2, environment, {20000, 30000}, 34);
  EXPECT_EQ(made.failure, "");
  EXPECT_EQ(made.after.back().compressed_calls, 34U * 2);
  const std::uint64_t last = sent_in(made, 2, 33);
  EXPECT_EQ(sent_in(made, 2, 0), last);
  EXPECT_EQ(sent_in(made, 2, 30), last);
  for (const std::size_t step : {4U, 29U}) EXPECT_GT(sent_in(made, 2, step), 3 * last) << step;
  // A program of one shape may be no training.
  EXPECT_EQ(make_steps(2, environment, {20000}, 9).after.back().wire_bytes,
            9 * make_steps(2, environment, {20000}, 1).after.back().wire_bytes);
}

/// What has no sequence, or starts it in the middle: by the calls of a shape.
TEST(WarmUp, OfOneTensorIsOfItsCalls) {
  const Made made = make_steps(2, environment_of("topk", "4"), {20000}, 7);
  EXPECT_EQ(made.failure, "");
  for (std::size_t call = 0; call < made.after.size(); ++call) {
    EXPECT_EQ(made.after[call].compressed_calls, call < 4 ? 0 : call - 3) << call;
  }
}

class WarmUpOf : public ::testing::TestWithParam<const char*> {};

/// Whatever the codec, and however late ranks are.
TEST_P(WarmUpOf, KeepsRanksAlike) {
  for (const char* const algorithm : {"sra", "ring"}) {
    RankEnvironment environment = environment_of(GetParam(), "8");
    environment.emplace_back("RINGPRESS_ALGO", algorithm);
    const Made made = make_steps(3, environment, {20000, 17000, 20000}, 14);
    EXPECT_EQ(made.failure, "");
    EXPECT_GT(made.after.back().compressed_calls, 0U);
    EXPECT_EQ(made.after.back().last_reason, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, WarmUpOf,
                         ::testing::Values("q1", "q2:grid=lloyd", "q3", "q4", "sign", "tern",
                                           "qsgd:bits=4", "topk", "topk:density=0.1", "randk",
                                           "powersgd", "fp8"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(WarmUp, IsForReduceScattersToo) {
  RankEnvironment environment = environment_of("q4", "3");
  const auto outcomes =
      testing::run_communicators(2, environment, [&](Communicator* communicator) -> Status {
        std::vector<float> send(40000, 1.0F), receive(20000);
        for (std::size_t step = 0; step < 6; ++step) {
          RINGPRESS_RETURN_IF_ERROR(communicator->reduce_scatter(send.data(), receive.data(), 20000,
                                                                 DType::kFloat32, {}));
          EXPECT_EQ(communicator->statistics().compressed_calls, step < 3 ? 0 : step - 2);
        }
        return Status::ok();
      });
  EXPECT_EQ(testing::failures_of(outcomes), "");
}

/// With all that decides on calls besides.
TEST(WarmUp, GoesWithAutomaticModeAndLevels) {
  for (const RankEnvironment& more :
       {RankEnvironment{{"RINGPRESS_CODEC", "auto"},
                        {"RINGPRESS_GRADIENTS", "all"},
                        {"RINGPRESS_TUNING_WARM_UP", "1"},
                        {"RINGPRESS_TUNING_CALLS", "1"},
                        {"RINGPRESS_TUNING_TRIALS", "3"}},
        RankEnvironment{{"RINGPRESS_ADJUST_STEPS", "6"}, {"RINGPRESS_ACCORDION", "1"}},
        RankEnvironment{{"RINGPRESS_EF", "scales"}}, RankEnvironment{{"RINGPRESS_LAZY", "2"}}}) {
    RankEnvironment environment = environment_of("q4", "5");
    for (const auto& variable : more) environment.push_back(variable);
    std::vector<Settings> settings;
    for (int rank = 0; rank < 2; ++rank) {
      settings.push_back(testing::settings_with(environment));
      settings.back().nccl.host_id = "host" + std::to_string(rank);
    }
    std::mutex mutex;
    std::vector<Statistics> ends;
    const auto outcomes =
        testing::run_communicators(settings, [&](Communicator* communicator) -> Status {
          std::vector<std::vector<float>> tensors;
          for (const std::size_t count : {20000, 30000}) {
            tensors.push_back(testing::random_gradient(count, count, communicator->rank()));
          }
          for (int step = 0; step < 40; ++step) {
            for (std::vector<float>& values : tensors) {
              std::vector<float> result(values.size());
              RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(
                  values.data(), result.data(), values.size(), DType::kFloat32, {}));
            }
          }
          const std::lock_guard lock(mutex);
          ends.push_back(communicator->statistics());
          return Status::ok();
        });
    EXPECT_EQ(testing::failures_of(outcomes), "") << more[0].first;
    for (const Statistics& end : ends) {
      std::uint64_t warm = 0;
      for (const auto& [reason, count] : end.exact_calls) {
        if (reason.find("RINGPRESS_WARMUP_STEPS") != std::string::npos) warm += count;
      }
      EXPECT_GE(warm, 6U) << more[0].first;
      EXPECT_LE(warm, 10U) << more[0].first;
    }
  }
}

/// A training that goes on from a state does not warm up again.
TEST(WarmUp, IsOverAfterAState) {
  const std::string folder = ::testing::TempDir() + "warm_up_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto train = [&](bool loads, std::size_t steps) {
    std::uint64_t compressed = 0;
    const auto outcomes = testing::run_communicators(
        2, environment_of("q2", "6"), [&](Communicator* communicator) -> Status {
          const std::string path = folder + "/" + std::to_string(communicator->rank());
          if (loads) {
            RINGPRESS_ASSIGN_OR_RETURN(const StateLoad load, communicator->state()->load(path));
            EXPECT_EQ(load.outcome, StateOutcome::kLoaded) << load.reason;
          }
          std::vector<std::vector<float>> tensors = {std::vector<float>(20000, 1.0F),
                                                     std::vector<float>(30000, 1.0F)};
          for (std::size_t step = 0; step < steps; ++step) {
            for (std::vector<float>& values : tensors) {
              std::vector<float> result(values.size());
              RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(
                  values.data(), result.data(), values.size(), DType::kFloat32, {}));
            }
          }
          if (communicator->rank() == 0) compressed = communicator->statistics().compressed_calls;
          return communicator->state()->save(path);
        });
    EXPECT_EQ(testing::failures_of(outcomes), "");
    return compressed;
  };
  EXPECT_EQ(train(false, 4), 0U);
  EXPECT_EQ(train(true, 4), 4U);  // Two steps of them.
  EXPECT_EQ(train(true, 4), 8U);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
