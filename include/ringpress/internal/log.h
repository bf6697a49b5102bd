// Lines for the person who runs the job, to standard error or a file, never to standard output.
#ifndef RINGPRESS_INTERNAL_LOG_H_
#define RINGPRESS_INTERNAL_LOG_H_

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace ringpress {

enum class LogLevel { kError, kWarn, kInfo, kTrace };

namespace internal {
inline std::atomic<LogLevel> log_level{LogLevel::kWarn};
inline std::atomic<int> log_descriptor{STDERR_FILENO};
}  // namespace internal

/// Lines above this level are dropped. Process-wide; the default is kWarn.
inline void set_log_level(LogLevel level) {
  internal::log_level.store(level);
}
inline bool log_enabled(LogLevel level) {
  return level <= internal::log_level.load();
}

/// Where lines go from now on: an open file that is never closed. At first standard error.
inline void set_log_descriptor(int descriptor) {
  internal::log_descriptor.store(descriptor);
}

namespace internal {
/// Writes "ringpress [pid] LABEL text" as one write(2), cut at 2000 characters.
__attribute__((format(printf, 2, 0))) inline void write_log(const char* label, const char* format,
                                                            va_list arguments) {
  char line[2048];
  int used = std::snprintf(line, 64, "ringpress [%d] %s ", static_cast<int>(getpid()), label);
  const int wanted = std::vsnprintf(line + used, 2000, format, arguments);
  if (wanted > 0) used += wanted < 1999 ? wanted : 1999;
  line[used++] = '\n';
  const ssize_t written = write(log_descriptor.load(), line, static_cast<std::size_t>(used));
  static_cast<void>(written);  // Nobody is left to tell.
}
}  // namespace internal

/// A line of that level, if they are not dropped. printf-style.
__attribute__((format(printf, 2, 3))) inline void log_line(LogLevel level, const char* format,
                                                           ...) {
  if (!log_enabled(level)) return;
  static constexpr const char* kNames[] = {"ERROR", "WARN", "INFO", "TRACE"};
  va_list arguments;
  va_start(arguments, format);
  internal::write_log(kNames[static_cast<int>(level)], format, arguments);
  va_end(arguments);
}

/// A line that no level drops.
__attribute__((format(printf, 2, 3))) inline void log_always(const char* label, const char* format,
                                                             ...) {
  va_list arguments;
  va_start(arguments, format);
  internal::write_log(label, format, arguments);
  va_end(arguments);
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_LOG_H_
