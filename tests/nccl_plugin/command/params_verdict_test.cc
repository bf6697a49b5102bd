// Every variable with values that make no sense: what `ringpress params` says to each is what the
// making of a communicator says, in the same words.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/command/advice.h"
#include "nccl_plugin/command/params.h"
#include "nccl_plugin/session/settings/nccl_variables.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/log.h"
#include "tests/support/unused_port.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace fs = std::filesystem;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// This process works in a folder of its own, where settings may name what they like.
class ParamsVerdict : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ringpress-verdict-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    old_ = fs::current_path();
    fs::current_path(folder_);
    fs::create_directory("folder");
    std::ofstream("file") << "no rules, no map, no numbers\n";
    fs::create_symlink("elsewhere", "link");
    fs::create_directory("other-folder");
    fs::create_symlink("elsewhere", "other-link");
    log_ = open("log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    set_log_descriptor(log_);
  }
  void TearDown() override {
    set_log_descriptor(STDERR_FILENO);
    close(log_);
    fs::current_path(old_);
    fs::remove_all(folder_);
  }

  std::string logged() const {
    std::stringstream text;
    text << std::ifstream("log").rdbuf();
    return text.str();
  }

 private:
  fs::path folder_;
  fs::path old_;
  int log_ = -1;
};

/// What a program on host memory meets: the id, a communicator of two ranks, a call.
Status verdict_of_communicator(const Variables& variables) {
  const Settings settings = parse_settings(variables, nullptr);
  const bool is_known = !settings.nccl.comm_id.empty();
  const auto id = is_known ? known_unique_id(settings) : make_unique_id(settings);
  if (!id.is_ok()) return id.status();
  std::vector<Status> outcomes(2);
  const auto run_rank = [&](int rank) {
    Status& outcome = outcomes[static_cast<std::size_t>(rank)];
    auto made = Communicator::create(id.value(), rank, 2, settings);
    outcome = made.status();
    if (!made.is_ok()) return;
    std::vector<float> values(20000, 1.0F);
    outcome =
        made.value()->all_reduce(values.data(), values.data(), values.size(), DType::kFloat32, {});
    if (outcome.is_ok()) outcome = made.value()->finalize();
  };
  std::thread other([&] { run_rank(1); });
  run_rank(0);
  other.join();
  EXPECT_EQ(outcomes[0].is_ok(), outcomes[1].is_ok());
  return outcomes[0];
}

JobEnvironment environment_of(const Variables& variables) {
  JobEnvironment environment;
  for (const auto& [variable, value] : variables) environment.add(variable, {value, "environment"});
  return environment;
}

Param param_of(const Variables& variables, const std::string& name) {
  for (Param& param : params(environment_of(variables))) {
    if (param.name == name) return param;
  }
  ADD_FAILURE() << name << " is not listed";
  return {};
}

/// Whether `ringpress doctor` has a problem with the variable.
bool is_problem(const Variables& variables, const std::string& name) {
  const std::vector<Advice> all = advise_on_settings(environment_of(variables));
  return std::any_of(all.begin(), all.end(), [&](const Advice& advice) {
    return advice.fatal && advice.text.starts_with(name);
  });
}

/// Calls stay quick, and nothing is kept beside this folder.
Variables with(const std::string& name, const std::string& value) {
  Variables all = {{name, value}};
  for (const auto& [other, usual] : Variables{{"RINGPRESS_CODEC", "q4"},
                                              {"RINGPRESS_CACHE", "off"},
                                              {"RINGPRESS_TIMEOUT_MS", "30000"}}) {
    if (name != other) all.emplace_back(other, usual);
  }
  return all;
}

void compare(const std::string& name, const std::string& value) {
  const Variables variables = with(name, value);
  const Param param = param_of(variables, name);
  const Status made = verdict_of_communicator(variables);
  EXPECT_EQ(param.mistake, made.message()) << name << "=" << value;
  if (!made.is_ok()) {
    EXPECT_TRUE(is_problem(variables, name)) << name << "=" << value;
  }
}

