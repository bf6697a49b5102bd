#include "nccl_plugin/host/log_output.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "ringpress/nccl.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::host {
namespace {

struct NamedLevel {
  const char* name;
  LogLevel level;
};
/// NCCL's words, and ours for as much.
constexpr NamedLevel kNcclLevels[] = {{"VERSION", LogLevel::kError},
                                      {"WARN", LogLevel::kWarn},
                                      {"ABORT", LogLevel::kWarn},
                                      {"INFO", LogLevel::kInfo},
                                      {"TRACE", LogLevel::kTrace}};

/// In any case, as NCCL takes them.
std::optional<LogLevel> nccl_level_named(const std::string& name) {
  for (const NamedLevel& level : kNcclLevels) {
    if (strcasecmp(level.name, name.c_str()) == 0) return level.level;
  }
  return std::nullopt;
}

std::string host_name() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return std::string(name.data(), strcspn(name.data(), "."));
}

void open_file(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0) return set_log_descriptor(file);
  log_line(LogLevel::kError, "NCCL_DEBUG_FILE=%s cannot be opened: %s", path.c_str(),
           std::strerror(errno));
}

}  // namespace

LogLevel log_level_of(const Settings& settings) {
  if (!settings.debug.empty()) return own_log_level(settings);
  return nccl_level_named(settings.nccl.debug).value_or(LogLevel::kWarn);
}

std::string debug_path(const std::string& pattern) {
  std::string path;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char next = pattern[at] == '%' && at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    if (next == 'h') path += host_name();
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++at;
    } else {
      path += pattern[at];
    }
  }
  return path;
}

void direct_log(const Settings& settings) {
  set_log_level(log_level_of(settings));
  const NcclVariables& nccl = settings.nccl;
  if (!nccl_level_named(nccl.debug)) return;
  static std::once_flag once;
  std::call_once(once, [&nccl] {
    if (!nccl.debug_file.empty()) open_file(debug_path(nccl.debug_file));
    log_always("VERSION", "version " RINGPRESS_VERSION ", the API of NCCL %d.%d.%d on host memory",
               NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  });
}

}  // namespace ringpress::nccl_plugin::host
