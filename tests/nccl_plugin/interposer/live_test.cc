// What door A says while it runs: RINGPRESS_LIVE, and the line of RINGPRESS_STATS beside it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/interposer_job.h"
#include "tests/support/live_files.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using nlohmann::json;
using ringpress::testing::json_lines;
using ringpress::testing::LiveFolder;

constexpr std::size_t kLiveValues = 5000;

/// Each rank all-reduces values three times, and integers once.
void reduce_often(Job& job) {
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, kLiveValues);
    for (int step = 0; step < 3; ++step) {
      ASSERT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    }
    ASSERT_EQ(job.engine.reduce({CollectiveKind::kAllReduce, values.data(), values.data(),
                                 kLiveValues, ncclInt32, ncclSum, comm, nullptr}),
              ncclSuccess);
  });
}

TEST(InterposerLive, LinesAgreeWithTheStatistics) {
  LiveFolder folder;
  {
    Job job(make_settings({{"RINGPRESS_CODEC", "q4"},
                           {"RINGPRESS_LIVE", folder.path("live")},
                           {"RINGPRESS_STATS", folder.path("stats")}}));
    reduce_often(job);
  }
  const auto lines = json_lines(folder.read("live"));
  const auto statistics = json_lines(folder.read("stats"));
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_EQ(statistics.size(), 2u);
  EXPECT_NE(lines[0]["rank"], lines[1]["rank"]);
  EXPECT_EQ(lines[0]["comm"], lines[1]["comm"]);
  for (const json& line : lines) {
    const json& counted = statistics[statistics[0]["rank"] == line["rank"] ? 0 : 1];
    const json& total = line["total"];
    for (const char* const key : {"calls", "compressed_calls", "raw_bytes", "wire_bytes"}) {
      EXPECT_EQ(total[key], counted[key]) << key;
    }
    EXPECT_EQ(total["calls"], 4);
    EXPECT_EQ(total["compressed_calls"], 3);
    EXPECT_EQ(total, line["interval"]) << "there was one interval";
    EXPECT_EQ(line["exact_calls"], counted["exact_calls"]);
    EXPECT_EQ(line["last_codec"], counted["last_codec"]);
    ASSERT_EQ(total["by_codec"].size(), 1u);
    const json& codec = *total["by_codec"].begin();
    EXPECT_EQ(codec["calls"], 3);
    EXPECT_EQ(codec["raw_bytes"], total["raw_bytes"]);
    EXPECT_EQ(codec["wire_bytes"], total["wire_bytes"]);
    EXPECT_EQ(line["door"], "preload");
    EXPECT_EQ(line["final"], true);
    EXPECT_FALSE(total.contains("phase_seconds")) << "calls run on a device";
    EXPECT_FALSE(line.contains("residual_norm"));
  }
}

TEST(InterposerLive, WhatCannotBeWrittenIsNoErrorOfACall) {
  for (const char* const path : {"/dev/full", "/no/such/folder/live"}) {
    Job job(make_settings({{"RINGPRESS_CODEC", "q4"},
                           {"RINGPRESS_LIVE", path},
                           {"RINGPRESS_LIVE_SECONDS", "0.001"}}));
    reduce_often(job);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
