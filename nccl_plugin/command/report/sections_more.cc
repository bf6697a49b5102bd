// Errors, the tuner's history, steps, and which files were read.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "nccl_plugin/command/report/charts.h"
#include "nccl_plugin/command/report/html.h"
#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/sections.h"
#include "nccl_plugin/session/settings/budget_error.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr std::size_t kMostSizeRows = 100;
constexpr std::size_t kMostEventRows = 200;
constexpr std::size_t kMostTensorRows = 100;
constexpr std::size_t kMostStepsShown = 4;
constexpr std::size_t kMostFileRows = 200;
constexpr std::size_t kMostRankRows = 128;

std::string error_table(const Summary& summary) {
  HtmlTable table("Relative errors of sums, by size",
                  {"values of a call", "type", "looks", "mean", "worst", "last", "more bits"});
  for (const SizeError& error : summary.errors) {
    if (table.rows() == kMostSizeRows) break;
    table.add_row({std::to_string(error.count), html_text(error.type), std::to_string(error.looks),
                   number_text(error.mean), number_text(error.worst), number_text(error.last),
                   std::to_string(error.more_bits)});
  }
  return table.html();
}

/// Of the sizes that were looked at most.
Chart errors_over_time(const JobData& data) {
  std::vector<std::pair<std::size_t, SizeName>> sizes;
  double begin = 1e300;
  for (const auto& [name, spans] : data.errors_over_time) {
    if (spans.empty()) continue;
    sizes.emplace_back(spans.spans().size(), name);
    begin = std::min(begin, spans.begin());
  }
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Chart chart;
  chart.title = "Relative error of sums over time";
  chart.x_name = "seconds since the first line";
  chart.y_name = "error (of ranks' last looks)";
  for (const auto& [count, name] : sizes) {
    const TimeBuckets<ErrorSpan>& spans = data.errors_over_time.at(name);
    ChartLine line;
    line.name = fmt::format("{} values, {}", name.second, name.first);
    for (const auto& [place, span] : spans.spans()) {
      line.points.emplace_back(spans.span_seconds() * static_cast<double>(place) - begin,
                               span.mean());
    }
    chart.lines.push_back(std::move(line));
    if (chart.lines.size() == kMostLines) break;
  }
  return chart;
}

