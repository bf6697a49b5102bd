// Automatic mode: what is measured and kept, and that all ranks do the same whatever they measure.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/session/calls/budget.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/tuning/calibration_file.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/peer_group.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_peers.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

namespace fs = std::filesystem;
using testing::run_peers;
using testing::ThreadPeers;

Settings make_settings(const std::string& cache = "off") {
  Settings settings = parse_settings({{"RINGPRESS_CACHE", cache}}, nullptr);
  return settings;
}

CodecSpeed codec(const std::string& name, double ratio, double error) {
  return {name, ratio, error, {1e-6, 2e-10}, {1e-6, 1e-10}, {1e-6, 0.1}};
}

Calibrations some_calibrations() {
  Calibrations some;
  for (Calibration& one : some.by_type) {
    one.codecs = {codec("none", 1, 0), codec("q4:block=64,grid=lloyd", 0.1328125, 0.0931234567)};
  }
  some.set_links({51.5e-6, 124999999.5}, {1.5e-6, 5e9});
  return some;
}

const CalibrationKey kKey{4, 1, "q4", "12-34"};
const CalibrationKey kKeyOfHosts{4, 2, "q4", "12-34"};

/// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "tuning-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string only_file() const {
    for (const auto& entry : fs::directory_iterator(path_)) return entry.path().string();
    return "";
  }

 private:
  std::string path_;
};

TEST(CalibrationFile, KeepsEveryDigit) {
  const std::string text = write_calibrations(some_calibrations(), kKey);
  const Calibrations read = read_calibrations(text, kKey).value();
  EXPECT_EQ(write_calibrations(read, kKey), text);
  EXPECT_EQ(read.link().latency_seconds, 51.5e-6);
  EXPECT_EQ(read.by_type[2].codecs[1].codec, "q4:block=64,grid=lloyd");
  EXPECT_EQ(read.by_type[2].codecs[1].hop.seconds_per_byte, 0.1);
}

TEST(CalibrationFile, KeepsLinksInsideHosts) {
  const std::string text = write_calibrations(some_calibrations(), kKeyOfHosts);
  const Calibrations read = read_calibrations(text, kKeyOfHosts).value();
  EXPECT_EQ(write_calibrations(read, kKeyOfHosts), text);
  EXPECT_EQ(read.by_type[2].inside.latency_seconds, 1.5e-6);
  EXPECT_EQ(read.inside().bytes_per_second, 5e9);
  EXPECT_EQ(write_calibrations(some_calibrations(), kKey).find("inside"), std::string::npos);
}

TEST(CalibrationFile, RefusesWhatIsCutShortOrChanged) {
  const std::string text = write_calibrations(some_calibrations(), kKey);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_EQ(read_calibrations(text.substr(0, bytes), kKey).status().code(), Code::kCorrupt);
    std::string changed = text;
    changed[bytes] = static_cast<char>(changed[bytes] ^ 1);
    EXPECT_EQ(read_calibrations(changed, kKey).status().code(), Code::kCorrupt);
  }
}

TEST(CalibrationFile, RefusesThatOfOthers) {
  const std::string text = write_calibrations(some_calibrations(), kKey);
  for (const CalibrationKey& key : {CalibrationKey{3, 1, "q4", "12-34"},
                                    {4, 1, "q3", "12-34"},
                                    {4, 1, "q4", "12-35"},
                                    kKeyOfHosts}) {
    EXPECT_NE(read_calibrations(text, key).status().message().find("other ranks"),
              std::string::npos);
  }
}

TEST(CalibrationFile, RefusesCodecsThatThereAreNot) {
  Calibrations calibrations = some_calibrations();
  calibrations.by_type[1].codecs.push_back(codec("q99", 0.5, 0));
  const Status refused = read_calibrations(write_calibrations(calibrations, kKey), kKey).status();
  EXPECT_NE(refused.message().find("q99"), std::string::npos) << refused.message();
}

