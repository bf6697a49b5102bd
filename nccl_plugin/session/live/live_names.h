// The names of files that settings give with %h, %p and %r in them.
#ifndef NCCL_PLUGIN_SESSION_LIVE_LIVE_NAMES_H_
#define NCCL_PLUGIN_SESSION_LIVE_LIVE_NAMES_H_

#include <string>
#include <string_view>

#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// `name` with the host, the process and the rank in place of %h, %p and %r; %% is one %.
std::string live_file_name(std::string_view name, int rank);

/// The files that a process writes. Empty: it does not write that one.
struct LiveFiles {
  std::string live;
  std::string prometheus;
  std::string timeline;
};

/// As the settings have them.
inline LiveFiles live_names(const Settings& settings) {
  return {settings.live, settings.prometheus, settings.timeline};
}

/// Those of a process. A page for Prometheus and a timeline are of one process each: where all
/// would write to one file, rank 0 does.
LiveFiles live_files(const LiveFiles& names, int rank);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_LIVE_NAMES_H_
