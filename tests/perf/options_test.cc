#include "perf/all_reduce/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/size.h"

namespace ringpress::perf {
namespace {

ParsedOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "all_reduce_perf");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(Options, SizesArePowersOf1024) {
  EXPECT_EQ(terminal::parse_size("0"), 0U);
  EXPECT_EQ(terminal::parse_size("64"), 64U);
  EXPECT_EQ(terminal::parse_size("4K"), 4096U);
  EXPECT_EQ(terminal::parse_size("4kb"), 4096U);
  EXPECT_EQ(terminal::parse_size("1.5M"), 1572864U);
  EXPECT_EQ(terminal::parse_size("2G"), 2147483648U);
  for (const char* wrong : {"", "K", "4X", "-1", "4KBs", "1e99", "nan", "4 K"}) {
    EXPECT_THROW(terminal::parse_size(wrong), terminal::Error) << wrong;
  }
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const ParsedOptions parsed = parse({});
  ASSERT_TRUE(parsed.run);
  EXPECT_EQ(parsed.options.sweep.minimum_bytes, 32U << 20);
  EXPECT_EQ(parsed.options.timing.iterations, 20);
  EXPECT_EQ(parsed.options.timing.warmup_iterations, 1);
  EXPECT_EQ(parsed.options.timing.average, Average::kMean);
  EXPECT_TRUE(parsed.options.checks.results);
  EXPECT_FALSE(parsed.options.interleaved());
}

TEST(Options, ReadsNcclTestsFlags) {
  const ParsedOptions parsed =
      parse({"-b",   "8",  "-e",  "128M", "-f", "2",  "-n", "5",  "-w", "0",  "-c", "0",  "-d",
             "half", "-o", "avg", "-a",   "3",  "-m", "4",  "-g", "1",  "-t", "1",  "-G", "0"});
  ASSERT_TRUE(parsed.run) << parsed.text;
  EXPECT_EQ(parsed.options.sweep.minimum_bytes, 8U);
  EXPECT_EQ(parsed.options.sweep.maximum_bytes, 128U << 20);
  EXPECT_EQ(parsed.options.timing.average, Average::kMaximum);
  EXPECT_EQ(sweep_sizes(parsed.options).size(), 25U);
}

TEST(Options, UnsupportedFlagsSayWhy) {
  const ParsedOptions parsed = parse({"-g", "8"});
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_status, 2);
  EXPECT_NE(parsed.text.find("--ranks"), std::string::npos);
}

TEST(Options, WrongCommandLinesAreRefused) {
  const std::vector<std::vector<const char*>> wrong = {{"-b", "8M", "-e", "4M"},
                                                       {"-d", "flaot"},
                                                       {"-o", "add"},
                                                       {"-n", "0"},
                                                       {"-z", "3"},
                                                       {"--codec", "q4", "--compare", "none"},
                                                       {"--input", "g.npy"},
                                                       {"--input", "%d%d.npy"},
                                                       {"--input", "%s.npy"},
                                                       {"--ranks", "0"},
                                                       {"--compare", "none,,q4"},
                                                       {"--compare", "block=64,q4"},
                                                       {"--bogus"},
                                                       {"-e", "lots"}};
  for (const auto& words : wrong) {
    const ParsedOptions parsed = parse(words);
    EXPECT_FALSE(parsed.run) << words[0];
    EXPECT_EQ(parsed.exit_status, 2) << words[0];
    EXPECT_FALSE(parsed.text.empty()) << words[0];
  }
}

TEST(Options, AValueThatIsRefusedIsToldWhatIsAllowed) {
  struct Case {
    std::vector<const char*> words;
    const char* allowed;
  };
  for (const Case& c :
       {Case{{"--seed", "-1"}, "-1 is no number from 0 on"},
        Case{{"-c", "-7"}, "-7 is no number from 0 on"},
        Case{{"-b", "8E", "-e", "8E"}, "\"8E\" is not a size of at most 1024T"},
        Case{{"-e", "lots"}, "\"lots\" is not a size such as"},
        Case{{"-d", "FLOAT"}, "(maybe float?)"}, Case{{"-o", "summ"}, "(maybe sum?)"}}) {
    const ParsedOptions parsed = parse(c.words);
    EXPECT_EQ(parsed.exit_status, 2) << c.words[0];
    EXPECT_NE(parsed.text.find(c.allowed), std::string::npos) << parsed.text;
  }
}

TEST(Options, CompareSplitsAtCodecsOnly) {
  const std::vector<Setting> settings = parse_settings_list("none,q4:block=64,grid=minmax@ring,q8");
  ASSERT_EQ(settings.size(), 3U);
  EXPECT_EQ(settings[1].codec, "q4:block=64,grid=minmax");
  EXPECT_EQ(settings[1].algorithm, "ring");
  EXPECT_EQ(settings[2].codec, "q8");
  EXPECT_EQ(settings[2].algorithm, "");
}

TEST(Options, SweepAddsStepsOrMultiplies) {
  Options options;
  options.sweep.minimum_bytes = 10;
  options.sweep.maximum_bytes = 35;
  options.sweep.step_bytes = 10;
  EXPECT_EQ(sweep_sizes(options), (std::vector<std::size_t>{10, 20, 30}));
  options.sweep.step_factor = 3;
  EXPECT_EQ(sweep_sizes(options), (std::vector<std::size_t>{10, 30}));
  options.sweep.step_factor = 1;
  options.sweep.step_bytes = 0;
  EXPECT_EQ(sweep_sizes(options), (std::vector<std::size_t>{10}));
}

TEST(Options, HelpListsTheOptions) {
  const ParsedOptions parsed = parse({"-h"});
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_status, 0);
  EXPECT_NE(parsed.text.find("--compare"), std::string::npos);
}

}  // namespace
}  // namespace ringpress::perf