std::string usual_text(const Summary& summary) {
  std::string text;
  for (const std::string& codec : summary.lossy_codecs) {
    const double usual = nccl_plugin::usual_error(codec);
    if (usual > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", codec, number_text(usual));
  }
  return text.empty() ? "" : " Usual on gradients: " + text + ".";
}

std::string event_text(const std::string& event) {
  if (event == "tried") return "tried";
  if (event == "settled") return "chosen";
  if (event == "drifted") return "times changed: tried again";
  return event;
}

std::string size_text(const TuningEvent& event) {
  return fmt::format("{}, {}, {} to {}", event.collective, event.type,
                     bytes_text(static_cast<double>(event.min_bytes)),
                     bytes_text(static_cast<double>(event.max_bytes)));
}

/// The last choice of each class of calls, beside what no codec took.
std::string choices_table(const JobData& data) {
  struct Class {
    const TuningEvent* chosen = nullptr;
    double none_us = 0;
    std::size_t tried = 0;
  };
  std::vector<std::pair<std::string, Class>> classes;
  std::map<std::string, std::size_t> places;
  for (const TuningEvent& event : data.tuning) {
    const std::string name = size_text(event);
    const auto [place, is_new] = places.emplace(name, classes.size());
    if (is_new) classes.emplace_back(name, Class());
    Class& of = classes[place->second].second;
    if (event.event == "settled") of.chosen = &event;
    if (event.event != "tried") continue;
    ++of.tried;
    if (event.codec == "none" && (of.none_us == 0 || event.typical_us < of.none_us)) {
      of.none_us = event.typical_us;
    }
  }
  HtmlTable table("Choices", {"calls", "chosen", "took", "predicted", "no codec took", "trials"});
  for (const auto& [name, of] : classes) {
    if (table.rows() == kMostSizeRows) break;
    const TuningEvent* const chosen = of.chosen;
    table.add_row(
        {html_text(name),
         chosen == nullptr ? "not yet" : html_text(chosen->codec + " by " + chosen->algorithm),
         chosen == nullptr ? "" : seconds_text(1e-6 * chosen->typical_us),
         chosen == nullptr ? "" : seconds_text(1e-6 * chosen->predicted_us),
         of.none_us > 0 ? seconds_text(1e-6 * of.none_us) : "not tried", std::to_string(of.tried)});
  }
  return table.html();
}

std::string events_table(const JobData& data) {
  HtmlTable table("What was tried, in order",
                  {"calls", "what", "codec", "algorithm", "chunk", "took", "predicted"});
  const std::size_t first =
      data.tuning.size() > kMostEventRows ? data.tuning.size() - kMostEventRows : 0;
  for (std::size_t i = first; i < data.tuning.size(); ++i) {
    const TuningEvent& event = data.tuning[i];
    table.add_row(
        {html_text(size_text(event)), html_text(event_text(event.event)), html_text(event.codec),
         html_text(event.algorithm),
         event.chunk_bytes == 0 ? "default" : bytes_text(static_cast<double>(event.chunk_bytes)),
         seconds_text(1e-6 * event.typical_us), seconds_text(1e-6 * event.predicted_us)});
  }
  return html_details(first == 0 ? "All trials and decisions"
                                 : fmt::format("The last {} of {} lines", kMostEventRows,
                                               data.tuning.size() + data.tuning_left_out),
                      table.html());
}

std::string step_html(const TracedStep& step) {
  double bytes = 0, backward_us = 0, most = 0;
  for (const TracedTensor& tensor : step.tensors) {
    bytes += static_cast<double>(tensor.bytes);
    backward_us += tensor.backward_us;
    most = std::max(most, static_cast<double>(tensor.bytes));
  }
  std::string html = "<h3>" + html_text(step.name) + "</h3>";
  html += html_paragraph(fmt::format(
      "{} calls of {} in all, by {}; forward {}, backward {}; a link of {} GB/s and {}.",
      step.tensors.size(), bytes_text(bytes),
      counted(static_cast<std::uint64_t>(step.machines), "machine"),
      seconds_text(1e-3 * step.forward_ms), seconds_text(1e-6 * backward_us),
      number_text(step.gigabytes_per_second), seconds_text(1e-6 * step.latency_us)));
  if (!step.note.empty()) html += html_paragraph(step.note + ".");
  HtmlTable table("Calls of the step, as backward makes them",
                  {"tensor", "size", "bytes", "computed before it"});
  for (const TracedTensor& tensor : step.tensors) {
    if (table.rows() == kMostTensorRows) break;
    const std::string size = bytes_text(static_cast<double>(tensor.bytes));
    table.add_row({html_text(tensor.name),
                   draw_bar({{tensor.name, static_cast<double>(tensor.bytes)}}, most, size), size,
                   seconds_text(1e-6 * tensor.backward_us)});
  }
  const bool is_cut = step.tensors.size() > kMostTensorRows;
  return html +
         html_details(is_cut ? fmt::format("The first {} calls", kMostTensorRows) : "All calls",
                      table.html());
}

const char* kind_text(FileKind kind) {
  switch (kind) {
    case FileKind::kForeign:
      return "not known";
    case FileKind::kLines:
      return "lines of ranks";
    case FileKind::kTuningLog:
      return "tuning log";
    case FileKind::kTrace:
      return "recorded step";
    case FileKind::kBenchmark:
      return "results of all_reduce_perf";
    case FileKind::kFidelity:
      return "results of trainings";
  }
  return "";
}

std::string what_was_read(const FileNote& file) {
  std::string text;
  const auto add = [&](std::uint64_t count, const std::string& thing) {
    if (count > 0) text += (text.empty() ? "" : ", ") + counted(count, thing);
  };
  add(file.statistics_lines, "line");
  if (file.statistics_lines > 0) text += " of RINGPRESS_STATS";
  add(file.live_lines, "live line");
  add(file.rows, file.kind == FileKind::kTrace ? "call" : "row");
  return text.empty() ? "nothing" : text;
}

std::string problems_html(const FileNote& file) {
  std::string html;
  for (const std::string& problem : file.problems) {
    html += (html.empty() ? "" : "<br>") + html_text(problem);
  }
  if (file.bad_lines > file.problems.size()) {
    html += fmt::format("<br>and {} more", file.bad_lines - file.problems.size());
  }
  return html;
}

std::string files_table(const JobData& data) {
  HtmlTable table("Files", {"file", "kind", "read", "not read, and why"});
  for (const FileNote& file : data.files) {
    if (table.rows() == kMostFileRows) break;
    table.add_row(
        {html_text(file.path), kind_text(file.kind), what_was_read(file), problems_html(file)});
  }
  return table.html();
}

std::string processes_table(const Summary& summary) {
  HtmlTable table("Ranks", {"rank", "of", "process", "communicators", "calls", "compressed",
                            "before", "sent", "time in calls"});
  for (const ProcessSum& process : summary.processes) {
    if (table.rows() == kMostRankRows) break;
    table.add_row({html_text(process.name()), std::to_string(process.ranks),
                   std::to_string(process.pid), std::to_string(process.communicators),
                   std::to_string(process.total.calls),
                   std::to_string(process.total.compressed_calls),
                   bytes_text(static_cast<double>(process.total.raw_bytes)),
                   bytes_text(static_cast<double>(process.total.wire_bytes)),
                   process.call_seconds ? seconds_text(*process.call_seconds) : ""});
  }
  const bool is_cut = summary.processes.size() > table.rows();
  return table.html() + (is_cut
                             ? html_paragraph(fmt::format("The first {} of {} processes.",
                                                          table.rows(), summary.processes.size()))
                             : "");
}

/// The communicators of which a call was compressed or is named.
std::string communicators_table(const JobData& data) {
  HtmlTable table("Communicators", {"communicator", "rank", "calls", "compressed", "last codec",
                                    "last algorithm", "last reason"});
  for (const RankRecord& record : data.records) {
    if (table.rows() == kMostRankRows) break;
    table.add_row({record.comm.empty() ? "without a name" : html_text(record.comm),
                   fmt::format("{} of {}", record.rank, record.ranks),
                   std::to_string(record.total.calls),
                   std::to_string(record.total.compressed_calls), html_text(record.last_codec),
                   html_text(record.last_algorithm), html_text(record.last_reason)});
  }
  return html_details(
      data.records.size() > kMostRankRows
          ? fmt::format("The first {} of {} communicators", kMostRankRows, data.records.size())
          : "All communicators",
      table.html());
}

}  // namespace

