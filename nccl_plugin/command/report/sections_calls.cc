// What to change, what was compressed, bytes and time.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "nccl_plugin/command/report/charts.h"
#include "nccl_plugin/command/report/html.h"
#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/reasons.h"
#include "nccl_plugin/command/report/sections.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr std::size_t kMostReasonRows = 60;
constexpr std::size_t kMostCodecs = 30;
constexpr std::size_t kMostBars = 32;
constexpr const char* kNoRanks =
    "No file has lines of ranks. RINGPRESS_STATS=FILE writes one for each communicator and rank.";

std::string times_smaller(std::uint64_t raw, std::uint64_t wire) {
  return wire == 0 ? "" : number_text(static_cast<double>(raw) / static_cast<double>(wire)) + " x";
}

std::string codec_table(const Summary& summary) {
  std::uint64_t most = 0;
  for (const auto& [codec, totals] : summary.total.by_codec)
    most = std::max(most, totals.raw_bytes);
  HtmlTable table("By codec", {"codec", "share of bytes", "calls", "before", "sent", "smaller"});
  for (const auto& [codec, totals] : summary.total.by_codec) {
    if (table.rows() == kMostCodecs) break;
    const std::string label = percent_text(static_cast<double>(totals.raw_bytes),
                                           static_cast<double>(summary.total.raw_bytes));
    table.add_row({html_text(is_no_codec(codec) ? "none (not compressed)" : codec),
                   draw_bar({{codec, static_cast<double>(totals.raw_bytes)}},
                            static_cast<double>(summary.total.raw_bytes), label) +
                       label,
                   std::to_string(totals.calls), bytes_text(static_cast<double>(totals.raw_bytes)),
                   bytes_text(static_cast<double>(totals.wire_bytes)),
                   times_smaller(totals.raw_bytes, totals.wire_bytes)});
  }
  return table.html();
}

std::string calls_table(const Summary& summary) {
  HtmlTable table("Calls", {"calls", "share", "number"});
  const auto all = static_cast<double>(summary.total.calls);
  const auto row = [&](const char* name, std::uint64_t calls) {
    const std::string label = percent_text(static_cast<double>(calls), all);
    table.add_row({name, draw_bar({{name, static_cast<double>(calls)}}, all, label) + label,
                   std::to_string(calls)});
  };
  row("compressed", summary.total.compressed_calls);
  row("not compressed", summary.possible_calls() -
                            std::min(summary.possible_calls(), summary.total.compressed_calls));
  row("never compressed, whatever is set", summary.total.calls - summary.possible_calls());
  if (summary.observed_calls > 0) row("would be compressed", summary.observed_calls);
  return table.html();
}

std::string reasons_table(const Summary& summary) {
  HtmlTable table("Not compressed, by reason",
                  {"reason", "calls", "share", "what that means", "what can be done"});
  for (const ReasonSum& sum : summary.reasons) {
    if (table.rows() == kMostReasonRows) break;
    const Explanation explanation = explanation_of(sum.reason);
    table.add_row(
        {html_text(sum.reason), std::to_string(sum.calls),
         percent_text(static_cast<double>(sum.calls), static_cast<double>(summary.total.calls)),
         html_text(explanation.meaning), html_text(explanation.what_to_do)});
  }
  return table.html();
}

/// Of the picture, in seconds since the first line.
Chart bytes_over_time(const JobData& data) {
  Chart chart;
  chart.title = "Bytes over time, of all ranks";
  chart.x_name = "seconds since the first line";
  chart.y_name = "MB each second";
  chart.lines = {{"before", {}}, {"sent", {}}};
  const double span = data.flow.span_seconds();
  for (const auto& [place, flow] : data.flow.spans()) {
    const double at = span * static_cast<double>(place) - data.flow.begin();
    chart.lines[0].points.emplace_back(at, 1e-6 * flow.raw_bytes / span);
    chart.lines[1].points.emplace_back(at, 1e-6 * flow.wire_bytes / span);
  }
  return chart;
}

