#include "nccl_plugin/session/live/timeline.h"

#include <unistd.h>

#include <cstdio>

#include "nccl_plugin/session/live/json_text.h"

namespace ringpress::nccl_plugin {
namespace {

/// How far the system's clock is ahead of the one that calls are timed by, when first asked for:
/// the lanes of all ranks have one time, as far as their hosts agree on it.
std::chrono::nanoseconds clock_offset() {
  static const std::chrono::nanoseconds offset =
      std::chrono::system_clock::now().time_since_epoch() -
      CallWatch::Clock::now().time_since_epoch();
  return offset;
}

/// Microseconds, with three digits after the point.
std::string microseconds(std::chrono::nanoseconds time) {
  char text[40];
  const long long nanoseconds = time.count();
  std::snprintf(text, sizeof text, "%lld.%03lld", nanoseconds / 1000, nanoseconds % 1000);
  return text;
}

/// What each event has, up to its arguments.
std::string event_head(const TimelineEvent& event, const char* name, std::size_t lane) {
  const std::string process = std::to_string(getpid());
  return ",\n{\"name\": " + json_quoted(name) +
         ", \"cat\": \"ringpress\", \"ph\": \"X\", \"ts\": " +
         microseconds(event.begin.time_since_epoch() + clock_offset()) +
         ", \"dur\": " + microseconds(event.end - event.begin) + ", \"pid\": " + process +
         ", \"tid\": " + std::to_string(lane);
}

std::string call_text(const TimelineEvent& event, std::size_t lane) {
  const WatchedDecision& decision = event.decision;
  std::string text = event_head(event, collective_name(event.call.kind), lane) + ", \"args\": {" +
                     json_field("call", event.number) +
                     json_field("count", static_cast<std::uint64_t>(event.call.count)) +
                     "\"type\": " + json_quoted(dtype_name(event.call.dtype)) + ", " +
                     json_field("raw_bytes", decision.raw_bytes) +
                     json_field("wire_bytes", decision.wire_bytes);
  if (!decision.why_exact.empty()) {
    text += "\"exact\": " + json_quoted(decision.why_exact) + ", ";
  }
  return text + "\"codec\": " + json_quoted(decision.codec) +
         ", \"algorithm\": " + json_quoted(decision.algorithm) + "}}";
}

std::string phase_event_text(const TimelineEvent& event, std::size_t lane) {
  const std::string text = event_head(event, phase_name(*event.phase), lane);
  if (event.peer < 0) return text + "}";
  return text + ", \"args\": {\"rank\": " + std::to_string(event.peer) + "}}";
}

/// A line of the trace that names something.
std::string name_text(const char* what, const std::string& name, std::size_t lane) {
  return "{\"name\": " + json_quoted(what) +
         ", \"ph\": \"M\", \"pid\": " + std::to_string(getpid()) +
         ", \"tid\": " + std::to_string(lane) + ", \"args\": {\"name\": " + json_quoted(name) +
         "}}";
}

}  // namespace

std::string timeline_head(const LiveIdentity& identity) {
  return "[\n" + name_text("process_name",
                           "ringpress, " + live_host() + ", rank " + std::to_string(identity.rank),
                           0);
}

std::string timeline_lane(const LiveIdentity& identity, std::size_t lane) {
  return ",\n" +
         name_text("thread_name",
                   "communicator " + identity.comm + ", rank " + std::to_string(identity.rank) +
                       " of " + std::to_string(identity.ranks),
                   lane);
}

std::string timeline_text(const std::vector<TimelineEvent>& events, std::size_t lane,
                          std::uint64_t dropped) {
  std::string text;
  for (const TimelineEvent& event : events) {
    text += event.phase ? phase_event_text(event, lane) : call_text(event, lane);
  }
  if (dropped == 0) return text;
  return text + ",\n{\"name\": \"" + std::to_string(dropped) +
         " events are missing\", \"ph\": \"i\", \"s\": \"t\", \"ts\": " +
         microseconds(CallWatch::Clock::now().time_since_epoch() + clock_offset()) +
         ", \"pid\": " + std::to_string(getpid()) + ", \"tid\": " + std::to_string(lane) + "}";
}

}  // namespace ringpress::nccl_plugin
