#include "ringpress/internal/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace ringpress {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

TEST(Settings, DefaultsParse) {
  const auto settings = parse_settings({}, nullptr);
  EXPECT_EQ(settings.mistake, "");
  EXPECT_TRUE(settings.codec.is_automatic());
  EXPECT_EQ(settings.minimum_bytes, 65536U);
  EXPECT_EQ(settings.feedback, FeedbackChoice::kAuto);
  EXPECT_EQ(settings.timeout, std::chrono::minutes(10));
}

TEST(Settings, ReadsEveryType) {
  const Environment environment = {{"RINGPRESS_CODEC", "q2:block=64"},
                                   {"RINGPRESS_EF", "off"},
                                   {"RINGPRESS_SEED", "18446744073709551615"},
                                   {"RINGPRESS_SOCKETS", "4"},
                                   {"PATH", "/bin"}};
  const auto settings = parse_settings(environment, nullptr);
  EXPECT_EQ(settings.mistake, "");
  EXPECT_EQ(settings.codec.specification, "q2:block=64");
  EXPECT_EQ(settings.feedback, FeedbackChoice::kOff);
  EXPECT_EQ(settings.seed, 18446744073709551615ULL);
  EXPECT_EQ(settings.sockets_per_peer, 4);
}

/// What was a switch is one still.
TEST(Settings, FeedbackIsASwitchOrAWord) {
  const std::pair<const char*, FeedbackChoice> values[] = {
      {"1", FeedbackChoice::kAuto},      {"on", FeedbackChoice::kAuto},
      {"auto", FeedbackChoice::kAuto},   {"scales", FeedbackChoice::kScales},
      {"plain", FeedbackChoice::kPlain}, {"0", FeedbackChoice::kOff},
      {"no", FeedbackChoice::kOff}};
  for (const auto& [text, expected] : values) {
    const auto settings = parse_settings({{"RINGPRESS_EF", text}}, nullptr);
    EXPECT_EQ(settings.mistake, "");
    EXPECT_EQ(settings.feedback, expected) << text;
    EXPECT_EQ(has_error_feedback(settings), expected != FeedbackChoice::kOff);
  }
  const auto as_one = parse_settings({{"RINGPRESS_EF", "1"}}, nullptr);
  EXPECT_EQ(agreement_lines(as_one), agreement_lines(parse_settings({}, nullptr)));
  EXPECT_EQ(parse_settings({{"RINGPRESS_EF", "scale"}}, nullptr).mistake,
            "RINGPRESS_EF=scale: expected one of auto, scales, plain, 0 (maybe scales?)");
}

TEST(Settings, AWrongValueIsRefusedByName) {
  const Environment wrong = {{"RINGPRESS_EF", "maybe"},
                             {"RINGPRESS_SEED", "-1"},
                             {"RINGPRESS_TIMEOUT_MS", "0"},
                             {"RINGPRESS_SOCKETS", "17"},
                             {"RINGPRESS_SOCKETS", "2x"},
                             {"RINGPRESS_MIN_BYTES", "64X"},
                             {"RINGPRESS_MIN_BYTES", "-1K"},
                             {"RINGPRESS_EF_MAX_BYTES", "1KiBi"},
                             {"RINGPRESS_CHUNK_BYTES", "K"},
                             {"RINGPRESS_LAZY_CALLS", "1K"},
                             {"RINGPRESS_ALGO", "rong"},
                             {"RINGPRESS", "of"},
                             {"RINGPRESS_DEBUG", "loud"},
                             {"RINGPRESS_BACKEND", "gpu"},
                             {"RINGPRESS_ADJUST_ALPHA", "0"},
                             {"RINGPRESS_ADJUST_ALPHA", "-1"},
                             {"RINGPRESS_ADJUST_ALPHA", "inf"},
                             {"RINGPRESS_ADJUST_ALPHA", "1.5x"},
                             {"RINGPRESS_ADJUST_METRIC", "l1"},
                             {"RINGPRESS_ADJUST_GRIDS", "minmax"},
                             {"RINGPRESS_TUNING_CALLS", "0"},
                             {"RINGPRESS_TUNING_CALLS", "10001"},
                             {"RINGPRESS_TUNING_TRIALS", "-1"},
                             {"RINGPRESS_TUNING_TRIALS", "10001"},
                             {"RINGPRESS_TUNING_WARM_UP", "0"},
                             {"RINGPRESS_TUNING_WARM_UP", "10001"},
                             {"RINGPRESS_TIMEOUT_MS", "99999999999"}};
  for (const auto& [name, text] : wrong) {
    const auto settings = parse_settings({{name, text}}, nullptr);
    const Status status = check_settings(settings);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name << "=" << text;
    EXPECT_TRUE(status.message().starts_with(name + "=" + text)) << status.message();
  }
  const auto settings = parse_settings({{"RINGPRESS_ALGO", "rong"}}, nullptr);
  EXPECT_NE(check_settings(settings).message().find("maybe ring?"), std::string::npos);
  const auto large = parse_settings({{"RINGPRESS_EF_MAX_BYTES", "8E"}}, nullptr);
  EXPECT_EQ(large.mistake, "RINGPRESS_EF_MAX_BYTES=8E: expected a size of at most 1024T");
}

