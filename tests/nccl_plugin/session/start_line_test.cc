// What a job says when it starts.
#include "nccl_plugin/session/start_line.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

std::string line_with(std::vector<std::pair<std::string, std::string>> values, bool crosses_hosts) {
  return describe_start(parse_settings(values, nullptr), 8, crosses_hosts);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(StartLine, TellsThatGradientsLoseAndHowToLoseLess) {
  const std::string line = line_with({}, true);
  EXPECT_TRUE(says(line, "8 ranks on several hosts")) << line;
  EXPECT_TRUE(says(line, "lose up to what q4 loses")) << line;
  EXPECT_TRUE(says(line, "RINGPRESS_BUDGET=q8 loses less")) << line;
  for (const char* const accurate : {"q8", "q8:block=64", "bf16", "fp16"}) {
    const std::string budget = line_with({{"RINGPRESS_BUDGET", accurate}}, true);
    EXPECT_TRUE(says(budget, std::string("what ") + accurate + " loses")) << budget;
    EXPECT_FALSE(says(budget, "=q8 loses less")) << budget;
    EXPECT_TRUE(says(budget, "RINGPRESS=lossless or off loses nothing")) << budget;
  }
  EXPECT_TRUE(says(line_with({{"RINGPRESS_CODEC", "topk"}}, true), "large sums lose what topk"));
  EXPECT_TRUE(
      says(line_with({{"RINGPRESS_CODEC", "topk"}}, true), "RINGPRESS_CODEC=q8 loses less"));
  EXPECT_TRUE(says(line_with({{"RINGPRESS_CODEC", "q4"}}, false), "large sums lose what q4"));
}

TEST(StartLine, TellsWhyNothingIsCompressed) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"RINGPRESS", "off"},
                                                        {"RINGPRESS", "observe"},
                                                        {"RINGPRESS_CODEC", "none"},
                                                        {"RINGPRESS_BUDGET", "none"}}) {
    const std::string line = line_with({{name, value}}, true);
    EXPECT_TRUE(says(line, "nothing is compressed")) << line;
    EXPECT_TRUE(says(line, name)) << line;
    EXPECT_FALSE(says(line, "lose")) << line;
  }
  EXPECT_TRUE(says(line_with({}, false), "one host: nothing is compressed"));
}

TEST(StartLine, TellsThatNoCodecLosesAsLittleAsTheBudgetAllows) {
  const std::string line = line_with({{"RINGPRESS_BUDGET", "error=0.001"}}, true);
  EXPECT_TRUE(says(line, "nothing is compressed: ")) << line;
  EXPECT_TRUE(says(line, to_text(WhyExact{ExactReason::kBudgetUnmet, 0, {}}))) << line;
  EXPECT_FALSE(says(line, "RINGPRESS_BUDGET=none")) << line;
}

TEST(StartLine, TellsWhatRulesSayOtherwise) {
  CallSettings settings = parse_settings({{"RINGPRESS_CODEC", "none"}}, nullptr);
  Rule rule;
  rule.codec = "q4";
  settings.rule_list = {rule};
  const std::string line = describe_start(settings, 8, true);
  EXPECT_TRUE(says(line, "nothing is compressed: RINGPRESS_CODEC=none; ")) << line;
  EXPECT_TRUE(says(line, "for some calls RINGPRESS_RULES names q4")) << line;
  settings.rule_list[0].codec = "none";
  EXPECT_FALSE(says(describe_start(settings, 8, true), "RINGPRESS_RULES"));
  const CallSettings by_default = parse_settings({}, nullptr);
  settings.codec = by_default.codec;
  EXPECT_TRUE(says(describe_start(settings, 8, true), "lose up to what q4 loses"));
}

TEST(StartLine, TellsThatNothingIsLost) {
  for (const char* const name : {"RINGPRESS", "RINGPRESS_CODEC", "RINGPRESS_BUDGET"}) {
    EXPECT_TRUE(says(line_with({{name, "lossless"}}, true), "compressed without loss")) << name;
  }
}

TEST(StartLine, IsSaidOnceByRankZeroOfSeveral) {
  const Settings settings = parse_settings({}, nullptr);
  ::testing::internal::CaptureStderr();
  say_start(settings, 1, 8, true);
  say_start(settings, 0, 1, true);
  say_start(parse_settings({{"RINGPRESS", "off"}}, nullptr), 0, 8, true);
  const LogLevel level = internal::log_level.load();
  set_log_level(LogLevel::kError);
  say_start(settings, 0, 8, true);
  set_log_level(level);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  say_start(settings, 0, 8, true);
  say_start(settings, 0, 4, true);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(says(said, "8 ranks")) << said;
  EXPECT_FALSE(says(said, "4 ranks")) << said;
}

}  // namespace
}  // namespace ringpress::nccl_plugin
