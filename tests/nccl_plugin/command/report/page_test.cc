// What pages are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "nccl_plugin/command/report/charts.h"
#include "nccl_plugin/command/report/html.h"
#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/time_buckets.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

struct Sum {
  int values = 0;
  void add(const Sum& other) { values += other.values; }
};

TEST(Html, TextIsNeverATag) {
  EXPECT_EQ(html_text("<a href='x' title=\"y\">&"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;");
  EXPECT_EQ(html_text(std::string("a\0b\x1b", 4)), "a b ");
}

TEST(Html, TextIsAlwaysUtf8) {
  EXPECT_EQ(html_text("gr\xc3\xb6\xc3\x9f"), "gr\xc3\xb6\xc3\x9f");
  const std::string unknown = "\xef\xbf\xbd";
  for (const char* const bad : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_EQ(html_text(bad).substr(0, 3), unknown) << bad;
  }
}

TEST(Html, LongTextsAreCutBetweenCharacters) {
  std::string text(199, 'x');
  text += "\xc3\xb6";
  EXPECT_EQ(html_text(text), std::string(199, 'x') + "...");
}

TEST(Html, ParagraphsAreNotCut) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "word" + std::to_string(i) + " ";
  EXPECT_EQ(html_paragraph(text), "<p>" + text + "</p>\n");
}

TEST(TimeBuckets, AnyTimesFitIntoAFewSpans) {
  TimeBuckets<Sum> buckets;
  int added = 0;
  for (int i = 0; i < 100000; ++i, ++added) buckets.add(1e9 + 0.7 * ((i * 7919) % 100000), {1});
  buckets.add(0, {1});
  EXPECT_LE(buckets.spans().size(), static_cast<std::size_t>(TimeBuckets<Sum>::kMostSpans));
  int found = 0;
  for (const auto& [place, sum] : buckets.spans()) found += sum.values;
  EXPECT_EQ(found, added + 1);
  EXPECT_LE(buckets.begin(), 0);
}

TEST(TimeBuckets, TimesThatAreNoneAreLeftOut) {
  TimeBuckets<Sum> buckets;
  for (const double time : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300}) buckets.add(time, {1});
  EXPECT_TRUE(buckets.empty());
}

TEST(Charts, LinesThatCoincideDiffer) {
  Chart chart;
  chart.title = "Title";
  chart.x_name = "x";
  chart.y_name = "y";
  chart.lines = {{"one", {{1, 1}, {2, 2}}}, {"two", {{1, 1}, {2, 2}}}};
  const std::string drawn = draw_chart(chart);
  for (const char* const part : {"class=\"line s0\"", "class=\"line s1\"", "> one</li>",
                                 "> two</li>", "aria-label=\"Title: y over x\"", "<details>"}) {
    EXPECT_NE(drawn.find(part), std::string::npos) << part;
  }
}

TEST(Charts, NothingIsDrawnOfNothing) {
  Chart chart;
  chart.lines = {{"one", {}}};
  EXPECT_EQ(draw_chart(chart), "");
  chart.lines = {{"one", {{1, std::nan("")}}}};
  EXPECT_EQ(draw_chart(chart), "");
  chart.has_logarithmic_y = true;
  chart.lines = {{"one", {{1, 0}}}};
  EXPECT_EQ(draw_chart(chart), "");
}

TEST(Charts, EqualValuesAndASinglePointAreDrawn) {
  for (const bool is_logarithmic : {false, true}) {
    Chart chart;
    chart.has_logarithmic_x = chart.has_logarithmic_y = is_logarithmic;
    chart.lines = {{"one", {{5, 3}}}, {"two", {{5, 3}}}};
    const std::string drawn = draw_chart(chart);
    EXPECT_NE(drawn.find("<circle"), std::string::npos);
    EXPECT_EQ(drawn.find("nan"), std::string::npos);
    EXPECT_EQ(drawn.find("inf"), std::string::npos);
  }
}

TEST(Numbers, AreAsPeopleReadThem) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(999.9e3), "1 MB");
  EXPECT_EQ(bytes_text(84e6), "84 MB");
  EXPECT_EQ(seconds_text(0.0005), "500 us");
  EXPECT_EQ(seconds_text(90), "90 s");
  EXPECT_EQ(seconds_text(7200), "2 h");
  EXPECT_EQ(percent_text(999, 1000), "more than 99 %");
  EXPECT_EQ(percent_text(1, 1000), "less than 1 %");
  EXPECT_EQ(percent_text(1, 0), "0 %");
  EXPECT_EQ(counted(1, "call"), "1 call");
  EXPECT_EQ(short_codec("q4:block=64"), "q4");
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command::report
