#include "nccl_plugin/command/report/summary_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/reasons.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kTextWidth = 96;
constexpr std::size_t kMostReasonLines = 8;

/// A terminal acts on control characters.
std::string plain(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    safe += byte < ' ' || byte == 0x7f ? ' ' : c;
  }
  return safe;
}

/// Broken at spaces; lines after the first begin with `indent` spaces.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string lines;
  std::string rest = plain(text);
  std::size_t width = kTextWidth;
  while (rest.size() > width) {
    std::size_t space = rest.rfind(' ', width);
    if (space == std::string::npos || space == 0) break;
    lines += rest.substr(0, space) + "\n" + std::string(indent, ' ');
    rest.erase(0, space + 1);
    width = kTextWidth - indent;
  }
  return lines + rest + "\n";
}

std::string reasons_text(const Summary& summary) {
  if (summary.reasons.empty()) return "";
  std::string text = "\nNot compressed:\n";
  for (std::size_t i = 0; i < std::min(kMostReasonLines, summary.reasons.size()); ++i) {
    const ReasonSum& sum = summary.reasons[i];
    text += wrapped(fmt::format("  {:>9} calls: {}", sum.calls, sum.reason), 19);
  }
  if (summary.reasons.size() > kMostReasonLines) {
    text += fmt::format("  and {} more reasons\n", summary.reasons.size() - kMostReasonLines);
  }
  return text;
}

std::string phases_text(const Summary& summary) {
  if (!summary.total.has_phases) return "";
  double all = 0;
  for (const double seconds : summary.total.phase_seconds) all += seconds;
  std::string text = "\nTime in calls, all ranks: " + seconds_text(all) + " (";
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", kPhases[i],
                        percent_text(summary.total.phase_seconds[i], all));
  }
  return text + ")\n";
}

std::string files_text(const JobData& data) {
  std::string text;
  for (const FileNote& file : data.files) {
    for (const std::string& problem : file.problems) {
      text += wrapped("  " + file.path + ": " + problem, 4);
    }
    if (file.bad_lines > file.problems.size()) {
      text += plain(fmt::format("  {}: and {} more", file.path,
                                file.bad_lines - file.problems.size())) +
              "\n";
    }
  }
  return text.empty() ? "" : "\nNot read:\n" + text;
}

OrderedJson totals_json(const CallTotals& total) {
  OrderedJson json = {{"calls", total.calls},
                      {"compressed_calls", total.compressed_calls},
                      {"raw_bytes", total.raw_bytes},
                      {"wire_bytes", total.wire_bytes}};
  json["by_codec"] = OrderedJson::object();
  for (const auto& [codec, totals] : total.by_codec) {
    json["by_codec"][codec] = {{"calls", totals.calls},
                               {"raw_bytes", totals.raw_bytes},
                               {"wire_bytes", totals.wire_bytes}};
  }
  if (!total.has_phases) return json;
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    json["phase_seconds"][kPhases[i]] = total.phase_seconds[i];
  }
  return json;
}

OrderedJson processes_json(const Summary& summary) {
  OrderedJson list = OrderedJson::array();
  for (const ProcessSum& process : summary.processes) {
    OrderedJson json = {{"host", process.host},
                        {"pid", process.pid},
                        {"rank", process.rank},
                        {"ranks", process.ranks},
                        {"ended", process.has_ended}};
    json["call_seconds"] =
        process.call_seconds ? OrderedJson(*process.call_seconds) : OrderedJson();
    json.update(totals_json(process.total));
    list.push_back(std::move(json));
  }
  return list;
}

OrderedJson errors_json(const Summary& summary) {
  OrderedJson list = OrderedJson::array();
  for (const SizeError& error : summary.errors) {
    list.push_back({{"count", error.count},
                    {"type", error.type},
                    {"looks", error.looks},
                    {"mean", error.mean},
                    {"worst", error.worst},
                    {"last", error.last},
                    {"more_bits", error.more_bits}});
  }
  return list;
}

OrderedJson files_json(const JobData& data) {
  OrderedJson list = OrderedJson::array();
  for (const FileNote& file : data.files) {
    list.push_back({{"path", file.path},
                    {"statistics_lines", file.statistics_lines},
                    {"live_lines", file.live_lines},
                    {"rows", file.rows},
                    {"bad_lines", file.bad_lines},
                    {"problems", file.problems}});
  }
  return list;
}

}  // namespace

std::string summary_text(const JobData& data, const Summary& summary,
                         const std::string& page_file) {
  std::string text = wrapped(summary.headline, 0);
  for (const std::string& warning : summary.warnings) text += "\n" + wrapped("! " + warning, 2);
  if (!summary.suggestions.empty()) text += "\nWhat to change:\n";
  for (const Suggestion& suggestion : summary.suggestions) {
    text += wrapped("- " + suggestion.setting + ": " + suggestion.text, 2);
  }
  text += reasons_text(summary) + phases_text(summary) + files_text(data);
  if (!page_file.empty()) text += "\nPage: " + plain(page_file) + "\n";
  return text;
}

std::string summary_json(const JobData& data, const Summary& summary,
                         const std::string& page_file) {
  OrderedJson json = {{"ringpress", "report"},
                      {"version", 1},
                      {"headline", summary.headline},
                      {"ranks", summary.ranks},
                      {"seen_ranks", summary.seen_ranks},
                      {"hosts", summary.hosts},
                      {"warnings", summary.warnings}};
  json["suggestions"] = OrderedJson::array();
  for (const Suggestion& suggestion : summary.suggestions) {
    json["suggestions"].push_back({{"setting", suggestion.setting}, {"text", suggestion.text}});
  }
  json["total"] = totals_json(summary.total);
  json["lossy_codecs"] = summary.lossy_codecs;
  json["exact_calls"] = OrderedJson::array();
  for (const ReasonSum& sum : summary.reasons) {
    const Explanation explanation = explanation_of(sum.reason);
    json["exact_calls"].push_back({{"reason", sum.reason},
                                   {"calls", sum.calls},
                                   {"meaning", explanation.meaning},
                                   {"what_to_do", explanation.what_to_do}});
  }
  json["processes"] = processes_json(summary);
  json["errors"] = errors_json(summary);
  json["tuning_lines"] = data.tuning.size() + data.tuning_left_out;
  json["steps"] = data.steps.size();
  json["files"] = files_json(data);
  json["page"] = page_file;
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ringpress::nccl_plugin::command::report