TEST(Settings, AWrongWordIsRefusedWithAllThatAreAllowed) {
  const std::pair<const char*, const char*> told[] = {
      {"RINGPRESS=of", "on, off, observe, lossless (maybe off?)"},
      {"RINGPRESS_ALGO=rong", "auto, hier, ring, sra (maybe ring?)"},
      {"RINGPRESS_ALGO=SRA", "auto, hier, ring, sra (maybe sra?)"},
      {"RINGPRESS=Observe", "on, off, observe, lossless (maybe observe?)"},
      {"RINGPRESS_ADJUST_METRIC=l1", "l2, l2sq (maybe l2?)"},
      {"RINGPRESS_ADJUST_GRIDS=bth", "uniform, both (maybe both?)"},
      {"RINGPRESS_BACKEND=cudo", "auto, host, cuda (maybe cuda?)"},
      {"RINGPRESS_PROGRESS_THREAD=of", "auto, on, off (maybe off?)"},
      {"RINGPRESS_DEBUG=inf", "error, warn, info, trace (maybe info?)"}};
  for (const auto& [given, allowed] : told) {
    const std::string name(given, std::strchr(given, '='));
    const auto settings = parse_settings({{name, given + name.size() + 1}}, nullptr);
    EXPECT_EQ(settings.mistake, std::string(given) + ": expected one of " + allowed);
  }
}

template <typename Value>
void expect_words_to_come_back() {
  for (const SettingWord<Value>& word : SettingWords<Value>::kAll) {
    EXPECT_EQ(find_word<Value>(word.text), std::optional<Value>(word.value)) << word.text;
    EXPECT_EQ(to_text(word.value), word.text);
  }
}

TEST(Settings, WhatIsShownIsWhatIsRead) {
  expect_words_to_come_back<Mode>();
  expect_words_to_come_back<AlgorithmChoice>();
  expect_words_to_come_back<BackendChoice>();
  expect_words_to_come_back<ProgressThread>();
  expect_words_to_come_back<LevelGrids>();
  expect_words_to_come_back<ErrorMetric>();
  expect_words_to_come_back<RingOrderBy>();
  expect_words_to_come_back<std::optional<LogLevel>>();
  for (const char* text : {"auto", "none", "q4:block=64"}) {
    const auto settings = parse_settings({{"RINGPRESS_CODEC", text}}, nullptr);
    EXPECT_EQ(to_text(settings.codec), text);
  }
  for (const char* text : {"hosts", "ranks", "/a/map"}) {
    const auto settings = parse_settings({{"RINGPRESS_TOPOLOGY", text}}, nullptr);
    EXPECT_EQ(to_text(settings.topology), text);
  }
}

/// Every setting that is a size, whatever is added to the list.
TEST(Settings, SizesMayHaveUnits) {
  std::size_t sizes = 0;
  for (const SettingDescription& setting : setting_descriptions()) {
    const std::string name = setting.name;
    if (!name.ends_with("_BYTES")) continue;
    ++sizes;
    const std::pair<const char*, const char*> same[] = {{"64K", "65536"},    {"64k", "65536"},
                                                        {"64KB", "65536"},   {"1M", "1048576"},
                                                        {"1.5M", "1572864"}, {"2G", "2147483648"}};
    for (const auto& [text, bytes] : same) {
      const auto settings = parse_settings({{name, text}}, nullptr);
      EXPECT_TRUE(check_settings(settings).is_ok()) << settings.mistake;
      const auto plain = parse_settings({{name, bytes}}, nullptr);
      EXPECT_EQ(agreement_lines(settings), agreement_lines(plain)) << name << "=" << text;
      const auto other = parse_settings({{name, "12345"}}, nullptr);
      EXPECT_EQ(agreement_lines(settings) != agreement_lines(other), setting.must_agree) << name;
    }
  }
  EXPECT_EQ(sizes, 4U);
}

TEST(Settings, ARealNumberIsAgreedOnInOneForm) {
  const auto settings = parse_settings({{"RINGPRESS_ADJUST_ALPHA", "0.50"}}, nullptr);
  EXPECT_EQ(settings.mistake, "");
  EXPECT_EQ(settings.adjust_alpha, 0.5);
  const auto lines = agreement_lines(settings);
  EXPECT_NE(std::find(lines.begin(), lines.end(), "RINGPRESS_ADJUST_ALPHA=0.5"), lines.end());
}

