// What is said of a communicator while the program runs: its lines, its part of a page for
// Prometheus, of a timeline, and of a dump.
//
// A thread of the process writes all of it (live_writer.h). Who makes calls never writes, and never
// waits for a file: only exit() waits, two seconds at most in all.
#ifndef NCCL_PLUGIN_SESSION_LIVE_LIVE_REPORT_H_
#define NCCL_PLUGIN_SESSION_LIVE_LIVE_REPORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/live/call_watch.h"
#include "nccl_plugin/session/live/live_line.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

struct LiveEntry;

/// Of one communicator. Its owner opens and closes it; close() may also come from the thread that
/// exits.
class LiveReport {
 public:
  /// What it did so far. Asked for by another thread, while calls run.
  using Read = std::function<std::optional<Statistics>(ReportTime)>;
  using Watches = std::vector<CallWatch*>;

  LiveReport() = default;
  /// No more is said, and no last line.
  ~LiveReport();
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;

  /// From now on, if a setting asks for it. What `read` and `watches` refer to outlives close() or
  /// the end of this. Without memory, or without a thread, there is a warning and no report.
  void open(const Settings& settings, const LiveIdentity& identity, Read read,
            Watches watches) noexcept;
  /// A last line. At the exit it waits until that is written. Nothing in a process that was forked
  /// from the one that opened it.
  void close(ReportTime time) noexcept;

 private:
  std::shared_ptr<LiveEntry> entry_;  // Null: not open.
};

/// What is said of a communicator while it runs, and at its end.
struct RunReports {
  LiveReport live;
  EndReport end;  // The last: it closes the other one.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_LIVE_REPORT_H_
