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
  EXPECT_TRUE(says(line_with({{"RINGPRESS_BUDGET", "q8"}}, true), "what q8 loses"));
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
