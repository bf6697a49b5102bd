// What nodes of the plugin say while they run: RINGPRESS_LIVE, of both workers together.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/collnet_nodes.h"
#include "tests/support/live_files.h"

namespace ringpress::testing {
namespace {

using nlohmann::json;

TEST(CollNet, LinesAgreeWithTheStatistics) {
  LiveFolder folder;
  const auto reports = run_nodes(kLibrary, 2, {},
                                 {{"RINGPRESS_CODEC", "q4"},
                                  {"RINGPRESS_LIVE", folder.path("live")},
                                  {"RINGPRESS_TIMELINE", folder.path("timeline-%p")},
                                  {"RINGPRESS_STATS", folder.path("stats")}},
                                 [](ProxyNode& node, int rank) -> std::string {
                                   const auto send = gradient_of(100000, 1, rank, ncclFloat32);
                                   std::vector<std::byte> receive(send.size());
                                   ProxyOperation operation{
                                       send.data(), receive.data(), 100000, ncclFloat32, 2, 65536};
                                   for (int step = 0; step < 5; ++step) {
                                     if (node.run({operation}) != ncclSuccess) return "an error";
                                   }
                                   return "ok";
                                 });
  for (const auto& report : reports) EXPECT_EQ(report.text, "ok");
  const auto lines = json_lines(folder.read("live"));
  const auto statistics = json_lines(folder.read("stats"));
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_EQ(statistics.size(), 2u);
  EXPECT_EQ(lines[0]["comm"], lines[1]["comm"]);
  for (const json& line : lines) {
    const json& counted = statistics[statistics[0]["rank"] == line["rank"] ? 0 : 1];
    const json& total = line["total"];
    for (const char* const key : {"calls", "compressed_calls", "raw_bytes", "wire_bytes"}) {
      EXPECT_EQ(total[key], counted[key]) << key;
    }
    EXPECT_GT(total["compressed_calls"], 0);
    EXPECT_EQ(total, line["interval"]) << "there was one interval";
    EXPECT_EQ(line["exact_calls"], counted["exact_calls"]);
    EXPECT_EQ(line["door"], "plugin");
    EXPECT_EQ(line["ranks"], 2);
    EXPECT_EQ(line["hosts"], 2);
    double calls = 0;
    for (const auto& [codec, of_codec] : total["by_codec"].items()) {
      calls += of_codec["calls"].get<double>();
    }
    EXPECT_EQ(calls, total["calls"].get<double>());
    EXPECT_GT(total["phase_seconds"]["encode"].get<double>(), 0);
    const std::string process = std::to_string(line["pid"].get<int>());
    const std::string timeline = folder.read("timeline-" + process);
    EXPECT_NE(timeline.find("\"encode\""), std::string::npos);
    static_cast<void>(trace_events(timeline));
  }
}

}  // namespace
}  // namespace ringpress::testing
