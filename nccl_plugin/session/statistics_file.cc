#include "nccl_plugin/session/statistics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      json += escape;
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string field(const char* name, std::uint64_t value) {
  return quoted(name) + ": " + std::to_string(value) + ", ";
}

std::string field(const char* name, double value) {
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", value);
  return quoted(name) + ": " + number + ", ";
}

std::string counts_by_reason(const std::map<std::string, std::uint64_t>& counts) {
  std::string json = "{";
  for (const auto& [reason, count] : counts) {
    if (json.size() > 1) json += ", ";
    json += quoted(reason) + ": " + std::to_string(count);
  }
  return json + "}";
}

std::string list_of(const std::vector<MeasuredError>& errors) {
  std::string json = "[";
  for (const MeasuredError& error : errors) {
    if (json.size() > 1) json += ", ";
    json += "{" + field("count", static_cast<std::uint64_t>(error.count)) +
            "\"type\": " + quoted(dtype_name(error.dtype)) + ", " + field("looks", error.looks) +
            field("last", error.last) + field("mean", error.mean) + field("worst", error.worst) +
            "\"more_bits\": " + std::to_string(error.more_bits) + "}";
  }
  return json + "]";
}

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
  return "{" + field("pid", static_cast<std::uint64_t>(getpid())) +
         field("rank", static_cast<std::uint64_t>(rank)) +
         field("ranks", static_cast<std::uint64_t>(size)) + field("calls", statistics.calls) +
         field("compressed_calls", statistics.compressed_calls) +
         field("raw_bytes", statistics.raw_bytes) + field("wire_bytes", statistics.wire_bytes) +
         field("calibration_bytes", statistics.calibration_bytes) +
         field("residual_bytes", statistics.residual_bytes) +
         field("observed_calls", statistics.observed_calls) +
         field("observed_raw_bytes", statistics.observed_raw_bytes) +
         field("unbiased_calls", statistics.unbiased_calls) +
         field("scaled_calls", statistics.scaled_calls) +
         field("unsent_tensors", statistics.unsent_tensors) +
         field("unsent_elements", statistics.unsent_elements) +
         field("unsent_norm", statistics.unsent_norm) + field(time_name, statistics.nanoseconds) +
         (time == StatisticsTime::kOfHost
              ? field("longest_wait_nanoseconds", statistics.longest_wait_nanoseconds)
              : std::string()) +
         "\"errors\": " + list_of(statistics.errors) + ", " +
         "\"exact_calls\": " + counts_by_reason(statistics.exact_calls) + ", " +
         "\"last_codec\": " + quoted(statistics.last_codec) +
         ", \"last_algorithm\": " + quoted(statistics.last_algorithm) +
         ", \"last_reason\": " + quoted(statistics.last_reason) + "}";
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
