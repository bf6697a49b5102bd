// A communicator as the thread that writes sees it.
#ifndef NCCL_PLUGIN_SESSION_LIVE_LIVE_ENTRY_H_
#define NCCL_PLUGIN_SESSION_LIVE_LIVE_ENTRY_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/session/live/live_line.h"
#include "nccl_plugin/session/live/live_names.h"
#include "nccl_plugin/session/live/live_report.h"

namespace ringpress::nccl_plugin {

struct LiveEntry {
  using Clock = CallWatch::Clock;

  // Set before any other thread knows of it.
  pid_t process = 0;
  LiveIdentity identity;
  LiveFiles names;  // As the settings have them.
  Clock::duration interval{};
  std::size_t limit_bytes = 0;  // Of a file.
  std::size_t lane = 0;         // By which a timeline tells communicators apart.

  LiveFiles files;         // Of the thread that writes alone,
  bool has_files = false;  // from when it first writes.

  std::mutex mutex;       // Of what follows. Held for as long as `read` and `watches` are used.
  LiveReport::Read read;  // Empty: closed.
  LiveReport::Watches watches;
  bool stays_at_exit = false;   // Closed by the exit: pages still have it.
  Clock::time_point last_line;  // Or when it was opened.
  Clock::time_point next_line;
  Statistics before;   // Of the last line.
  std::string lines;   // To be written.
  std::string events;  // The same, of the timeline.

  /// Under `mutex`, while it is open. False: at the exit, another thread is in the middle of it.
  bool add_line(ReportTime time, bool is_final);
  void add_events();
  /// What it does now, for a dump.
  std::string describe() const;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_LIVE_ENTRY_H_