std::vector<BarPart> phase_parts(const PhaseSeconds& seconds) {
  std::vector<BarPart> parts;
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    parts.push_back({std::string(kPhases[i]) + " " + seconds_text(seconds[i]), seconds[i]});
  }
  return parts;
}

/// All, or of many ranks those that waited least and most, by rank.
std::vector<const ProcessSum*> shown_processes(const Summary& summary) {
  std::vector<const ProcessSum*> shown;
  for (const ProcessSum& process : summary.processes) shown.push_back(&process);
  if (shown.size() <= kMostBars) return shown;
  const auto seconds = [](const ProcessSum* process) {
    return process->total.has_phases ? process->wait_seconds() : process->call_seconds.value_or(0);
  };
  std::stable_sort(shown.begin(), shown.end(), [&](const ProcessSum* a, const ProcessSum* b) {
    return seconds(a) < seconds(b);
  });
  shown.erase(shown.begin() + kMostBars / 2, shown.end() - kMostBars / 2);
  std::stable_sort(shown.begin(), shown.end(),
                   [](const ProcessSum* a, const ProcessSum* b) { return a->rank < b->rank; });
  return shown;
}

std::string phases_table(const std::vector<const ProcessSum*>& processes) {
  double longest = 0;
  for (const ProcessSum* process : processes) longest = std::max(longest, process->phase_seconds());
  std::vector<std::string> heads = {"rank", "time in calls, by phase", "all"};
  heads.insert(heads.end(), kPhases.begin(), kPhases.end());
  HtmlTable table("Time in calls by phase and rank", heads);
  for (const ProcessSum* process : processes) {
    const double all = process->phase_seconds();
    std::string label = seconds_text(all) + " in all";
    std::vector<std::string> cells = {html_text(process->name()), "", seconds_text(all)};
    for (std::size_t i = 0; i < kPhases.size(); ++i) {
      cells.push_back(seconds_text(process->total.phase_seconds[i]));
      label +=
          fmt::format(", {} {}", kPhases[i], percent_text(process->total.phase_seconds[i], all));
    }
    cells[1] = draw_bar(phase_parts(process->total.phase_seconds), longest, label);
    table.add_row(cells);
  }
  return draw_bar_legend({kPhases.begin(), kPhases.end()}) + table.html();
}

std::string call_times_table(const std::vector<const ProcessSum*>& processes) {
  double longest = 0;
  for (const ProcessSum* process : processes) {
    longest = std::max(longest, process->call_seconds.value_or(0));
  }
  HtmlTable table("Time in collective calls by rank",
                  {"rank", "time in calls", "seconds", "calls"});
  for (const ProcessSum* process : processes) {
    const double seconds = process->call_seconds.value_or(0);
    table.add_row({html_text(process->name()),
                   draw_bar({{process->name(), seconds}}, longest, seconds_text(seconds)),
                   seconds_text(seconds), std::to_string(process->total.calls)});
  }
  return table.html();
}

Chart waiting_over_time(const JobData& data) {
  Chart chart;
  chart.title = "Time in calls over time, of all ranks";
  chart.x_name = "seconds since the first line";
  chart.y_name = "seconds in calls each second";
  const double span = data.flow.span_seconds();
  for (const char* const phase : kPhases) chart.lines.push_back({phase, {}});
  for (const auto& [place, flow] : data.flow.spans()) {
    const double at = span * static_cast<double>(place) - data.flow.begin();
    for (std::size_t i = 0; i < kPhases.size(); ++i) {
      chart.lines[i].points.emplace_back(at, flow.phase_seconds[i] / span);
    }
  }
  return chart;
}

}  // namespace

std::string section(const char* id, const char* title, const std::string& inside) {
  return fmt::format(
      "<section id=\"{}\" aria-labelledby=\"{}-title\"><h2 id=\"{}-title\">{}</h2>\n"
      "{}</section>\n",
      id, id, id, title, inside);
}