std::string errors_section(const JobData& data, const Summary& summary) {
  if (summary.errors.empty()) {
    return section("errors", "Errors",
                   html_paragraph("No error was measured: the guard looks at the 16th, 64th and "
                                  "256th compressed call of a size, on host memory and in the "
                                  "plugin (RINGPRESS_GUARD)."));
  }
  std::string inside = html_paragraph(
      "How far one call's sum was off, relative to the exact sum, by samples. Error feedback adds "
      "what a call left out to the next one." +
      usual_text(summary));
  inside += draw_chart(errors_over_time(data));
  inside += error_table(summary);
  inside += html_paragraph(
      "\"More bits\" are what the guard has given to calls of a size. The bits "
      "that RINGPRESS_ADJUST_STEPS gives to layers are in no file.");
  return section("errors", "Errors and bits", inside);
}

std::string tuning_section(const JobData& data) {
  if (data.tuning.empty()) {
    return section("tuning", "The tuner's history",
                   html_paragraph("No tuning log was given: RINGPRESS_TUNING_LOG=FILE writes one, "
                                  "where RINGPRESS_CODEC=auto chooses."));
  }
  return section("tuning", "The tuner's history", choices_table(data) + events_table(data));
}

std::string steps_section(const JobData& data) {
  if (data.steps.empty()) {
    return section("steps", "Steps",
                   html_paragraph("No recorded step was given: RINGPRESS_TRACE=FILE writes one."));
  }
  std::string inside;
  for (std::size_t i = 0; i < std::min(kMostStepsShown, data.steps.size()); ++i) {
    inside += step_html(data.steps[i]);
  }
  if (data.steps.size() > kMostStepsShown) {
    inside += html_paragraph(
        fmt::format("The first {} of {} steps.", kMostStepsShown, data.steps.size()));
  }
  inside += html_paragraph("ringpress plan FILE says which of these calls to compress.");
  return section("steps", "Steps", inside);
}

std::string files_section(const JobData& data, const Summary& summary) {
  std::string inside;
  if (!summary.processes.empty()) {
    inside += processes_table(summary) + communicators_table(data);
  }
  inside += files_table(data);
  if (data.files.size() > kMostFileRows) {
    inside +=
        html_paragraph(fmt::format("The first {} of {} files.", kMostFileRows, data.files.size()));
  }
  return section("files", "Ranks and files", inside);
}

}  // namespace ringpress::nccl_plugin::command::report
