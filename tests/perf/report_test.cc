#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/json_report.h"
#include "perf/all_reduce/results.h"
#include "perf/all_reduce/table.h"

namespace ringpress::perf {
namespace {

ResultRow example_row() {
  ResultRow row;
  row.bytes = 1048576;
  row.count = 262144;
  row.type = "float";
  row.operation = "sum";
  row.setting = "q4";
  PlacementResult placement;
  placement.time_us = 1000;
  placement.iterations = summarize({900, 1000, 1100});
  placement.wrong_elements = 0;
  set_bandwidths(placement, row.bytes, 4);
  row.out_of_place = placement;
  row.compression = CompressionResult{"q4:block=128", "sra", "", 1572864, 202000, 0, {}};
  row.relative_error = 0.125;
  row.magnitudes = Magnitudes{0.5, 3, 4};
  row.identical = true;
  return row;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(Results, SummarizesIterations) {
  const IterationStatistics statistics = summarize({5, 1, 2, 4});
  EXPECT_EQ(statistics.minimum, 1);
  EXPECT_EQ(statistics.maximum, 5);
  EXPECT_EQ(statistics.mean, 3);
  EXPECT_EQ(statistics.median, 3);
  EXPECT_EQ(statistics.percentile99, 5);
  EXPECT_EQ(statistics.samples, (std::vector<double>{5, 1, 2, 4}));
  EXPECT_EQ(summarize({7}).median, 7);
  EXPECT_THROW(summarize({}), terminal::Error);
}

TEST(Results, CombinesTheSamplesOfAllRanks) {
  const std::vector<double> all = {1, 2, 5, 4, 3, 12};  // Three ranks, two samples each.
  EXPECT_EQ(combine_ranks(all, 2, Average::kRankZero), (std::vector<double>{1, 2}));
  EXPECT_EQ(combine_ranks(all, 2, Average::kMean), (std::vector<double>{3, 6}));
  EXPECT_EQ(combine_ranks(all, 2, Average::kMinimum), (std::vector<double>{1, 2}));
  EXPECT_EQ(combine_ranks(all, 2, Average::kMaximum), (std::vector<double>{5, 12}));
}

TEST(Results, BandwidthsCountUncompressedBytes) {
  const ResultRow row = example_row();
  EXPECT_NEAR(row.out_of_place->algorithm_bandwidth, 1.048576, 1e-9);
  EXPECT_NEAR(row.out_of_place->bus_bandwidth, 1.048576 * 1.5, 1e-9);
  EXPECT_NEAR(average_bus_bandwidth({row, row}), 1.048576 * 1.5, 1e-9);
  EXPECT_EQ(average_bus_bandwidth({}), 0);
}

TEST(Table, NumbersFitTheirColumn) {
  EXPECT_EQ(fit_number(1.234, 7), "1.23");
  EXPECT_EQ(fit_number(12345.67, 7), "12345.7");
  EXPECT_EQ(fit_number(1234567.8, 7), "1234568");
  EXPECT_EQ(fit_number(12345678.0, 7), "1.2e+07");
  EXPECT_EQ(fit_number(0, 6), "0.00");
}

TEST(Table, RowsBeginWithTheColumnsOfNcclTests) {
  const std::vector<std::string> words = words_of(format_row(example_row()));
  ASSERT_EQ(words.size(), 17U);
  EXPECT_EQ(words[0], "1048576");
  EXPECT_EQ(words[2], "float");
  EXPECT_EQ(words[4], "-1");
  EXPECT_EQ(words[5], "1000.00");
  EXPECT_EQ(words[8], "0");
  EXPECT_EQ(words[9], "N/A");  // In place was not measured.
  EXPECT_EQ(words[13], "7.786");
  EXPECT_EQ(words[14], "1.25e-01");
  EXPECT_EQ(words[15], "yes");
  EXPECT_EQ(words[16], "q4:block=128");
}

TEST(Table, NamesTheOtherCodecsOfTimedCalls) {
  ResultRow row = example_row();
  row.compression->codecs = {{"q4:block=128", 12}};
  EXPECT_EQ(format_row(row).find("also"), std::string::npos);
  row.compression->codecs = {{"none", 3}, {"q4:block=128", 12}, {"q8", 5}};
  EXPECT_NE(format_row(row).find("q4:block=128 (also none, q8)"), std::string::npos);
}

TEST(Table, HeaderAndSummaryAreComments) {
  Options options;
  options.settings = {{"default", "", ""}};
  const std::string text = format_preamble(options, 22809, {{0, 17, "host", 0, "host", "CPU"}}) +
                           format_summary({example_row()}, {}, true);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) EXPECT_EQ(line[0], '#') << line;
  EXPECT_NE(text.find("# Out of bounds values : 0 OK"), std::string::npos);
  EXPECT_NE(text.find("# Avg bus bandwidth    : 1.57286"), std::string::npos);
}

TEST(Table, OnlyWrongElementsAreOutOfBounds) {
  ResultRow row = example_row();
  row.failures = {Failure::kOtherCodec};
  FailedRows failed;
  failed.add(row);
  const std::string text = format_summary({row}, failed, true);
  EXPECT_NE(text.find("# Out of bounds values : 0 OK\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# Failed rows          : 1 FAILED (1 by another codec"), std::string::npos)
      << text;
}

TEST(Json, HoldsTheKeysOfNcclTestsAndOurs) {
  Options options;
  options.settings = {{"q4", "q4", ""}};
  RunDescription run;
  run.library_version = 22809;
  run.ranks = {{0, 17, "host", 0, "host", "CPU"}};
  const auto json = nlohmann::json::parse(format_json(options, run, {example_row()}));
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["config"]["devices"][0]["hostname"], "host");
  const auto& result = json["results"][0];
  EXPECT_EQ(result["out_of_place"]["nwrong"], 0);
  EXPECT_TRUE(result["in_place"].is_null());
  EXPECT_EQ(result["out_of_place_per_iter"]["p50_us"], 1000);
  EXPECT_EQ(result["ringpress"]["codec"], "q4:block=128");
  EXPECT_EQ(result["ringpress"]["algorithm"], "sra");
  EXPECT_EQ(result["ringpress"]["identical"], true);
  EXPECT_EQ(result["ringpress"]["maxerr"], 0.5);
  EXPECT_EQ(result["ringpress"]["largest_inputs"], 4);
  EXPECT_NEAR(result["ringpress"]["ratio"].get<double>(), 7.786, 1e-3);
  EXPECT_EQ(json["out_of_bounds"]["okay"], true);
  ResultRow wrong = example_row(), other = example_row();
  wrong.failures = {Failure::kWrongElements, Failure::kRanksDiffer};
  other.failures = {Failure::kOtherCodec};
  for (const ResultRow& row : {wrong, wrong, other}) run.failed.add(row);
  const auto failed = nlohmann::json::parse(format_json(options, run, {example_row()}));
  EXPECT_EQ(failed["out_of_bounds"]["count"], 2);
  EXPECT_EQ(failed["out_of_bounds"]["okay"], false);
  EXPECT_EQ(failed["failed_rows"]["count"], 3);
  EXPECT_EQ(failed["failed_rows"]["other_codec"], 1);
}

TEST(Json, NeverHoldsTheSecret) {
  setenv("RINGPRESS_SECRET", "hush-hush", 1);
  Options options;
  options.settings = {{"q4", "q4", ""}};
  EXPECT_EQ(format_json(options, {}, {}).find("hush-hush"), std::string::npos);
  unsetenv("RINGPRESS_SECRET");
}

}  // namespace
}  // namespace ringpress::perf