std::string changes_section(const Summary& summary) {
  std::string inside;
  for (const std::string& warning : summary.warnings) {
    inside += "<div class=\"note\">" + html_paragraph(warning) + "</div>\n";
  }
  for (const Suggestion& suggestion : summary.suggestions) {
    inside += "<div class=\"advice\"><h3>" + html_text(suggestion.setting) + "</h3>" +
              html_paragraph(suggestion.text) + "</div>\n";
  }
  if (summary.suggestions.empty()) {
    inside +=
        html_paragraph(summary.ranks == 0 ? kNoRanks : "Nothing was found that should be changed.");
  }
  return section("change", "What to change", inside);
}

std::string compressed_section(const Summary& summary) {
  if (summary.total.calls == 0)
    return section("compressed", "What was compressed", html_paragraph(kNoRanks));
  std::string inside = calls_table(summary);
  if (!summary.total.by_codec.empty()) inside += codec_table(summary);
  if (!summary.reasons.empty()) inside += reasons_table(summary);
  return section("compressed", "What was compressed", inside);
}

std::string bytes_section(const JobData& data, const Summary& summary) {
  const CallTotals& total = summary.total;
  if (total.calls == 0) return section("bytes", "Bytes before and after", html_paragraph(kNoRanks));
  const auto raw = static_cast<double>(total.raw_bytes);
  const auto wire = static_cast<double>(total.wire_bytes);
  const double whole = std::max(raw, wire);
  HtmlTable table("Bytes that ranks sent", {"bytes", "size", "number"});
  table.add_row({"without a codec", draw_bar({{"", raw}}, whole, bytes_text(raw)),
                 fmt::format("{} ({})", bytes_text(raw), total.raw_bytes)});
  table.add_row({"sent, headers included", draw_bar({{"", wire}}, whole, bytes_text(wire)),
                 fmt::format("{} ({})", bytes_text(wire), total.wire_bytes)});
  std::string inside = table.html();
  if (wire > raw && raw > 0) {
    inside += html_paragraph(
        "More was sent than the values have bytes: headers, and measurements "
        "of the links, of calls that are small.");
  }
  const double residuals = [&] {
    double sum = 0;
    for (const ProcessSum& process : summary.processes) {
      sum = std::max(sum, static_cast<double>(process.residual_bytes));
    }
    return sum;
  }();
  if (residuals > 0) {
    inside += html_paragraph("Error feedback keeps " + bytes_text(residuals) +
                             " of memory on the rank that has most.");
  }
  inside += data.flow.spans().size() > 1
                ? draw_chart(bytes_over_time(data))
                : html_paragraph("How this changed over time is in live lines only.");
  return section("bytes", "Bytes before and after", inside);
}

std::string time_section(const JobData& data, const Summary& summary) {
  const std::vector<const ProcessSum*> processes = shown_processes(summary);
  if (processes.empty()) return section("time", "Where the time went", html_paragraph(kNoRanks));
  std::string inside;
  if (processes.size() < summary.processes.size()) {
    inside +=
        html_paragraph(fmt::format("Shown are {} of {} ranks: those that waited least and "
                                   "those that waited most.",
                                   processes.size(), summary.processes.size()));
  }
  if (summary.total.has_phases) {
    inside += phases_table(processes);
    if (data.flow.spans().size() > 1) inside += draw_chart(waiting_over_time(data));
  } else if (summary.call_seconds) {
    inside += html_paragraph(
        "A rank that comes late is in calls for the shortest time, as the "
        "others wait there for it. Phases are in live lines only.");
    inside += call_times_table(processes);
  } else {
    inside += html_paragraph("The lines do not say how long calls took.");
  }
  return section("time", "Where the time went", inside);
}

}  // namespace ringpress::nccl_plugin::command::report
