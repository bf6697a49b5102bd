#include "nccl_plugin/plugin/report.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr std::size_t kTextBytes = 1000;

std::atomic<abi::Logger> nccl_logger{nullptr};

ringpress::LogLevel own_level(abi::LogLevel level) {
  switch (level) {
    case abi::LogLevel::kWarn:
    case abi::LogLevel::kAbort:
      return ringpress::LogLevel::kWarn;
    case abi::LogLevel::kNone:
    case abi::LogLevel::kVersion:
    case abi::LogLevel::kInfo:
      return ringpress::LogLevel::kInfo;
    case abi::LogLevel::kTrace:
      return ringpress::LogLevel::kTrace;
  }
  return ringpress::LogLevel::kInfo;
}

}  // namespace

void set_logger(abi::Logger logger) noexcept {
  if (logger != nullptr) nccl_logger.store(logger);
}

Settings read_settings() {
  Settings settings = settings_from_environment();
  set_log_level(settings.debug.value_or(LogLevel::kWarn));
  return settings;
}

void log(abi::LogLevel level, unsigned long subsystem, const char* format, ...) noexcept {
  char text[kTextBytes];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (const abi::Logger logger = nccl_logger.load()) {
    logger(level, subsystem, "ringpress", 0, "ringpress: %s", text);
  } else {
    log_line(own_level(level), "%s", text);
  }
}

ncclResult_t report(const char* function, const Status& status) noexcept {
  if (!status.is_ok() && status.code() != Code::kInProgress) {
    log(abi::LogLevel::kWarn, abi::kLogNet, "%s: %s: %s", function, code_name(status.code()),
        status.message().c_str());
  }
  return to_nccl_result(status.code());
}

}  // namespace ringpress::nccl_plugin::plugin
