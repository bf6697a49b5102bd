// The line of RINGPRESS_LIVE (using.md).
#ifndef NCCL_PLUGIN_SESSION_LIVE_LIVE_LINE_H_
#define NCCL_PLUGIN_SESSION_LIVE_LIVE_LINE_H_

#include <string>

#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin {

/// Which communicator of which process something is said of.
struct LiveIdentity {
  std::string comm;       // Its name, or its number in hex.
  const char* door = "";  // Of the program's text: host, preload or plugin.
  int rank = 0;
  int ranks = 0;
  int hosts = 0;  // 0: not known.
};

/// When a line is written.
struct LiveMoment {
  double time = 0;     // Seconds since 1970.
  double seconds = 0;  // Since the line before, or since the communicator was made.
  bool is_final = false;
};

/// What was done between two moments: what of `now` a line has of an interval.
Statistics statistics_between(const Statistics& before, const Statistics& now);

/// The line, with its newline.
std::string live_line(const LiveIdentity& identity, const LiveMoment& moment,
                      const Statistics& interval, const Statistics& total);

/// Of this machine.
const std::string& live_host();

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_LIVE_LINE_H_
