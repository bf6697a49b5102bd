// Pictures of what was measured apart from the job: all_reduce_perf and trainings.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "nccl_plugin/command/report/charts.h"
#include "nccl_plugin/command/report/html.h"
#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/sections.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr std::size_t kMostMeasuredRows = 200;

/// Of one file, type and number of ranks.
using Run = std::vector<const BenchmarkRow*>;

std::vector<Run> runs_of(const std::vector<BenchmarkRow>& rows) {
  std::map<std::string, std::size_t> places;
  std::vector<Run> runs;
  for (const BenchmarkRow& row : rows) {
    const auto [place, is_new] = places.emplace(row.file + "\n" + row.type, runs.size());
    if (is_new) runs.emplace_back();
    runs[place->second].push_back(&row);
  }
  return runs;
}

std::string name_of_setting(const BenchmarkRow& row) {
  return row.setting.empty() ? short_codec(row.codec) : row.setting;
}

/// In microseconds, by bytes of a call.
std::map<std::uint64_t, double> times_without_codec(const Run& run) {
  std::map<std::uint64_t, double> none;
  for (const BenchmarkRow* row : run) {
    if (is_no_codec(short_codec(row->codec))) none.emplace(row->bytes, row->time_us);
  }
  return none;
}

/// Where a run has no row without a codec there is no speed-up.
Chart speed_up(const Run& run) {
  const std::map<std::uint64_t, double> none = times_without_codec(run);
  std::map<std::string, ChartLine> lines;
  for (const BenchmarkRow* row : run) {
    const auto found = none.find(row->bytes);
    if (found == none.end() || name_of_setting(*row) == "none") continue;
    ChartLine& line = lines[name_of_setting(*row)];
    line.name = name_of_setting(*row);
    line.points.emplace_back(static_cast<double>(row->bytes), found->second / row->time_us);
  }
  Chart chart;
  chart.title = fmt::format("Speed-up against size, {} ranks", run.front()->ranks);
  chart.x_name = "bytes of a call";
  chart.y_name = "times as fast as without a codec";
  chart.has_logarithmic_x = true;
  for (auto& [name, line] : lines) {
    std::sort(line.points.begin(), line.points.end());
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

Chart error_against_bits(const Run& run) {
  std::map<std::string, ChartLine> lines;
  for (const BenchmarkRow* row : run) {
    if (!row->error || row->ratio <= 0 || is_no_codec(short_codec(row->codec))) continue;
    const double bits = row->type == "float" ? 32 : row->type == "double" ? 64 : 16;
    ChartLine& line = lines[name_of_setting(*row)];
    line.name = name_of_setting(*row);
    line.points.emplace_back(bits / row->ratio, *row->error);
  }
  Chart chart;
  chart.title = "Error against bits";
  chart.x_name = "bits that are sent for a value";
  chart.y_name = "relative error of a call";
  chart.has_logarithmic_y = true;
  chart.has_points_alone = true;
  for (auto& [name, line] : lines) {
    std::sort(line.points.begin(), line.points.end());
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

std::string optional_number(const std::optional<double>& value) {
  return value ? number_text(*value) : "";
}

std::string agreement_text(const std::optional<bool>& is_identical) {
  return !is_identical ? "" : *is_identical ? "yes" : "NO";
}

std::string name_of_mean(const Run& run) {
  const int calls = run.front()->mean_of;
  return calls > 0 ? fmt::format("error of the mean of {} calls", calls) : "error of the mean";
}

std::string run_table(const Run& run) {
  const std::map<std::uint64_t, double> none = times_without_codec(run);
  HtmlTable table("What all_reduce_perf measured",
                  {"bytes", "setting", "codec", "time", "times as fast", "smaller",
                   "error of a call", name_of_mean(run), "ranks agree"});
  for (const BenchmarkRow* row : run) {
    if (table.rows() == kMostMeasuredRows) break;
    const auto found = none.find(row->bytes);
    table.add_row({std::to_string(row->bytes), html_text(name_of_setting(*row)),
                   html_text(row->codec), seconds_text(1e-6 * row->time_us),
                   found == none.end() ? "" : number_text(found->second / row->time_us),
                   number_text(row->ratio), optional_number(row->error),
                   optional_number(row->mean_error), agreement_text(row->is_identical)});
  }
  return table.html();
}

Chart loss_against_bytes(const std::vector<FidelityRow>& rows) {
  std::map<std::string, ChartLine> lines;
  for (const FidelityRow& row : rows) {
    if (row.times_fewer_bytes <= 0) continue;
    ChartLine& line = lines[row.task];
    line.name = row.task;
    line.points.emplace_back(row.times_fewer_bytes, row.loss_percent);
  }
  Chart chart;
  chart.title = "Loss against bytes";
  chart.x_name = "times fewer bytes";
  chart.y_name = "loss above exact training, %";
  chart.has_points_alone = true;
  for (auto& [name, line] : lines) {
    std::sort(line.points.begin(), line.points.end());
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

}  // namespace

std::string benchmarks_section(const JobData& data) {
  if (data.benchmarks.empty()) return "";
  constexpr std::size_t kMostRuns = 4;
  const std::vector<Run> runs = runs_of(data.benchmarks);
  std::string inside;
  for (std::size_t i = 0; i < std::min(kMostRuns, runs.size()); ++i) {
    inside += "<h3>" + html_text(runs[i].front()->file + ", " + runs[i].front()->type) + "</h3>\n" +
              draw_chart(speed_up(runs[i])) + draw_chart(error_against_bits(runs[i])) +
              run_table(runs[i]);
  }
  if (runs.size() > kMostRuns) {
    inside += html_paragraph(fmt::format("The first {} of {} runs.", kMostRuns, runs.size()));
  }
  return section("benchmarks", "Measured with all_reduce_perf", inside);
}

std::string fidelity_section(const JobData& data) {
  if (data.fidelity.empty()) return "";
  HtmlTable table(
      "Loss on new data, in per cent above exact training",
      {"task", "method", "workers", "steps", "loss", "standard error", "times fewer bytes"});
  for (const FidelityRow& row : data.fidelity) {
    if (table.rows() == kMostMeasuredRows) break;
    table.add_row({html_text(row.task), html_text(row.method), std::to_string(row.workers),
                   std::to_string(row.steps), number_text(row.loss_percent),
                   number_text(row.standard_error), number_text(row.times_fewer_bytes)});
  }
  return section("fidelity", "What trainings lost",
                 draw_chart(loss_against_bytes(data.fidelity)) + table.html());
}

}  // namespace ringpress::nccl_plugin::command::report