TEST(CalibrationFile, RefusesWhatOthersMayWrite) {
  const Folder folder;
  const std::string path = folder.path() + "/new/file";
  EXPECT_EQ(load_calibration_file(path).value(), "");
  ASSERT_TRUE(save_calibration_file(path, "text").is_ok());
  EXPECT_EQ(load_calibration_file(path).value(), "text");
  ASSERT_EQ(chmod(path.c_str(), 0602), 0);
  EXPECT_EQ(load_calibration_file(path).status().message(), "others may write it");
  fs::create_symlink(path, path + "link");
  EXPECT_FALSE(load_calibration_file(path + "link").is_ok());
  EXPECT_FALSE(load_calibration_file(folder.path()).is_ok());
}

TEST(CalibrationFile, LiesWhereTheSettingSays) {
  EXPECT_EQ(calibration_path(make_settings("off"), kKey), "");
  const std::string path = calibration_path(make_settings("/somewhere"), kKey);
  EXPECT_EQ(path.rfind("/somewhere/calibration-", 0), 0u);
  EXPECT_NE(path, calibration_path(make_settings("/somewhere"), {5, 1, "q4", "12-34"}));
}

TEST(Budget, IsACodecThatCanStandForOthers) {
  for (const char* const budget : {"q4", "none", "bf16", "q2", "sign"}) {
    EXPECT_TRUE(check_budget(budget, "RINGPRESS_BUDGET=").is_ok()) << budget;
  }
  for (const char* const budget :
       {"", "q9", "0.1", "powersgd:rank=4", "qsgd", "topk", "randk", "auto"}) {
    const Status refused = check_budget(budget, "--budget ");
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << budget;
    EXPECT_TRUE(refused.message().starts_with(std::string("--budget ") + budget + ": "));
  }
}

TEST(Calibrate, KnowsHostsThatAreAlike) {
  const auto count = [](const std::vector<int>& hosts) {
    std::vector<int> found(hosts.size());
    const auto each = [&](ThreadPeers& peers) {
      found[static_cast<std::size_t>(peers.rank())] = count_ranks_per_host(peers).value();
    };
    run_peers(static_cast<int>(hosts.size()), each, hosts);
    EXPECT_EQ(found, std::vector<int>(hosts.size(), found[0]));
    return found[0];
  };
  EXPECT_EQ(count({0, 0, 1, 1}), 2);
  EXPECT_EQ(count({0, 1, 0, 1, 1, 0}), 3);
  EXPECT_EQ(count({0, 1, 2}), 1);
  EXPECT_EQ(count({0, 0, 0}), 1) << "one host: all links are of a kind";
  EXPECT_EQ(count({0, 0, 0, 1}), 1) << "not alike";
  EXPECT_EQ(count({0, 0, 0, 1, 2, 2, 2}), 1) << "not alike";
}

TEST(Calibrate, IsTheSameOnAllRanksAndWithinTheBudget) {
  for (const char* const budget : {"q4", "bf16", "q2:block=64"}) {
    Settings settings = make_settings();
    settings.budget.codec = budget;
    std::vector<std::string> texts(3);
    run_peers(3, [&](ThreadPeers& peers) {
      const Result<Calibrations> found = calibrate(peers, settings, 1);
      ASSERT_TRUE(found.is_ok()) << found.status().message();
      for (const Calibration& one : found.value().by_type) {
        ASSERT_FALSE(one.codecs.empty());
        EXPECT_EQ(one.codecs[0].codec, "none");
        double allowed = 0;  // Where the budget's saves nothing, it is not there.
        for (const CodecSpeed& each : one.codecs) {
          EXPECT_GT(each.ratio, 0);
          if (each.codec == budget) allowed = each.error;
        }
        for (const CodecSpeed& each : one.codecs) {
          EXPECT_LE(each.error, allowed) << each.codec;
        }
      }
      texts[static_cast<std::size_t>(peers.rank())] = write_calibrations(found.value(), kKey);
    });
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
  }
}

