// The events of RINGPRESS_TIMELINE: a Chrome trace in its array form, which needs no end.
#ifndef NCCL_PLUGIN_SESSION_LIVE_TIMELINE_H_
#define NCCL_PLUGIN_SESSION_LIVE_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nccl_plugin/session/live/call_watch.h"
#include "nccl_plugin/session/live/live_line.h"

namespace ringpress::nccl_plugin {

/// What a file begins with: the name of its process.
std::string timeline_head(const LiveIdentity& identity);
/// The name of a lane. Begins with a comma, as all that follows the head.
std::string timeline_lane(const LiveIdentity& identity, std::size_t lane);
/// Events of a lane. `dropped`: so many are not there.
std::string timeline_text(const std::vector<TimelineEvent>& events, std::size_t lane,
                          std::uint64_t dropped);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_TIMELINE_H_
