// Lines for the person who runs the job, to standard error only, never to standard output.
#ifndef RINGPRESS_LOG_H_
#define RINGPRESS_LOG_H_

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace ringpress {

enum class LogLevel { kError, kWarn, kInfo, kTrace };

namespace internal {
inline std::atomic<LogLevel> log_level{LogLevel::kWarn};
}

/// Lines above this level are dropped. Process-wide; the default is kWarn.
inline void set_log_level(LogLevel level) {
  internal::log_level.store(level);
}
inline bool log_enabled(LogLevel level) {
  return level <= internal::log_level.load();
}

/// Writes "ringpress [pid] LEVEL text" as one write(2), cut at 2000 characters. printf-style.
__attribute__((format(printf, 2, 3))) inline void log_line(LogLevel level, const char* format,
                                                           ...) {
  if (!log_enabled(level)) return;
  static constexpr const char* kNames[] = {"ERROR", "WARN", "INFO", "TRACE"};
  char line[2048];
  int used = std::snprintf(line, 64, "ringpress [%d] %s ", static_cast<int>(getpid()),
                           kNames[static_cast<int>(level)]);
  va_list arguments;
  va_start(arguments, format);
  const int wanted = std::vsnprintf(line + used, 2000, format, arguments);
  va_end(arguments);
  if (wanted > 0) used += wanted < 1999 ? wanted : 1999;
  line[used++] = '\n';
  const ssize_t written = write(STDERR_FILENO, line, static_cast<std::size_t>(used));
  static_cast<void>(written);  // Nobody is left to tell.
}

}  // namespace ringpress

#endif  // RINGPRESS_LOG_H_