TEST(Settings, AWrongNumberLeavesTheDefault) {
  const int expected = parse_settings({}, nullptr).sockets_per_peer;
  for (const char* text : {"17", "2x", "0"}) {
    EXPECT_EQ(parse_settings({{"RINGPRESS_SOCKETS", text}}, nullptr).sockets_per_peer, expected)
        << text;
  }
}

TEST(Settings, AnEmptyValueIsTheDefault) {
  const auto settings = parse_settings(
      {{"RINGPRESS_CODEC", ""}, {"RINGPRESS_MIN_BYTES", ""}, {"RINGPRESS_SOCKETS", ""}}, nullptr);
  EXPECT_TRUE(check_settings(settings).is_ok());
  EXPECT_TRUE(settings.codec.is_automatic());
  EXPECT_EQ(settings.minimum_bytes, 65536U);
}

TEST(Settings, AWrongValueLeavesTheDefault) {
  const auto settings =
      parse_settings({{"RINGPRESS_SOCKETS", "2x"}, {"RINGPRESS_TIMEOUT_MS", "-5"}}, nullptr);
  const Settings defaults = parse_settings({}, nullptr);
  EXPECT_EQ(settings.sockets_per_peer, defaults.sockets_per_peer);
  EXPECT_EQ(settings.timeout, defaults.timeout);
  EXPECT_EQ(settings.mistake, "RINGPRESS_SOCKETS=2x: expected a whole number from 1 to 16");
}

TEST(Settings, AnUnknownNameIsAWarningWithTheNearestName) {
  std::vector<std::string> warnings;
  const Environment environment = {{"RINGPRESS_CODEX", "q4"},    {"RINGPRESS_codec", "q4"},
                                   {"RINGPRESS_PERF_RANK", "0"}, {"RINGPRESS_Socket_ifname", "lo"},
                                   {"RINGPRESS_WARMUP", "100"},  {"RINGPRESSURE", "1"}};
  EXPECT_EQ(parse_settings(environment, &warnings).mistake, "");
  const std::vector<std::string> expected = {
      "unknown setting RINGPRESS_CODEX is ignored (maybe RINGPRESS_CODEC?)",
      "unknown setting RINGPRESS_codec is ignored (maybe RINGPRESS_CODEC?)",
      "unknown setting RINGPRESS_PERF_RANK is ignored",  // Nothing is near it.
      "unknown setting RINGPRESS_Socket_ifname is ignored (maybe RINGPRESS_SOCKET_IFNAME?)",
      "unknown setting RINGPRESS_WARMUP is ignored (maybe RINGPRESS_WARMUP_STEPS?)"};
  EXPECT_EQ(warnings, expected);
}

TEST(Settings, TheVariableOfThePythonPackageIsNoSettingAndNoWarning) {
  std::vector<std::string> warnings;
  EXPECT_EQ(parse_settings({{"RINGPRESS_LIBRARY", "/lib/libringpress.so"}}, &warnings).mistake, "");
  EXPECT_TRUE(warnings.empty());
}

TEST(Settings, ANameWhosePrefixIsMisspeltIsAWarningToo) {
  std::vector<std::string> warnings;
  const Environment environment = {{"RINGPRES_CODEC", "q4"},   {"ringpress_codec", "q4"},
                                   {"RINGPRSES_STATS", "x"},   {"RINGRESS_SHAPE_OF_GAME", "1"},
                                   {"RINGPRESSION_CODEC", ""}, {"PRESS_CODEC", "q4"},
                                   {"SPRINGPRESS", "1"},       {"RING_CODEC", "q4"}};
  EXPECT_EQ(parse_settings(environment, &warnings).mistake, "");
  const std::vector<std::string> expected = {
      "unknown setting RINGPRES_CODEC is ignored (maybe RINGPRESS_CODEC?)",
      "unknown setting ringpress_codec is ignored (maybe RINGPRESS_CODEC?)",
      "unknown setting RINGPRSES_STATS is ignored (maybe RINGPRESS_STATS?)"};
  EXPECT_EQ(warnings, expected);
}

TEST(Settings, AgreementOmitsTheSecretAndWhatMayDiffer) {
  auto settings =
      parse_settings({{"RINGPRESS_SECRET", "swordfish"}, {"RINGPRESS_CODEC", "q8"}}, nullptr);
  const auto lines = agreement_lines(settings);
  EXPECT_NE(std::find(lines.begin(), lines.end(), "RINGPRESS_CODEC=q8"), lines.end());
  for (const std::string& line : lines) {
    EXPECT_FALSE(line.starts_with("RINGPRESS_SECRET"));
    EXPECT_FALSE(line.starts_with("RINGPRESS_TIMEOUT_MS"));
  }
  auto other = settings;
  other.secret = "sailfish";
  EXPECT_EQ(agreement_lines(other), lines);
}

}  // namespace
}  // namespace ringpress