const std::vector<std::string>& senseless() {
  static const auto& values = *new std::vector<std::string>{"",
                                                            "-1",
                                                            "0",
                                                            "2.5",
                                                            "nan",
                                                            "1e999",
                                                            "99999999999999999999",
                                                            "9223372036854775807",
                                                            "18446744073709551615",
                                                            "2147483648",
                                                            "nonsense",
                                                            "auto",
                                                            "off",
                                                            "64K",
                                                            "64Q",
                                                            " 2",
                                                            "2 ",
                                                            "/proc/nope",
                                                            "/proc/nope/file",
                                                            "folder",
                                                            "file",
                                                            "link",
                                                            "=",
                                                            "^",
                                                            ",",
                                                            ":",
                                                            "%p"};
  return values;
}

TEST_F(ParamsVerdict, OfEverySettingIsThatOfACommunicator) {
  for (const SettingDescription& setting : setting_descriptions()) {
    for (const std::string& value : senseless()) compare(setting.name, value);
  }
}

TEST_F(ParamsVerdict, OfNcclsVariablesIsThatOfACommunicator) {
  for (const nccl_plugin::NcclVariable& variable : nccl_plugin::known_nccl_variables()) {
    for (const std::string& value : senseless()) compare(variable.name, value);
  }
}

TEST_F(ParamsVerdict, OfWhatOneSettingChoosesFrom) {
  std::ofstream("rules") << "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q44\n";
  std::ofstream("no-rules") << "allreduce,many\n";
  std::ofstream("good-rules") << "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q8\n";
  std::ofstream("map") << "[\n";
  std::ofstream("other-hosts") << "nosuchhost rack0\n";
  const int port = testing::unused_port();
  const Variables cases = {{"RINGPRESS_CODEC", "q4:block=3"},
                           {"RINGPRESS_CODEC", "q4:blok=32"},
                           {"RINGPRESS_CODEC", "topk:density=2"},
                           {"RINGPRESS_CODEC", "topk:density=0.1"},
                           {"RINGPRESS_CODEC", "q9"},
                           {"RINGPRESS_CODEC", "randk"},
                           {"RINGPRESS_BUDGET", "powersgd"},
                           {"RINGPRESS_BUDGET", "q44"},
                           {"RINGPRESS_BUDGET", "bf16"},
                           {"RINGPRESS_BACKEND", "cuda"},
                           {"RINGPRESS_BACKEND", "host"},
                           {"RINGPRESS_BACKEND", "rocm"},
                           {"RINGPRESS_RULES", "rules"},
                           {"RINGPRESS_RULES", "no-rules"},
                           {"RINGPRESS_RULES", "good-rules"},
                           {"RINGPRESS_TOPOLOGY", "map"},
                           {"RINGPRESS_TOPOLOGY", "ranks"},
                           {"RINGPRESS_TOPOLOGY", "other-hosts"},
                           {"RINGPRESS_SOCKETS", "17"},
                           {"RINGPRESS_SOCKETS", "16"},
                           {"RINGPRESS_TUNING_CALLS", "20000"},
                           {"RINGPRESS_TUNING_TRIALS", "10001"},
                           {"RINGPRESS_TUNING_WARM_UP", "10001"},
                           {"RINGPRESS_SOCKET_IFNAME", "lo"},
                           {"RINGPRESS_SOCKET_IFNAME", "=l"},
                           {"RINGPRESS_SOCKET_IFNAME", "nope0,lo"},
                           {"NCCL_SOCKET_IFNAME", "=lo"},
                           {"NCCL_SOCKET_FAMILY", "AF_INET"},
                           {"NCCL_SOCKET_FAMILY", "AF_UNIX"},
                           {"NCCL_COMM_ID", "127.0.0.1:0"},
                           {"NCCL_COMM_ID", "127.0.0.1:99999"},
                           {"NCCL_COMM_ID", "no host:1"},
                           {"NCCL_COMM_ID", "[::1]:99999"},
                           {"NCCL_COMM_ID", "127.0.0.1:" + std::to_string(port)}};
  for (const auto& [name, value] : cases) compare(name, value);
}

/// The range in a message is the one that holds: what it names at its ends is taken.
TEST_F(ParamsVerdict, ARangeThatIsNamedHolds) {
  for (const SettingDescription& setting : setting_descriptions()) {
    const std::string mistake = param_of({{setting.name, "nonsense"}}, setting.name).mistake;
    const std::size_t from = mistake.find("whole number from ");
    if (from == std::string::npos) continue;
    std::istringstream words(mistake.substr(from));
    std::string word, smallest, largest;
    words >> word >> word >> word >> smallest >> word >> largest;
    for (const std::string& end : {smallest, largest}) {
      EXPECT_EQ(param_of({{setting.name, end}}, setting.name).mistake, "") << setting.name;
    }
    EXPECT_NE(param_of({{setting.name, largest + "0"}}, setting.name).mistake, "") << setting.name;
    EXPECT_EQ(param_of({{setting.name, largest + "0"}}, setting.name)
                  .mistake.substr(std::string(setting.name).size() + largest.size() + 2),
              mistake.substr(std::string(setting.name).size() + sizeof "nonsense"));
  }
}

