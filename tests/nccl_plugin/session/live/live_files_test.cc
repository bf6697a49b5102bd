// The files and texts of what is said while a program runs, without a communicator.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nccl_plugin/session/live/call_watch.h"
#include "nccl_plugin/session/live/capped_file.h"
#include "nccl_plugin/session/live/json_text.h"
#include "nccl_plugin/session/live/live_line.h"
#include "nccl_plugin/session/live/live_names.h"
#include "nccl_plugin/session/live/prometheus_page.h"
#include "nccl_plugin/session/live/timeline.h"
#include "tests/support/live_files.h"

namespace ringpress::nccl_plugin {
namespace {

using testing::LiveFolder;

TEST(JsonText, AnyBytesAreJson) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {all, std::string("\xC3\xA9"), std::string("\xE0\x80\x80"), std::string("\xF0\x9F\x98"),
        std::string("\xED\xA0\x80"), std::string("\xF5\x80\x80\x80")}) {
    const auto parsed = nlohmann::json::parse(json_quoted(text), nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << json_quoted(text);
  }
  EXPECT_EQ(nlohmann::json::parse(json_quoted("\xC3\xA9\xF0\x9F\x98\x80")),
            "\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "0");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "0");
}

TEST(LiveNames, HaveHostProcessAndRank) {
  const std::string process = std::to_string(getpid());
  EXPECT_EQ(live_file_name("/x/%h-%p-%r.jsonl", 3),
            "/x/" + live_host() + "-" + process + "-3.jsonl");
  EXPECT_EQ(live_file_name("%%r%", 3), "%r%");
  EXPECT_EQ(live_file_name("%x", 3), "%x");
  LiveFiles names{"file", "file", "file"};
  EXPECT_EQ(live_files(names, 0).timeline, "file");
  EXPECT_EQ(live_files(names, 1).live, "file");
  EXPECT_EQ(live_files(names, 1).timeline, "") << "two processes would write to one file";
  EXPECT_EQ(live_files(names, 1).prometheus, "");
  names.timeline = "file-%r";
  EXPECT_EQ(live_files(names, 1).timeline, "file-1");
}

Statistics some_statistics() {
  Statistics statistics;
  statistics.calls = 10;
  statistics.compressed_calls = 4;
  statistics.raw_bytes = 1000;
  statistics.wire_bytes = 300;
  statistics.by_codec = {{"none", {6, 200, 210}}, {"q4", {4, 800, 90}}};
  statistics.phases = PhaseTimes{1000000000, 2, 3, 4, 5, 6};
  statistics.exact_calls = {{"below 64K", 6}};
  statistics.errors = {{1000, DType::kFloat32, 2, 0.1, 0.2, 0.3, 1}};
  statistics.last_codec = "q4";
  statistics.last_algorithm = "sra";
  return statistics;
}

TEST(LiveLine, HasAllThatItsReadersWant) {
  const Statistics total = some_statistics();
  Statistics before;
  before.calls = 7;
  before.by_codec = {{"none", {6, 200, 210}}};
  before.phases = PhaseTimes{400000000};
  const std::string text = live_line({"dp", "host", 1, 4, 2}, {1764369600.123, 10, true},
                                     statistics_between(before, total), total);
  ASSERT_EQ(text.back(), '\n');
  const nlohmann::json line = nlohmann::json::parse(text);
  EXPECT_EQ(line["ringpress"], "live");
  EXPECT_EQ(line["version"], 1);
  EXPECT_NEAR(line["time"].get<double>(), 1764369600.123, 1e-3);
  EXPECT_EQ(line["host"], live_host());
  EXPECT_EQ(line["pid"], getpid());
  EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(line["ranks"], 4);
  EXPECT_EQ(line["hosts"], 2);
  EXPECT_EQ(line["comm"], "dp");
  EXPECT_EQ(line["door"], "host");
  EXPECT_EQ(line["final"], true);
  EXPECT_EQ(line["seconds"], 10);
  EXPECT_EQ(line["interval"]["calls"], 3);
  EXPECT_EQ(line["interval"]["by_codec"].size(), 1u) << "only what there was";
  EXPECT_EQ(line["interval"]["by_codec"]["q4"]["wire_bytes"], 90);
  EXPECT_NEAR(line["interval"]["phase_seconds"]["wait"].get<double>(), 0.6, 1e-9);
  EXPECT_EQ(line["total"]["calls"], 10);
  EXPECT_EQ(line["total"]["by_codec"]["none"]["calls"], 6);
  EXPECT_EQ(line["total"]["phase_seconds"].size(), 6u);
  EXPECT_EQ(line["exact_calls"]["below 64K"], 6);
  EXPECT_EQ(line["errors"][0]["worst"], 0.3);
  EXPECT_EQ(line["last_codec"], "q4");
  EXPECT_FALSE(line.contains("residual_norm")) << "nobody knows it";
}

TEST(LiveLine, LeavesOutWhatADoorCannotKnow) {
  Statistics total = some_statistics();
  total.phases.reset();
  total.residual_norm = 2.5;
  const auto line = nlohmann::json::parse(
      live_line({"dp", "preload", 0, 4, 0}, {1, 1, false}, statistics_between({}, total), total));
  EXPECT_FALSE(line["total"].contains("phase_seconds"));
  EXPECT_FALSE(line["interval"].contains("phase_seconds"));
  EXPECT_FALSE(line.contains("hosts"));
  EXPECT_EQ(line["residual_norm"], 2.5);
}

TEST(CappedFile, KeepsToItsSizeAndOneOldFile) {
  LiveFolder folder;
  CappedFile file("TEST=x", folder.path("x"), 100, CappedFile::Start::kAppend, "head\n");
  std::string written;
  for (int i = 0; i < 100; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    file.write(line);
    written += line;
    EXPECT_LE(folder.size("x"), 100u);
  }
  EXPECT_LE(folder.size("x.1"), 100u);
  EXPECT_GT(folder.size("x.1"), 50u);
  EXPECT_EQ(folder.file_count(), 2u);
  EXPECT_EQ(folder.read("x").substr(0, 5), "head\n");
  // What both hold is the end of what was written, without a gap.
  const std::string kept = folder.read("x.1").substr(5) + folder.read("x").substr(5);
  EXPECT_EQ(kept, written.substr(written.size() - kept.size()));
}

TEST(CappedFile, ALineThatIsLargerThanTheCapIsWritten) {
  LiveFolder folder;
  CappedFile file("TEST=x", folder.path("x"), 10, CappedFile::Start::kAppend, "");
  const std::string line(50, 'x');
  file.write(line);
  file.write(line);
  EXPECT_EQ(folder.read("x"), line);
  EXPECT_EQ(folder.read("x.1"), line);
}

TEST(CappedFile, BeginsAnewOrAppends) {
  LiveFolder folder;
  CappedFile("TEST=x", folder.path("x"), 0, CappedFile::Start::kAppend, "").write("1");
  CappedFile("TEST=x", folder.path("x"), 0, CappedFile::Start::kAppend, "").write("2");
  EXPECT_EQ(folder.read("x"), "12");
  CappedFile anew("TEST=x", folder.path("x"), 0, CappedFile::Start::kAnew, "h");
  anew.write("3");
  anew.write("4");
  EXPECT_EQ(folder.read("x"), "h34");
  struct stat found {};
  ASSERT_EQ(stat(folder.path("x").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

/// Writes where that fails, and goes on.
TEST(CappedFile, WhatCannotBeWrittenIsNoError) {
  LiveFolder folder;
  const auto write_to = [](const std::string& path) {
    CappedFile file("TEST=" + path, path, 100, CappedFile::Start::kAppend, "");
    for (int i = 0; i < 3; ++i) file.write("a line\n");
  };
  ASSERT_EQ(symlink(folder.path("target").c_str(), folder.path("link").c_str()), 0);
  write_to(folder.path("link"));
  EXPECT_FALSE(folder.has("target")) << "a symbolic link was followed";
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  write_to(folder.path("pipe"));  // Nobody reads it: this does not wait.
  write_to(folder.path("no/such/folder"));
  write_to("/dev/full");
  struct stat found {};
  ASSERT_EQ(stat("/dev/full", &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode)) << "a device was renamed";
}

TEST(CappedFile, APipeThatIsReadGetsLines) {
  LiveFolder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const int reader = open(folder.path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  CappedFile file("TEST=pipe", folder.path("pipe"), 4, CappedFile::Start::kAppend, "");
  file.write("one\n");
  file.write("two\n");
  char text[64] = "";
  EXPECT_EQ(read(reader, text, sizeof text), 8);
  EXPECT_STREQ(text, "one\ntwo\n");
  close(reader);
}

/// What Prometheus's parser asks of a page: names, types before samples, samples of a family
/// together, no series twice.
void expect_prometheus(const std::string& page) {
  static const std::regex comment(
      R"(# (HELP ringpress_[a-z_]+ [^\n]+|TYPE ringpress_[a-z_]+ (counter|gauge)))");
  static const std::regex sample(
      R"re((ringpress_[a-z_]+)\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\} -?[0-9.]+(e[-+]?[0-9]+)?)re");
  std::set<std::string> families, series;
  std::string family;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (line.starts_with("# ")) {
      ASSERT_TRUE(std::regex_match(line, comment)) << line;
      if (!line.starts_with("# TYPE ")) continue;
      family = line.substr(7, line.rfind(' ') - 7);
      EXPECT_TRUE(families.insert(family).second) << line;
      EXPECT_EQ(line.ends_with(" counter"), family.ends_with("_total")) << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
      EXPECT_EQ(found[1], family) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  }
  EXPECT_EQ(page.back(), '\n');
}

TEST(PrometheusPage, IsOfItsFormat) {
  Statistics total = some_statistics();
  total.residual_norm = 1e-9;
  total.exact_calls["a \"reason\"\nof\\two lines"] = 1;
  CallWatch::Activity idle, busy;
  busy.call = WatchedCall{};
  busy.since = CallWatch::Clock::now() - std::chrono::seconds(5);
  const LiveIdentity identity{"dp", "host", 1, 4, 2};
  const std::string page =
      prometheus_page({{identity, total, {idle, busy}},
                       {{"tp \"0\"", "host", 1, 4, 2}, total, {idle}},
                       {identity, total, {}}});  // Of the same name: it is left out.
  expect_prometheus(page);
  const std::string labels = "{host=\"" + live_host() + "\",rank=\"1\",comm=\"dp\",door=\"host\"";
  EXPECT_NE(page.find("ringpress_calls_total" + labels + "} 10\n"), std::string::npos) << page;
  EXPECT_NE(page.find("ringpress_codec_wire_bytes_total" + labels + ",codec=\"q4\"} 90\n"),
            std::string::npos);
  EXPECT_NE(page.find("ringpress_phase_seconds_total" + labels + ",phase=\"wait\"} 1\n"),
            std::string::npos);
  EXPECT_NE(page.find("ringpress_call_in_progress_seconds" + labels + "} 5."), std::string::npos);
}

TEST(PrometheusPage, ReplacesAFileAndNothingElse) {
  LiveFolder folder;
  write_prometheus_page(folder.path("x.prom"), "1\n");
  write_prometheus_page(folder.path("x.prom"), "2\n");
  EXPECT_EQ(folder.read("x.prom"), "2\n");
  EXPECT_EQ(folder.file_count(), 1u) << "a temporary file is left";
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  write_prometheus_page(folder.path("pipe"), "1\n");
  write_prometheus_page("/dev/full", "1\n");
  write_prometheus_page(folder.path("no/such/folder"), "1\n");
  struct stat found {};
  ASSERT_EQ(stat(folder.path("pipe").c_str(), &found), 0);
  EXPECT_TRUE(S_ISFIFO(found.st_mode));
  ASSERT_EQ(stat("/dev/full", &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
}

TEST(CallWatch, TellsCallsAndPhases) {
  CallWatch watch("dp", 3, true);
  EXPECT_FALSE(watch.now().call);
  {
    const CallWatch::Call call(&watch, {CollectiveKind::kAllReduce, 100, DType::kFloat32});
    EXPECT_EQ(watch.phase_of_wait(2), CallPhase::kWait);
    {
      const CallWatch::Phase phase(watch, watch.phase_of_wait(2), 2);
      const CallWatch::Activity now = watch.now();
      ASSERT_TRUE(now.call);
      EXPECT_EQ(now.call->count, 100u);
      EXPECT_EQ(now.phase, CallPhase::kWait);
      EXPECT_EQ(now.peer, 2);
      EXPECT_EQ(now.calls, 1u);
    }
    watch.hear(2);
    EXPECT_EQ(watch.phase_of_wait(2), CallPhase::kReceive);
    EXPECT_EQ(watch.phase_of_wait(1), CallPhase::kWait);
    { const CallWatch::Phase phase(watch, CallPhase::kEncode); }
    EXPECT_FALSE(watch.now().phase);
    watch.decide({"q4", "sra", "", 400, 60});
  }
  EXPECT_FALSE(watch.now().call);
  { const CallWatch::Call call(&watch, {}); }
  EXPECT_EQ(watch.phase_of_wait(2), CallPhase::kWait) << "in a new call nothing has come";
  std::vector<TimelineEvent> events;
  EXPECT_EQ(watch.take_events(&events), 0u);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_FALSE(events[0].phase) << "the call";
  EXPECT_EQ(events[0].decision.codec, "q4");
  EXPECT_EQ(events[1].phase, CallPhase::kWait);
  EXPECT_EQ(events[2].phase, CallPhase::kEncode);
  for (const int phase : {1, 2}) {
    const TimelineEvent& event = events[static_cast<std::size_t>(phase)];
    EXPECT_GE(event.begin, events[0].begin);
    EXPECT_LE(event.end, events[0].end);
  }
  EXPECT_EQ(events[3].number, 2u);
  EXPECT_EQ(events[3].decision.codec, "") << "that of the call before";
  const PhaseTimes times = watch.phases();
  const auto waited = events[1].end - events[1].begin;
  EXPECT_EQ(times[static_cast<std::size_t>(CallPhase::kWait)],
            static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count()));
}

TEST(CallWatch, DropsEventsThatNobodyTakes) {
  CallWatch watch("dp", 1, true);
  constexpr int kCalls = 200000;
  for (int i = 0; i < kCalls; ++i) {
    const CallWatch::Call call(&watch, {});
  }
  std::vector<TimelineEvent> events;
  const std::uint64_t dropped = watch.take_events(&events);
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(dropped + events.size(), static_cast<std::uint64_t>(kCalls));
  EXPECT_EQ(watch.take_events(&events), 0u);
}

TEST(CallWatch, KnowsTheNormOfResidualsThatComeAgain) {
  CallWatch watch("dp", 1, false);
  EXPECT_FALSE(watch.norms().norm());
  const std::vector<float> threes(100, 3), fours(100000, 0.04F);
  watch.norms().note(threes.data(), threes.size());
  watch.norms().note(fours.data(), fours.size());
  const double expected = std::sqrt(100 * 9 + 100000 * 0.0016);
  EXPECT_NEAR(watch.norms().norm().value(), expected, expected * 1e-3);
  for (int i = 0; i < 3; ++i) {
    watch.norms().renew();
    watch.norms().note(threes.data(), threes.size());
  }
  EXPECT_NEAR(watch.norms().norm().value(), 30, 1e-6) << "the other tensor has gone";
}

TEST(Timeline, IsATraceWhereverItIsCut) {
  CallWatch watch("dp", 2, true);
  for (int i = 0; i < 3; ++i) {
    const CallWatch::Call call(&watch, {CollectiveKind::kAllReduce, 10, DType::kFloat32});
    { const CallWatch::Phase phase(watch, CallPhase::kWait, 1); }
    { const CallWatch::Phase phase(watch, CallPhase::kEncode); }
    watch.decide({"none", "sra", "below \"64K\"", 1, 2});
  }
  std::vector<TimelineEvent> events;
  static_cast<void>(watch.take_events(&events));
  const LiveIdentity identity{"dp", "host", 0, 2, 1};
  const std::string head = timeline_head(identity);
  EXPECT_EQ(testing::trace_events(head).size(), 1u);
  const std::string text = head + timeline_lane(identity, 5) + timeline_text(events, 5, 7);
  const nlohmann::json trace = testing::trace_events(text);
  std::map<std::string, int> counts;
  for (const nlohmann::json& event : trace) {
    ++counts[event["name"]];
    EXPECT_EQ(event["pid"], getpid());
    if (event["ph"] == "X") {
      EXPECT_EQ(event["tid"], 5);
      EXPECT_GE(event["dur"].get<double>(), 0);
      EXPECT_GT(event["ts"].get<double>(), 1.7e15) << "microseconds since 1970";
    }
  }
  EXPECT_EQ(counts["all_reduce"], 3);
  EXPECT_EQ(counts["wait"], 3);
  EXPECT_EQ(counts["encode"], 3);
  EXPECT_EQ(counts["7 events are missing"], 1);
  // Each event is a line: a file that ends with one is whole but for its end.
  for (std::size_t end = text.find('\n', head.size()); end != std::string::npos;
       end = text.find('\n', end + 1)) {
    const std::string cut = text.substr(0, end);
    static_cast<void>(testing::trace_events(cut.substr(0, cut.rfind('}') + 1)));
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