void wait(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// One of two ranks of two hosts.
class LinkedPeers : public Peers {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  bool is_local(int) const override { return false; }
  Status swap(int, std::span<const float>, std::span<float>) override { return Status::ok(); }
  Status max(std::span<double>) override { return Status::ok(); }
  Status broadcast(std::span<std::byte>) override { return Status::ok(); }
  std::uint64_t sent_bytes() const override { return 0; }
};

/// Whose link lets some bytes pass at once, and then so many a second.
class BurstyPeers final : public LinkedPeers {
 public:
  static constexpr double kBurst = 32 << 10;
  static constexpr double kBytesPerSecond = 125e3;

  Status sum(std::span<float> values) override {
    const auto bytes = static_cast<double>(values.size_bytes());
    const double held_back = std::max(0.0, bytes - burst_left_);
    burst_left_ = std::max(0.0, burst_left_ - bytes);
    held_back_ += held_back;
    wait(held_back / kBytesPerSecond);
    return Status::ok();
  }

  /// Seconds that the link took for what was no burst.
  double seconds() const { return held_back_ / kBytesPerSecond; }

 private:
  double burst_left_ = kBurst;  // Bytes; it never fills again.
  double held_back_ = 0;
};

TEST(Calibrate, TakesNotLongOverALinkThatLetsABurstPass) {
  BurstyPeers peers;
  const Calibrations found = calibrate(peers, make_settings(), 1).value();
  // If calls are slow for another reason, fewer are made.
  EXPECT_LE(peers.seconds(), 0.2);
  EXPECT_GT(peers.seconds(), 0);
  EXPECT_LT(found.link().bytes_per_second, 1.1 * BurstyPeers::kBytesPerSecond);
}

TEST(Calibrate, WhatWasFoundOfALinkStillHolds) {
  bool holds = false;
  // One of the two measurements may have been held up by what else the machine does.
  for (int tries = 0; tries < 20 && !holds; ++tries) {
    BurstyPeers peers;
    const Calibrations found = calibrate(peers, make_settings(), 1).value();
    holds = still_hold(peers, found, 1).value();
  }
  EXPECT_TRUE(holds);
}

/// Whose machine does something else while empty calls are timed.
class HeldUpPeers final : public LinkedPeers {
 public:
  static constexpr double kBytesPerSecond = 12.5e6;
  static constexpr double kHeldUpSeconds = 30e-3;

  Status sum(std::span<float> values) override {
    const bool is_empty = values.size() == 1;
    wait(is_empty ? kHeldUpSeconds : static_cast<double>(values.size_bytes()) / kBytesPerSecond);
    return Status::ok();
  }
};

TEST(Calibrate, ALinkIsNoQuickerForEmptyCallsThatWereHeldUp) {
  HeldUpPeers peers;
  const Calibrations found = calibrate(peers, make_settings(), 1).value();
  // Sums of two ranks send a value as often as it is there.
  EXPECT_LT(found.link().bytes_per_second, 2 * HeldUpPeers::kBytesPerSecond);
  EXPECT_LT(found.link().latency_seconds, HeldUpPeers::kHeldUpSeconds / 2);
}

/// What a call is made with after all.
Status choose_with(TunedCalls& tuned, const PlanRequest& request, Decision* decision) {
  RINGPRESS_ASSIGN_OR_RETURN(const auto choice, tuned.choose(request, *decision));
  *decision = follow_tuned(choice, request, *decision);
  return Status::ok();
}

/// Calls of a program: their sizes as all ranks know them, their times as each has them.
struct Program {
  PlanRequest request(std::mt19937& dice) const {
    PlanRequest request;
    request.kind = dice() % 4 == 0 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
    request.dtype = kTunedTypes[dice() % 3];
    request.count = std::size_t{1} << (14 + dice() % 8);
    request.count += dice() % request.count;
    return request;
  }
  Decision plan(std::mt19937& dice) const {
    Decision plan;
    switch (dice() % 8) {
      case 0:
        plan.why.reason = ExactReason::kTooSmall;
        break;
      case 1:
        plan.why.reason = ExactReason::kNotRecurred;
        break;
      default:
        plan.codec = "q4";
        plan.error_feedback = true;
    }
    return plan;
  }
};

TEST(TunedCalls, AllRanksSwitchAtTheSameCallWhateverTheyMeasure) {
  constexpr std::uint64_t kSwitches = 10000;
  const Settings settings = make_settings();
  TuningLimits limits;
  limits.warm_up_calls = 0;
  limits.calls = 2;
  const std::vector<std::vector<int>> jobs = {{0, 1}, {0, 0, 1}, {0, 0, 0, 0, 1, 1, 1, 1}};
  for (const std::vector<int>& hosts : jobs) {
    std::vector<std::vector<std::size_t>> made(hosts.size());  // Hashes.
    const auto each = [&](ThreadPeers& peers) {
      TunedCalls tuned(settings, peers, limits);
      std::mt19937 shared(7);
      std::mt19937 own(static_cast<unsigned>(peers.rank()));
      std::lognormal_distribution<double> seconds(0, 2);
      auto& plans = made[static_cast<std::size_t>(peers.rank())];
      while (tuned.epoch() < kSwitches) {
        const PlanRequest request = Program().request(shared);
        Decision plan = Program().plan(shared);
        const Status status = choose_with(tuned, request, &plan);
        ASSERT_TRUE(status.is_ok()) << status.message();
        tuned.note(seconds(own));
        const std::optional<Choice> exact = tuned.quickest_exact(request, Decision());
        const bool is_known = peers.rank() == 0 && plan.codec != "none";
        EXPECT_TRUE(exact.has_value() || !is_known);
        EXPECT_TRUE(!exact || exact->is_exact());
        const std::hash<std::string_view> hash;
        plans.push_back(hash(plan.codec) ^ 31 * static_cast<std::size_t>(plan.why.reason) ^
                        plan.chunk_elements ^ static_cast<std::size_t>(plan.algorithm));
      }
    };
    run_peers(static_cast<int>(hosts.size()), each, hosts);
    EXPECT_GT(made[0].size(), kSwitches);
    for (const auto& plans : made) EXPECT_EQ(plans, made[0]);
  }
}

TEST(TunedCalls, WhatIsNotForTuningIsLeftAsItIs) {
  const Settings settings = make_settings();
  run_peers(1, [&](ThreadPeers& peers) {
    TunedCalls tuned(settings, peers);
    Decision plan;
    plan.why.reason = ExactReason::kOneHost;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(choose_with(tuned, {}, &plan).is_ok());
      tuned.note(1);
    }
    EXPECT_EQ(plan.why.reason, ExactReason::kOneHost);
    EXPECT_EQ(tuned.quickest_exact({}, {}), std::nullopt);
    EXPECT_EQ(tuned.epoch(), 0u);
  });
}

