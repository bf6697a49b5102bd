#include "nccl_plugin/host/log_output.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/settings/nccl_variables.h"
#include "ringpress/nccl.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::host {
namespace {

void open_file(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0) return set_log_descriptor(file);
  log_line(LogLevel::kError, "NCCL_DEBUG_FILE=%s cannot be opened: %s", path.c_str(),
           std::strerror(errno));
}

}  // namespace

LogLevel log_level_of(const Settings& settings) {
  const std::optional<LogLevel> of_nccl = nccl_log_level(settings.nccl.debug);
  return settings.debug.value_or(of_nccl.value_or(LogLevel::kWarn));
}

void direct_log(const Settings& settings) {
  set_log_level(log_level_of(settings));
  const Status known = check_nccl_debug(settings);
  if (!known.is_ok()) warn_once(known.message());
  if (!nccl_log_level(settings.nccl.debug)) return;
  static std::once_flag once;
  std::call_once(once, [&settings] {
    if (logs_to_file(settings)) open_file(debug_path(settings.nccl.debug_file));
    // NCCL's VERSION is less than a warning, but not less than what RINGPRESS_DEBUG has asked for.
    if (settings.debug && !log_enabled(LogLevel::kInfo)) return;
    log_always("VERSION", "version " RINGPRESS_VERSION ", the API of NCCL %d.%d.%d on host memory",
               NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  });
}

}  // namespace ringpress::nccl_plugin::host