bool doctor_warns(const std::string& name, const std::string& value) {
  Variables variables = {{name, value}};
  if (name == "NCCL_DEBUG_FILE") variables.emplace_back("NCCL_DEBUG", "INFO");
  const std::vector<Advice> all = advise_on_settings(environment_of(variables));
  return std::any_of(all.begin(), all.end(), [&](const Advice& advice) {
    return advice.text.starts_with(name + "=" + value + ": ");
  });
}

TEST_F(ParamsVerdict, FilesThatCannotBeWrittenAreAWarningOfBoth) {
  // Of one text a process warns once: these are of this test.
  const Variables wrong = {
      {"RINGPRESS_STATS", "no/file"},           {"RINGPRESS_STATS", "other-folder"},
      {"RINGPRESS_STATS", "other-link"},        {"RINGPRESS_TUNING_LOG", "no/file"},
      {"RINGPRESS_TUNING_LOG", "other-folder"}, {"RINGPRESS_TUNING_LOG", "file/file"},
      {"RINGPRESS_TRACE", "no/file"},           {"RINGPRESS_TRACE", "other-folder"},
      {"RINGPRESS_TRACE", "other-link"}};
  for (const auto& [name, value] : wrong) {
    const Variables variables = with(name, value);
    EXPECT_TRUE(verdict_of_communicator(variables).is_ok()) << name << "=" << value;
    const std::string warning = param_of(variables, name).warning;
    EXPECT_TRUE(warning.starts_with(name + "=" + value + ": ")) << warning;
    EXPECT_NE(logged().find(" WARN " + warning + "\n"), std::string::npos) << warning;
    EXPECT_TRUE(doctor_warns(name, value)) << name << "=" << value;
  }
  EXPECT_TRUE(doctor_warns("RINGPRESS_CACHE", "file"));
  EXPECT_TRUE(doctor_warns("RINGPRESS_CACHE", "file/below"));
  EXPECT_TRUE(doctor_warns("NCCL_DEBUG_FILE", "nope/log"));
}

TEST_F(ParamsVerdict, FilesThatCanBeWrittenAreNone) {
  for (const auto& [name, value] : Variables{{"RINGPRESS_STATS", "new"},
                                             {"RINGPRESS_STATS", "file"},
                                             {"RINGPRESS_TRACE", "new"},
                                             {"RINGPRESS_TUNING_LOG", "/dev/null"},
                                             {"RINGPRESS_CACHE", "a/b/c"},
                                             {"RINGPRESS_CACHE", "folder"},
                                             {"RINGPRESS_CACHE", "off"},
                                             {"NCCL_DEBUG_FILE", "link"},
                                             {"NCCL_DEBUG_FILE", "%h-%p.log"}}) {
    EXPECT_FALSE(doctor_warns(name, value)) << name << "=" << value;
  }
  EXPECT_FALSE(fs::exists("new")) << "looking must not make it";
  EXPECT_FALSE(fs::exists("a")) << "looking must not make it";
}

TEST_F(ParamsVerdict, WhatIsIgnoredIsAWarning) {
  const Variables ignored = {{"RINGPRESS_TCP_CONGESTION", "nope"},
                             {"NCCL_DEBUG", "LOUD"},
                             {"NCCL_SOCKET_FAMILY", "AF_UNIX"},
                             {"NCCL_CONF_FILE", "nope"}};
  for (const auto& [name, value] : ignored) {
    const Param param = param_of({{name, value}}, name);
    EXPECT_EQ(param.mistake, "");
    EXPECT_TRUE(param.warning.starts_with(name + "=" + value)) << param.warning;
  }
  const Param unknown = param_of({{"RINGPRESS_CODCE", "q4"}}, "RINGPRESS_CODCE");
  EXPECT_EQ(unknown.warning, "unknown setting RINGPRESS_CODCE is ignored (maybe RINGPRESS_CODEC?)");
}

