// What communicators on host memory say while they run. Ranks are threads; where a process ends,
// is killed or forked, it is one of the test's own.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/log.h"
#include "tests/support/communicator_ranks.h"
#include "tests/support/live_files.h"
#include "tests/support/random_tensor.h"

namespace ringpress::nccl_plugin {
namespace {

using nlohmann::json;
using testing::json_lines;
using testing::LiveFolder;
using Environment = testing::RankEnvironment;

constexpr std::size_t kCount = 50000;
constexpr int kRanks = 2;

Environment with_codec(Environment more) {
  more.insert(more.end(), {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_SHM", "0"}});
  return more;
}

/// A step of training: a gradient, whose mean is given, and a number. `number` becomes the sum of
/// all ranks'.
Status run_step(Communicator* communicator, const std::vector<float>& gradient,
                std::vector<float>* mean, float* number) {
  mean->resize(kCount);
  RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(gradient.data(), mean->data(), kCount,
                                                     DType::kFloat32, {ReduceOp::kAvg}));
  return communicator->all_reduce(number, number, 1, DType::kFloat32, {});
}

/// Steps until rank 0 is content.
Status train_until(Communicator* communicator, const std::function<bool()>& is_enough) {
  const std::vector<float> gradient = testing::random_gradient(kCount, 1, communicator->rank());
  std::vector<float> mean;
  while (true) {
    float number = communicator->rank() == 0 && is_enough() ? 1 : 0;
    RINGPRESS_RETURN_IF_ERROR(run_step(communicator, gradient, &mean, &number));
    if (number > 0) return Status::ok();
  }
}

void run_until(const Environment& environment, const std::function<bool()>& is_enough) {
  const auto outcomes = testing::run_communicators(
      kRanks, with_codec(environment),
      [&](Communicator* communicator) { return train_until(communicator, is_enough); });
  EXPECT_EQ(testing::failures_of(outcomes), "");
}

std::map<int, std::vector<json>> by_rank(const std::vector<json>& lines) {
  std::map<int, std::vector<json>> ranks;
  for (const json& line : lines) ranks[line["rank"].get<int>()].push_back(line);
  return ranks;
}

/// Waits until the thread that writes has written.
void wait_for_text(const LiveFolder& folder, const std::string& name, const std::string& text) {
  while (folder.read(name).find(text) == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}
std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

void wait_for_final_lines(const LiveFolder& folder, const std::string& name) {
  while (count_of(folder.read(name), "\"final\": true") < kRanks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// What intervals have together is what the last total has.
void expect_sum(const std::vector<json>& lines, const std::vector<std::string>& keys) {
  double sum = 0;
  const auto find = [&keys](json value) {
    for (const std::string& key : keys) value = value.contains(key) ? value[key] : json(0);
    return value.get<double>();
  };
  for (const json& line : lines) sum += find(line["interval"]);
  const double total = find(lines.back()["total"]);
  EXPECT_NEAR(sum, total, total * 1e-6) << keys[0];
}

TEST(Live, IntervalsAddUpToTheStatistics) {
  LiveFolder folder;
  run_until({{"RINGPRESS_LIVE", folder.path("live")},
             {"RINGPRESS_LIVE_SECONDS", "0.03"},
             {"RINGPRESS_STATS", folder.path("stats")}},
            [&] { return count_of(folder.read("live"), "\n") >= 4 * kRanks; });
  wait_for_final_lines(folder, "live");
  auto ranks = by_rank(json_lines(folder.read("live")));
  auto statistics = by_rank(json_lines(folder.read("stats")));
  ASSERT_EQ(ranks.size(), static_cast<std::size_t>(kRanks));
  for (const auto& [rank, lines] : ranks) {
    EXPECT_GT(lines.size(), 1u);
    for (const json& line : lines) {
      EXPECT_EQ(line["final"], &line == &lines.back());
      EXPECT_GT(line["seconds"].get<double>(), 0);
    }
    expect_sum(lines, {"calls"});
    expect_sum(lines, {"compressed_calls"});
    expect_sum(lines, {"raw_bytes"});
    expect_sum(lines, {"wire_bytes"});
    expect_sum(lines, {"by_codec", lines.back()["last_codec"].get<std::string>(), "calls"});
    for (const char* const phase : {"wait", "encode", "send", "receive", "reduce", "decode"}) {
      expect_sum(lines, {"phase_seconds", phase});
    }
    const json& last = lines.back();
    const json& total = last["total"];
    const json& counted = statistics[rank].at(0);
    for (const char* const key : {"calls", "compressed_calls", "raw_bytes", "wire_bytes"}) {
      EXPECT_EQ(total[key], counted[key]) << key;
    }
    for (const char* const key :
         {"exact_calls", "errors", "residual_bytes", "last_codec", "last_algorithm"}) {
      EXPECT_EQ(last[key], counted[key]) << key;
    }
  }
}

TEST(Live, CodecsAndPhasesAreThoseOfTheCalls) {
  LiveFolder folder;
  int steps = 0;
  run_until({{"RINGPRESS_LIVE", folder.path("live")}}, [&] { return ++steps == 20; });
  wait_for_final_lines(folder, "live");
  for (const json& line : json_lines(folder.read("live"))) {
    const json& total = line["total"];
    std::map<std::string, double> sums;
    for (const auto& [codec, calls] : total["by_codec"].items()) {
      for (const char* const key : {"calls", "raw_bytes", "wire_bytes"}) {
        sums[key] += calls[key].get<double>();
      }
      EXPECT_EQ(calls["calls"], 20) << codec;
    }
    EXPECT_EQ(total["by_codec"].size(), 2u) << "q4 and none";
    EXPECT_EQ(sums["calls"], total["calls"].get<double>());
    EXPECT_EQ(sums["raw_bytes"], total["raw_bytes"].get<double>());
    EXPECT_LE(sums["wire_bytes"], total["wire_bytes"].get<double>());
    EXPECT_GT(sums["wire_bytes"], 0.9 * total["wire_bytes"].get<double>());
    for (const auto& [phase, seconds] : total["phase_seconds"].items()) {
      EXPECT_GT(seconds.get<double>(), phase == "receive" ? -1 : 0) << phase;
    }
    EXPECT_GT(line["residual_norm"].get<double>(), 0);
    EXPECT_EQ(line["ranks"], kRanks);
    EXPECT_EQ(line["hosts"], 1);
    EXPECT_EQ(line["door"], "host");
    EXPECT_EQ(line["comm"].get<std::string>().size(), 8u) << "eight hexadecimal digits";
  }
}

TEST(Live, ACommunicatorHasItsName) {
  LiveFolder folder;
  std::vector<Settings> settings(
      kRanks, testing::settings_with(with_codec({{"RINGPRESS_LIVE", folder.path("live")}})));
  for (Settings& one : settings) one.comm_name = "dp \xFF";
  const auto outcomes = testing::run_communicators(settings, [](Communicator* communicator) {
    return train_until(communicator, [] { return true; });
  });
  EXPECT_EQ(testing::failures_of(outcomes), "");
  wait_for_final_lines(folder, "live");
  for (const json& line : json_lines(folder.read("live"))) EXPECT_EQ(line["comm"], "dp ?");
}

TEST(Live, ResultsAreTheSame) {
  std::vector<std::vector<float>> results;
  LiveFolder folder;
  for (const bool is_followed : {false, true}) {
    Environment environment = with_codec({{"RINGPRESS_DETERMINISTIC", "1"}});
    if (is_followed) {
      environment.emplace_back("RINGPRESS_LIVE", folder.path("live"));
      environment.emplace_back("RINGPRESS_TIMELINE", folder.path("timeline-%p"));
    }
    std::vector<float> result;
    const auto outcomes =
        testing::run_communicators(kRanks, environment, [&](Communicator* communicator) {
          const auto gradient = testing::random_gradient(kCount, 1, communicator->rank());
          std::vector<float> mean;
          float number = 0;
          for (int step = 0; step < 5; ++step) {
            RINGPRESS_RETURN_IF_ERROR(run_step(communicator, gradient, &mean, &number));
          }
          if (communicator->rank() == 0) result = mean;
          return Status::ok();
        });
    EXPECT_EQ(testing::failures_of(outcomes), "");
    results.push_back(result);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Live, APageForPrometheusAndATimelineAreWritten) {
  LiveFolder folder;
  const std::string timeline = "timeline-" + std::to_string(getpid());
  run_until({{"RINGPRESS_PROMETHEUS", folder.path("page-%p.prom")},
             {"RINGPRESS_TIMELINE", folder.path("timeline-%p")},
             {"RINGPRESS_LIVE_SECONDS", "0.03"}},
            [&] {
              const std::string page = "page-" + std::to_string(getpid()) + ".prom";
              return folder.read(page).find("codec=\"q4") != std::string::npos &&
                     folder.read(timeline).find("\"encode\"") != std::string::npos;
            });
  std::map<std::string, int> names;
  for (const json& event : testing::trace_events(folder.read(timeline))) ++names[event["name"]];
  for (const char* const name : {"process_name", "thread_name", "all_reduce", "wait", "encode",
                                 "send", "reduce", "decode"}) {
    EXPECT_GT(names[name], 0) << name;
  }
}

/// Calls never hear of it.
TEST(Live, WhatCannotBeWrittenIsNoErrorOfACall) {
  LiveFolder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {std::string("/dev/full"), folder.path("pipe"), folder.path("no/such/folder")}) {
    int steps = 0;
    run_until({{"RINGPRESS_LIVE", path},
               {"RINGPRESS_TIMELINE", path},
               {"RINGPRESS_PROMETHEUS", path},
               {"RINGPRESS_LIVE_SECONDS", "0.001"}},
              [&] { return ++steps == 10; });
  }
}

/// Runs `body` in a process that is forked, whose lines for people go to `log`.
template <typename Body>
pid_t start_process(const std::string& log, Body&& body) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process != 0) return process;
  std::FILE* const file = std::fopen(log.c_str(), "a");
  set_log_descriptor(fileno(file));
  body();
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

void expect_good_end(pid_t process) {
  int status = 1;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

/// Communicators that are never destroyed.
void leave_communicators(const Environment& environment) {
  static std::vector<std::unique_ptr<Communicator>> left(kRanks);
  const Settings settings = testing::settings_with(with_codec(environment));
  const auto id = make_unique_id(settings);
  ASSERT_TRUE(id.is_ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = Communicator::create(id.value(), rank, kRanks, settings);
      ASSERT_TRUE(made.is_ok()) << made.status().message();
      left[static_cast<std::size_t>(rank)] = std::move(made.value());
      EXPECT_TRUE(
          train_until(left[static_cast<std::size_t>(rank)].get(), [] { return true; }).is_ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LiveProcess, TheExitWritesTheLastLine) {
  LiveFolder folder;
  const pid_t process = start_process(folder.path("log"), [&] {
    leave_communicators({{"RINGPRESS_LIVE", folder.path("live")},
                         {"RINGPRESS_PROMETHEUS", folder.path("page-%p")},
                         {"RINGPRESS_TIMELINE", folder.path("timeline-%p")}});
  });
  expect_good_end(process);
  const auto lines = json_lines(folder.read("live"));
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kRanks));
  for (const json& line : lines) {
    EXPECT_EQ(line["final"], true);
    EXPECT_EQ(line["pid"], process);
    EXPECT_EQ(line["total"]["calls"], 2);
  }
  const std::string number = std::to_string(process);
  EXPECT_EQ(count_of(folder.read("page-" + number), "ringpress_calls_total{"), 2u);
  EXPECT_GT(testing::trace_events(folder.read("timeline-" + number)).size(), 8u);
}

TEST(LiveProcess, AKilledOneLeavesWholeLines) {
  LiveFolder folder;
  const pid_t process = start_process(folder.path("log"), [&] {
    run_until({{"RINGPRESS_LIVE", folder.path("live")},
               {"RINGPRESS_LIVE_SECONDS", "0.002"},
               {"RINGPRESS_TIMELINE", folder.path("timeline-%p")},
               {"RINGPRESS_PROMETHEUS", folder.path("page-%p")}},
              [] { return false; });
  });
  const std::string timeline = "timeline-" + std::to_string(process);
  wait_for_text(folder, timeline, "\"decode\"");
  wait_for_text(folder, "live", "\"rank\": 1");
  kill(process, SIGKILL);
  ASSERT_EQ(waitpid(process, nullptr, 0), process);
  const auto lines = json_lines(folder.read("live"));
  EXPECT_GE(lines.size(), 2u);
  for (const json& line : lines) EXPECT_EQ(line["final"], false);
  EXPECT_GT(testing::trace_events(folder.read(timeline)).size(), 2u);
}

TEST(LiveProcess, AForkedOneWritesNothingOfItsParents) {
  LiveFolder folder;
  const pid_t process = start_process(folder.path("log"), [&] {
    leave_communicators({{"RINGPRESS_LIVE", folder.path("live")},
                         {"RINGPRESS_LIVE_SECONDS", "0.01"},
                         {"RINGPRESS_DUMP_SIGNAL", "1"}});
    const pid_t child = fork();
    if (child == 0) {
      std::raise(SIGUSR2);  // Nobody is there who would answer.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::exit(0);
    }
    expect_good_end(child);
  });
  expect_good_end(process);
  for (const json& line : json_lines(folder.read("live"))) EXPECT_EQ(line["pid"], process);
  EXPECT_EQ(folder.read("log").find(" DUMP "), std::string::npos);
}

/// True once the process handles SIGUSR2.
bool takes_signal(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    return (std::stoull(line.substr(8), nullptr, 16) >> (SIGUSR2 - 1) & 1U) != 0;
  }
  return false;
}

TEST(LiveProcess, ADumpSaysWhomACallWaitsFor) {
  LiveFolder folder;
  const pid_t process = start_process(folder.path("log"), [&] {
    const auto outcomes = testing::run_communicators(
        kRanks, with_codec({{"RINGPRESS_DUMP_SIGNAL", "1"}}), [&](Communicator* communicator) {
          RINGPRESS_RETURN_IF_ERROR(train_until(communicator, [] { return true; }));
          while (communicator->rank() == 1) pause();  // It never comes again.
          return train_until(communicator, [] { return true; });
        });
    static_cast<void>(outcomes);
  });
  const auto has_said = [&](const std::string& text) {
    return folder.read("log").find(text) != std::string::npos;
  };
  const std::string hanging = "all_reduce of 50000 float32, call 3, for ";
  while (!has_said(hanging) || !has_said("2 calls have ended, 1 of them compressed")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (takes_signal(process)) kill(process, SIGUSR2);  // Before, it would end the process.
  }
  const std::string log = folder.read("log");
  EXPECT_NE(log.find("all_reduce of 50000 float32, call 3, for "), std::string::npos) << log;
  EXPECT_NE(log.find("waits for rank 1, of which nothing has come in this call"), std::string::npos)
      << log;
  EXPECT_NE(log.find("2 calls have ended, 1 of them compressed"), std::string::npos) << log;
  kill(process, SIGKILL);
  ASSERT_EQ(waitpid(process, nullptr, 0), process);
}

TEST(LiveProcess, ADecisionIsSaidOncePerKindOfCall) {
  LiveFolder folder;
  const pid_t process = start_process(folder.path("log"), [] {
    set_log_level(LogLevel::kInfo);
    int steps = 0;
    run_until({}, [&] { return ++steps == 5; });
  });
  expect_good_end(process);
  const std::string log = folder.read("log");
  // By each rank.
  EXPECT_EQ(count_of(log, "INFO all_reduce of 50000 float32: q4"), 2u) << log;
  EXPECT_EQ(count_of(log, "INFO all_reduce of 1 float32: none by "), 2u) << log;
}

volatile std::sig_atomic_t handled_signals = 0;

TEST(LiveProcess, ASignalThatTheProgramHandlesStaysItsOwn) {
  LiveFolder folder;
  const pid_t process = start_process(folder.path("log"), [&] {
    std::signal(SIGUSR2, [](int) { handled_signals = handled_signals + 1; });
    leave_communicators({{"RINGPRESS_DUMP_SIGNAL", "1"}});
    std::raise(SIGUSR2);
    EXPECT_EQ(handled_signals, 1);
  });
  expect_good_end(process);
  EXPECT_EQ(count_of(folder.read("log"), "the program handles SIGUSR2 itself"), 1u);
  EXPECT_EQ(count_of(folder.read("log"), " DUMP "), 0u);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
