#include "nccl_plugin/command/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "nccl_plugin/command/report/input_files.h"
#include "nccl_plugin/command/report/page.h"
#include "nccl_plugin/command/report/summary.h"
#include "nccl_plugin/command/report/summary_text.h"

namespace ringpress::nccl_plugin::command {
namespace {

Status write_page(const std::string& path, const std::string& page) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (file) return Status::ok();
  return Status(Code::kSystem, path + ": " + std::strerror(errno));
}

/// Why nothing could be read: of the first file.
Status nothing_read(const report::JobData& data) {
  std::string text = "nothing could be read";
  if (!data.files.empty()) {
    const report::FileNote& file = data.files.front();
    text += "; " + file.path + ": " + (file.problems.empty() ? "" : file.problems.front());
  }
  return Status(Code::kInvalidArgument, text);
}

}  // namespace

Status write_report(const ReportOptions& options) {
  const report::JobData data = report::read_files(options.paths);
  const bool is_any_read = std::any_of(data.files.begin(), data.files.end(),
                                       [](const report::FileNote& file) { return file.is_read(); });
  if (!is_any_read) return nothing_read(data);
  const report::Summary summary = report::summarize(data);
  std::string page_file;
  if (!options.text) {
    RINGPRESS_RETURN_IF_ERROR(write_page(options.page_file, report::page_of(data, summary)));
    page_file = options.page_file;
  }
  fmt::print("{}", options.json ? report::summary_json(data, summary, page_file)
                                : report::summary_text(data, summary, page_file));
  return Status::ok();
}

int print_report(const ReportOptions& options) {
  const Status written = write_report(options);
  if (written.is_ok()) return EXIT_SUCCESS;
  fmt::print(stderr, "ringpress report: {}\n", written.message());
  return EXIT_FAILURE;
}

}  // namespace ringpress::nccl_plugin::command
