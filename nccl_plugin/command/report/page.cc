#include "nccl_plugin/command/report/page.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "nccl_plugin/command/report/html.h"
#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/page_style.h"
#include "nccl_plugin/command/report/sections.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

std::string tile(const std::string& value, const std::string& name) {
  return "<li><strong>" + html_text(value) + "</strong>" + html_text(name) + "</li>\n";
}

std::string tiles(const Summary& summary) {
  if (summary.total.calls == 0) return "";
  const CallTotals& total = summary.total;
  const auto raw = static_cast<double>(total.raw_bytes);
  const auto wire = static_cast<double>(total.wire_bytes);
  std::string html = "<ul class=\"tiles\">\n";
  html += tile(percent_text(static_cast<double>(total.compressed_calls),
                            static_cast<double>(summary.possible_calls())),
               "of calls that can be compressed were");
  if (raw > 0) html += tile(bytes_text(raw), "without a codec");
  if (wire > 0) html += tile(bytes_text(wire), "were sent");
  if (raw > 0 && wire > 0)
    html += tile(number_text(raw / wire) + " x", "fewer bytes, of all calls");
  if (!summary.errors.empty()) {
    double worst = 0;
    for (const SizeError& error : summary.errors) worst = std::max(worst, error.worst);
    html += tile(number_text(worst), "worst relative error of a sum");
  }
  return html + "</ul>\n";
}

std::string links(const std::vector<std::pair<const char*, const char*>>& places) {
  std::string html = "<nav aria-label=\"Sections\"><ul>\n";
  for (const auto& [id, name] : places) {
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", id, name);
  }
  return html + "</ul></nav>\n";
}

}  // namespace

std::string page_of(const JobData& data, const Summary& summary) {
  std::vector<std::pair<const char*, const char*>> places = {{"change", "What to change"},
                                                             {"compressed", "What was compressed"},
                                                             {"bytes", "Bytes"},
                                                             {"time", "Time"},
                                                             {"errors", "Errors"},
                                                             {"tuning", "Tuner"},
                                                             {"steps", "Steps"}};
  if (!data.benchmarks.empty()) places.emplace_back("benchmarks", "all_reduce_perf");
  if (!data.fidelity.empty()) places.emplace_back("fidelity", "Trainings");
  places.emplace_back("files", "Ranks and files");
  std::string lead = html_paragraph(summary.headline);
  lead.replace(0, 3, "<p class=\"lead\">");
  return std::string("<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n") +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
         "<title>ringpress: report of a job</title>\n<style>" + kPageStyle +
         "</style></head>\n<body>\n<header><h1>Report of a job</h1>\n" + lead + tiles(summary) +
         links(places) + "</header>\n<main>\n" + changes_section(summary) +
         compressed_section(summary) + bytes_section(data, summary) + time_section(data, summary) +
         errors_section(data, summary) + tuning_section(data) + steps_section(data) +
         benchmarks_section(data) + fidelity_section(data) + files_section(data, summary) +
         "</main>\n<footer><p>Made by ringpress report, version " + RINGPRESS_VERSION +
         ". Bytes are of all ranks together; kB are 1000 bytes.</p></footer>\n</body>\n</html>\n";
}

}  // namespace ringpress::nccl_plugin::command::report