// By whatever variable they are chosen, and whoever is asked: a rank, `params` and `doctor`.
TEST_F(ParamsVerdict, CodecsForErrorFeedbackWithoutItAreAWarning) {
  std::ofstream("sign-rule") << "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,sign\n";
  struct Case {
    std::string variable, value, named;
  };
  for (const auto& [variable, value, named] :
       {Case{"RINGPRESS_CODEC", "topk", "topk"}, Case{"RINGPRESS_CODEC", "sign", "sign"},
        Case{"RINGPRESS_CODEC", "q1:grid=lloyd", "q1:grid=lloyd"},
        Case{"RINGPRESS_CODEC", "powersgd", "powersgd"}, Case{"RINGPRESS_BUDGET", "q2", "q2"},
        Case{"RINGPRESS_CODEC", "qsgd:round=zero", "qsgd:round=zero"},
        Case{"RINGPRESS_CODEC", "randk", "randk"}, Case{"RINGPRESS_RULES", "sign-rule", "sign"}}) {
    Variables variables = with(variable, value);
    if (variable == "RINGPRESS_BUDGET") variables[1].second = "auto";
    variables.emplace_back("RINGPRESS_EF", "0");
    const std::string warning = param_of(variables, "RINGPRESS_EF").warning;
    EXPECT_TRUE(warning.starts_with("RINGPRESS_EF=0: what " + named + " leaves out")) << warning;
    const std::vector<Advice> all = advise_on_settings(environment_of(variables));
    EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                            [&](const Advice& advice) { return advice.text == warning; }));
    for (int made = 0; made < 2; ++made) {
      EXPECT_TRUE(verdict_of_communicator(variables).is_ok()) << value;
    }
    const std::string lines = logged();
    const std::size_t first = lines.find(" WARN " + warning + "\n");
    // That of `sign` by a rule is the same, and is not said again.
    EXPECT_NE(first, std::string::npos) << warning;
    EXPECT_EQ(lines.find(warning, first + 10), std::string::npos) << "more than once";
  }
  for (const char* const codec :
       {"q4", "q8", "bf16", "qsgd", "randk:unbiased=1", "q2:round=stochastic", "none"}) {
    Variables variables = with("RINGPRESS_CODEC", codec);
    variables.emplace_back("RINGPRESS_EF", "0");
    EXPECT_EQ(param_of(variables, "RINGPRESS_EF").warning, "") << codec;
  }
}

// What loses nothing, and what rules give to no call.
TEST_F(ParamsVerdict, WithoutErrorFeedbackOnlyCodecsThatCallsLoseWithAreAWarning) {
  EXPECT_EQ(
      param_of({{"RINGPRESS_CODEC", "randk:density=1"}, {"RINGPRESS_EF", "0"}}, "RINGPRESS_EF")
          .warning,
      "");
  struct Case {
    std::string file, rules, warned_of;
  };
  const std::string any = ",-1,-1,-1,-1,-1,-1,-1,";
  for (const auto& [file, rules, warned_of] :
       {Case{"all", "-1,0,-1" + any + "q8\n", ""},
        Case{"parts", "-1,1M,-1" + any + "q8\n-1,0,1048575" + any + "q4\n", ""},
        Case{"later", "-1,0,-1" + any + "q8\n-1,0,-1" + any + "sign\n", ""},
        Case{"unused", "-1,0,-1,sra\n-1,0,-1" + any + "sign\n", "topk"},
        Case{"small", "-1,0,1048575" + any + "q8\n", "topk"},
        Case{"named", "-1,0,-1" + any + "q8,dp*\n", "topk"},
        Case{"typed", "-1,0,-1" + any + "q8,-1,float32\n", "topk"},
        Case{"nodes", "-1,0,-1,-1,-1,-1,4,-1,-1,-1,q8\n", "topk"},
        Case{"scatters", "-1,0,-1" + any + "q8\nreducescatter,0,-1" + any + "sign\n", ""}}) {
    std::string text = rules;
    const std::size_t mebibyte = text.find("1M");
    if (mebibyte != std::string::npos) text.replace(mebibyte, 2, "1048576");
    std::ofstream(file) << text;
    Variables variables = with("RINGPRESS_CODEC", "topk");
    variables.emplace_back("RINGPRESS_RULES", file);
    EXPECT_EQ(param_of(variables, "RINGPRESS_CODEC").mistake, "");
    variables.emplace_back("RINGPRESS_EF", "0");
    const std::string warning = param_of(variables, "RINGPRESS_EF").warning;
    EXPECT_EQ(warning.find(warned_of + " leaves out") == std::string::npos, warned_of.empty())
        << file << ": " << warning;
    EXPECT_EQ(warning.empty(), warned_of.empty()) << file << ": " << warning;
  }
}