/// As many calls and trials as the settings say, of a communicator whose calls all take as long.
TEST(TunedCalls, TryAsMuchAsTheSettingsSay) {
  const auto tried_calls = [](std::vector<std::pair<std::string, std::string>> environment) {
    environment.emplace_back("RINGPRESS_CACHE", "off");
    const Settings settings = parse_settings(environment, nullptr);
    std::size_t calls = 0;
    run_peers(2,
              [&](ThreadPeers& peers) {
                TunedCalls tuned(settings, peers);
                PlanRequest request;
                request.count = 1 << 20;
                for (bool is_trying = true; is_trying;) {
                  Decision plan;
                  plan.codec = "q4";
                  ASSERT_TRUE(choose_with(tuned, request, &plan).is_ok());
                  is_trying = tuned.is_trying();
                  if (is_trying && peers.rank() == 0) ++calls;
                  tuned.note(1e-3);
                }
              },
              {0, 1});
    return calls;
  };
  EXPECT_EQ(tried_calls({{"RINGPRESS_TUNING_TRIALS", "0"}}), 0u);
  // The first of a trial never counts.
  const std::size_t few =
      tried_calls({{"RINGPRESS_TUNING_CALLS", "1"}, {"RINGPRESS_TUNING_WARM_UP", "1"}});
  const std::size_t as_default = tried_calls({});
  const std::size_t many = tried_calls({{"RINGPRESS_TUNING_CALLS", "40"}});
  EXPECT_LT(few, as_default);
  EXPECT_LT(as_default, many);
}

