#include "nccl_plugin/session/live/live_entry.h"

#include <cstdio>
#include <utility>

#include "nccl_plugin/session/live/timeline.h"

namespace ringpress::nccl_plugin {
namespace {

double seconds_of(CallWatch::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// "1.5 s".
std::string time_text(CallWatch::Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds_of(time));
  return text;
}

/// What a phase is, to a person.
std::string phase_text(CallPhase phase, int peer) {
  const std::string rank = " rank " + std::to_string(peer);
  switch (phase) {
    case CallPhase::kWait:
      return "waits for" + rank + ", of which nothing has come in this call";
    case CallPhase::kReceive:
      return "waits for" + rank + ", of which a part has come";
    case CallPhase::kSend:
      return "sends to" + rank;
    case CallPhase::kEncode:
    case CallPhase::kReduce:
    case CallPhase::kDecode:
      return std::string(phase_name(phase)) + "s";
  }
  return phase_name(phase);
}

std::string activity_text(const CallWatch::Activity& activity, CallWatch::Clock::time_point now) {
  if (!activity.call) return "no call is under way";
  const WatchedCall& call = *activity.call;
  const bool is_exchange = call.kind == CollectiveKind::kSendRecv;
  std::string text = std::string(collective_name(call.kind)) + " of " + std::to_string(call.count) +
                     " " + (is_exchange ? "transfers" : dtype_name(call.dtype)) + ", call " +
                     std::to_string(activity.calls) + ", for " + time_text(now - activity.since);
  if (!activity.phase) return text;
  return text + "; " + phase_text(*activity.phase, activity.peer) + ", for " +
         time_text(now - activity.phase_since);
}

}  // namespace

bool LiveEntry::add_line(ReportTime time, bool is_final) {
  std::optional<Statistics> now = read(time);
  if (!now) return false;
  const auto moment = Clock::now();
  const LiveMoment when{seconds_since_1970(), seconds_of(moment - last_line), is_final};
  if (!names.live.empty()) {
    lines += live_line(identity, when, statistics_between(before, *now), *now);
  }
  before = std::move(*now);
  last_line = moment;
  // (Of the time that has passed, not of lines: after a pause there is one line.)
  next_line = moment + interval;
  for (CallWatch* const watch : watches) watch->norms().renew();
  return true;
}

void LiveEntry::add_events() {
  if (names.timeline.empty()) return;
  std::vector<TimelineEvent> taken;
  for (std::size_t worker = 0; worker < watches.size(); ++worker) {
    taken.clear();
    const std::uint64_t dropped = watches[worker]->take_events(&taken);
    if (taken.empty() && dropped == 0) continue;
    // (Named each time: the file may begin anew.)
    events += timeline_lane(identity, lane + worker);
    events += timeline_text(taken, lane + worker, dropped);
  }
}

std::string LiveEntry::describe() const {
  const auto now = Clock::now();
  std::string text = "communicator " + identity.comm + ", rank " + std::to_string(identity.rank) +
                     " of " + std::to_string(identity.ranks) + ", door " + identity.door + ": ";
  if (watches.empty()) text += "what its calls do is known to NCCL alone";
  for (std::size_t worker = 0; worker < watches.size(); ++worker) {
    if (worker > 0) text += "; another worker: ";
    text += activity_text(watches[worker]->now(), now);
  }
  return text;
}

}  // namespace ringpress::nccl_plugin
