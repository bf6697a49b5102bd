// A setting in small: row.inc is a row of settings.inc, and all that there is of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ringpress/internal/settings.h"

namespace ringpress {
namespace {

Settings settings_with(const std::string& name, const std::string& value,
                       std::vector<std::string>* warnings = nullptr) {
  return parse_settings({{name, value}}, warnings);
}

TEST(ExampleSetting, IsReadAndHasItsDefault) {
  EXPECT_EQ(settings_with("RINGPRESS_EXAMPLE_WINDOW", "12").example_window, 12u);
  EXPECT_EQ(parse_settings({}, nullptr).example_window, 8u);
}

TEST(ExampleSetting, IsRefusedByNameWhereItIsNoNumber) {
  const Status status = check_settings(settings_with("RINGPRESS_EXAMPLE_WINDOW", "many"));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("RINGPRESS_EXAMPLE_WINDOW"), std::string::npos)
      << status.message();
}

TEST(ExampleSetting, IsSuggestedToWhoMistypesIt) {
  std::vector<std::string> warnings;
  settings_with("RINGPRESS_EXAMPLE_WINDOWS", "12", &warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("RINGPRESS_EXAMPLE_WINDOW?"), std::string::npos) << warnings[0];
}

TEST(ExampleSetting, IsComparedBetweenRanks) {
  const std::vector<std::string> lines =
      agreement_lines(settings_with("RINGPRESS_EXAMPLE_WINDOW", "12"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "RINGPRESS_EXAMPLE_WINDOW=12"), 1);
}

TEST(ExampleSetting, IsListedForPeople) {
  const auto& all = setting_descriptions();
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const SettingDescription& setting) {
                            return std::string(setting.name) == "RINGPRESS_EXAMPLE_WINDOW" &&
                                   std::string(setting.default_text) == "8";
                          }),
            1);
}

}  // namespace
}  // namespace ringpress