// They have no error feedback. Who makes none is not warned of them.
TEST_F(ParamsVerdict, ANoteSaysThatCodecsForErrorFeedbackLoseInReduceScatters) {
  const auto note_of = [](const Variables& variables, const std::string& name) {
    const Param param = param_of(variables, name);
    EXPECT_EQ(param.warning, "");
    return param.note;
  };
  EXPECT_EQ(note_of({{"RINGPRESS_CODEC", "topk"}}, "RINGPRESS_CODEC"),
            "RINGPRESS_CODEC=topk: all-gathers and some reduce-scatters have no error "
            "feedback: what topk leaves out of them is lost, and their result is far off");
  EXPECT_TRUE(note_of({{"RINGPRESS_BUDGET", "q2"}}, "RINGPRESS_BUDGET")
                  .starts_with("RINGPRESS_BUDGET=q2: all-gathers and some reduce-scatters"));
  EXPECT_TRUE(note_of({{"RINGPRESS_BUDGET", "error=5"}}, "RINGPRESS_BUDGET")
                  .starts_with("RINGPRESS_BUDGET=error=5: all-gathers and some reduce-scatters"));
  std::ofstream("scatter-rule") << "reducescatter,0,-1,-1,-1,-1,-1,-1,-1,-1,sign\n";
  EXPECT_TRUE(
      note_of({{"RINGPRESS_RULES", "scatter-rule"}}, "RINGPRESS_RULES")
          .starts_with("RINGPRESS_RULES=scatter-rule: all-gathers and some reduce-scatters"));
  std::ofstream("reduce-rule") << "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,sign\n";
  EXPECT_EQ(note_of({{"RINGPRESS_RULES", "reduce-rule"}}, "RINGPRESS_RULES"), "");
  // powersgd is for all-reduces alone.
  for (const char* const codec : {"q4", "powersgd", "lossless", "none"}) {
    EXPECT_EQ(note_of({{"RINGPRESS_CODEC", codec}}, "RINGPRESS_CODEC"), "") << codec;
  }
  const Variables off = {{"RINGPRESS_CODEC", "topk"}, {"RINGPRESS_EF", "0"}};
  EXPECT_EQ(note_of(off, "RINGPRESS_CODEC"), "");
}

// No file is opened then, so no rank has anything to warn of.
TEST_F(ParamsVerdict, ANoteSaysThatALogFileNeedsALevel) {
  const auto file_of = [](const Variables& variables) {
    return param_of(variables, "NCCL_DEBUG_FILE");
  };
  for (const char* const path : {"log-file", "nowhere/log-file"}) {
    const Param alone = file_of({{"NCCL_DEBUG_FILE", path}});
    EXPECT_EQ(alone.note, "NCCL_DEBUG_FILE=" + std::string(path) +
                              ": nothing is written there without NCCL_DEBUG");
    EXPECT_EQ(alone.warning, "");
    EXPECT_EQ(file_of({{"NCCL_DEBUG_FILE", path}, {"NCCL_DEBUG", "INFO"}}).note, "");
  }
  EXPECT_EQ(file_of({{"NCCL_DEBUG_FILE", "nowhere/log-file"}, {"NCCL_DEBUG", "INFO"}}).warning,
            "NCCL_DEBUG_FILE=nowhere/log-file: No such file or directory");
}

TEST_F(ParamsVerdict, OurInterfaceGoesBeforeThatOfNccl) {
  const Variables both = {{"RINGPRESS_SOCKET_IFNAME", "lo"}, {"NCCL_SOCKET_IFNAME", "nope0"}};
  EXPECT_TRUE(verdict_of_communicator(both).is_ok());
  const Param second = param_of(both, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(second.mistake, "");
  EXPECT_TRUE(second.warning.starts_with("NCCL_SOCKET_IFNAME=nope0 matches no network interface"));
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
