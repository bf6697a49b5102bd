// RINGPRESS_STATS: one JSON line per communicator, written when it is destroyed, or the process
// exits with it (end_report.h).
#ifndef NCCL_PLUGIN_SESSION_STATISTICS_FILE_H_
#define NCCL_PLUGIN_SESSION_STATISTICS_FILE_H_

#include <string>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// What Statistics::nanoseconds are, which its name in the line says.
enum class StatisticsTime {
  kOfCalls,  // "nanoseconds": of whole calls, which return when the result is there.
  kOfHost,   // "host_nanoseconds": of the thread that asks a device for the work of a call.
};

/// The line, without its newline.
std::string statistics_line(int rank, int size, const Statistics& statistics,
                            StatisticsTime time = StatisticsTime::kOfCalls);

/// Appends the line to the file that settings.statistics names, if any, as one write. Creates it
/// with mode 0600 and never follows a symbolic link. A failure is logged, never returned.
void write_statistics(const Settings& settings, int rank, int size, const Statistics& statistics,
                      StatisticsTime time = StatisticsTime::kOfCalls) noexcept;

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STATISTICS_FILE_H_
