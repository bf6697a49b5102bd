#include "nccl_plugin/session/statistics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/live/json_text.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

/// O_NONBLOCK: a pipe without a reader is an error, not a wait.
constexpr int kOpenFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

/// A descriptor, or -1 after a warning.
int open_to_append(const std::string& path) {
  const int file = open(path.c_str(), kOpenFlags, 0600);
  if (file < 0) warn_once("RINGPRESS_STATS=" + path + ": " + std::strerror(errno));
  return file;
}

}  // namespace

std::string statistics_line(int rank, int size, const Statistics& statistics, StatisticsTime time) {
  const char* const time_name =
      time == StatisticsTime::kOfHost ? "host_nanoseconds" : "nanoseconds";
  return "{" + json_field("pid", static_cast<std::uint64_t>(getpid())) +
         json_field("rank", static_cast<std::uint64_t>(rank)) +
         json_field("ranks", static_cast<std::uint64_t>(size)) +
         json_field("calls", statistics.calls) +
         json_field("compressed_calls", statistics.compressed_calls) +
         json_field("raw_bytes", statistics.raw_bytes) +
         json_field("wire_bytes", statistics.wire_bytes) +
         json_field("calibration_bytes", statistics.calibration_bytes) +
         json_field("residual_bytes", statistics.residual_bytes) +
         json_field("observed_calls", statistics.observed_calls) +
         json_field("observed_raw_bytes", statistics.observed_raw_bytes) +
         json_field("unbiased_calls", statistics.unbiased_calls) +
         json_field("scaled_calls", statistics.scaled_calls) +
         json_field("unsent_tensors", statistics.unsent_tensors) +
         json_field("unsent_elements", statistics.unsent_elements) +
         json_field("unsent_norm", statistics.unsent_norm) +
         json_field(time_name, statistics.nanoseconds) +
         (time == StatisticsTime::kOfHost
              ? json_field("longest_wait_nanoseconds", statistics.longest_wait_nanoseconds)
              : std::string()) +
         "\"errors\": " + json_of(statistics.errors) + ", " +
         "\"exact_calls\": " + json_of(statistics.exact_calls) + ", " +
         "\"last_codec\": " + json_quoted(statistics.last_codec) +
         ", \"last_algorithm\": " + json_quoted(statistics.last_algorithm) +
         ", \"last_reason\": " + json_quoted(statistics.last_reason) + "}";
}

namespace {

void append(const Settings& settings, const std::string& line) {
  const int file = open_to_append(settings.statistics);
  if (file < 0) return;
  const bool is_written =
      write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  close(file);
  if (is_written) return;
  warn_once("RINGPRESS_STATS=" + settings.statistics +
            ": a line was not written: " + std::strerror(error));
}

}  // namespace

void write_statistics(const Settings& settings, int rank, int size, const Statistics& statistics,
                      StatisticsTime time) noexcept {
  if (settings.statistics.empty()) return;
  const Status written = catch_all([&] {
    append(settings, statistics_line(rank, size, statistics, time) + "\n");
    return Status::ok();
  });
  if (written.is_ok()) return;
  log_line(LogLevel::kWarn, "RINGPRESS_STATS=%s: a line was not written: %s",
           settings.statistics.c_str(), written.message().c_str());
}

}  // namespace ringpress::nccl_plugin