/// A rule that names an algorithm leaves the codec to be chosen, apart from that of calls without.
TEST(TunedCalls, KeepToTheAlgorithmOfARule) {
  const Settings settings = make_settings();
  run_peers(3,
            [&](ThreadPeers& peers) {
              TunedCalls tuned(settings, peers);
              PlanRequest request;
              request.count = 1 << 20;
              std::set<std::string> codecs;
              for (int i = 0; i < 600; ++i) {
                for (const bool by_rule : {true, false}) {
                  Decision plan;
                  plan.codec = "q4";
                  plan.algorithm = by_rule ? Algorithm::kRing : Algorithm::kSra;
                  if (by_rule) plan.algorithm_origin = Origin::kRule;
                  ASSERT_TRUE(choose_with(tuned, request, &plan).is_ok());
                  if (by_rule) {
                    codecs.emplace(plan.codec);
                    EXPECT_EQ(plan.algorithm, Algorithm::kRing);
                  }
                  tuned.note(plan.codec == "none" ? 1e-4 : 2e-4);
                }
              }
              EXPECT_GT(codecs.size(), 1u);
              EXPECT_EQ(codecs.count("none"), 1u);
            },
            {0, 1, 2});
}

TEST(TunedCalls, ARefusedCacheIsMeasuredAnewAndReplaced) {
  const Folder folder;
  const Settings settings = make_settings(folder.path());
  const auto tune = [&] {
    run_peers(2, [&](ThreadPeers& peers) {
      TunedCalls tuned(settings, peers);
      PlanRequest request;
      request.count = 1 << 20;
      Decision plan;
      plan.codec = "q4";
      ASSERT_TRUE(choose_with(tuned, request, &plan).is_ok());
    });
  };
  tune();
  const std::string path = folder.only_file();
  ASSERT_NE(path, "");
  const auto is_whole = [&] {
    struct stat found {};
    return stat(path.c_str(), &found) == 0 && (found.st_mode & 0777) == 0600 &&
           load_calibration_file(path).value().rfind("\nend ") != std::string::npos;
  };
  EXPECT_TRUE(is_whole());
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  tune();
  EXPECT_TRUE(is_whole());
  fs::resize_file(path, 100);
  tune();
  EXPECT_TRUE(is_whole());
}

TEST(TunedCalls, HasNothingToChooseWhereTheSettingsDo) {
  const auto has_choice = [](const char* name, const char* value) {
    return TunedCalls::has_choice(parse_settings({{name, value}}, nullptr));
  };
  EXPECT_TRUE(has_choice("RINGPRESS_ALGO", "ring"));
  EXPECT_FALSE(has_choice("RINGPRESS_CODEC", "q4"));
  EXPECT_FALSE(has_choice("RINGPRESS_DETERMINISTIC", "1"));
  EXPECT_FALSE(has_choice("RINGPRESS", "observe"));
  EXPECT_FALSE(has_choice("RINGPRESS_BUDGET", "none"));
}

TEST(TuningLog, LastLineIsTheDecision) {
  const Folder folder;
  Settings settings = make_settings();
  settings.tuning_log = folder.path() + "/log.csv";
  run_peers(2, [&](ThreadPeers& peers) {
    TunedCalls tuned(settings, peers);
    PlanRequest request;
    request.count = 300000;
    for (int i = 0; i < 700; ++i) {
      Decision plan;
      plan.codec = "q4";
      ASSERT_TRUE(choose_with(tuned, request, &plan).is_ok());
      tuned.note(plan.codec == "none" ? 1e-3 : 2e-3);
    }
  });
  std::ifstream file(settings.tuning_log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines.front(), tuning_log_header());
  EXPECT_EQ(lines[1].rfind("all_reduce,float32,1048576,2097151,tried,", 0), 0u) << lines[1];
  const std::string decision = "all_reduce,float32,1048576,2097151,settled,\"none\",";
  EXPECT_EQ(lines.back().rfind(decision, 0), 0u) << lines.back();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
