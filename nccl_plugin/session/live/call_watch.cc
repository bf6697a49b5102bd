#include "nccl_plugin/session/live/call_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// What nobody has taken yet: about 20 MB.
constexpr std::size_t kMostEvents = 1 << 17;
// Phases of one call; those after it are only added up.
constexpr std::size_t kMostEventsOfCall = 1 << 14;
// Two of the same kind so near to each other are one.
constexpr std::chrono::microseconds kNear{1};
constexpr int kNoPhase = 0;

}  // namespace

void CallWatch::begin_call(const WatchedCall& call) {
  std::fill(call_.has_heard.begin(), call_.has_heard.end(), false);
  call_.decision = {};
  const bool has_bytes = call.kind != CollectiveKind::kSendRecv;  // (It counts transfers.)
  call_.nvtx.begin(call.kind, has_bytes ? call.count * dtype_size(call.dtype) : 0);
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  ++activity_.calls;
  activity_.call = call;
  activity_.since = now;
}

void CallWatch::end_call() {
  call_.nvtx.end();
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (keeps_events_) {
    TimelineEvent event;
    event.begin = activity_.since;
    event.end = now;
    event.number = activity_.calls;
    event.call = *activity_.call;
    event.decision = std::move(call_.decision);
    const std::size_t more = call_.events.size() + 1;
    if (events_.size() + more <= kMostEvents) {
      events_.push_back(std::move(event));
      std::move(call_.events.begin(), call_.events.end(), std::back_inserter(events_));
    } else {
      dropped_events_ += more;
    }
    call_.events.clear();
  }
  activity_.call.reset();
}

void CallWatch::enter(CallPhase phase, int peer, Clock::time_point now) {
  call_.nvtx.begin_phase(phase, peer);
  phase_.since.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  phase_.of_peer.store((peer + 1) * 256 + static_cast<int>(phase) + 1, std::memory_order_relaxed);
}

void CallWatch::leave(CallPhase phase, int peer, Clock::time_point begin, Clock::time_point end) {
  call_.nvtx.end_phase();
  phase_.of_peer.store(kNoPhase, std::memory_order_relaxed);
  const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  std::atomic<std::uint64_t>& sum = phases_[static_cast<std::size_t>(phase)];
  // (One thread writes.)
  sum.store(sum.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(taken),
            std::memory_order_relaxed);
  if (!keeps_events_) return;
  if (!call_.events.empty()) {
    TimelineEvent& last = call_.events.back();
    if (last.phase == phase && last.peer == peer && begin - last.end < kNear) {
      last.end = end;
      return;
    }
  }
  if (call_.events.size() >= kMostEventsOfCall) return;
  TimelineEvent event;
  event.begin = begin;
  event.end = end;
  event.phase = phase;
  event.peer = peer;
  call_.events.push_back(std::move(event));
}

PhaseTimes CallWatch::phases() const {
  PhaseTimes times{};
  for (std::size_t phase = 0; phase < kCallPhases; ++phase) {
    times[phase] = phases_[phase].load(std::memory_order_relaxed);
  }
  return times;
}

CallWatch::Activity CallWatch::now() const {
  Activity activity;
  {
    const std::lock_guard lock(mutex_);
    activity = activity_;
  }
  const int phase = phase_.of_peer.load(std::memory_order_relaxed);
  if (phase == kNoPhase) return activity;
  activity.phase = static_cast<CallPhase>(phase % 256 - 1);
  activity.peer = phase / 256 - 1;
  activity.phase_since =
      Clock::time_point(Clock::duration(phase_.since.load(std::memory_order_relaxed)));
  return activity;
}

std::uint64_t CallWatch::take_events(std::vector<TimelineEvent>* events) {
  const std::lock_guard lock(mutex_);
  events->insert(events->end(), std::make_move_iterator(events_.begin()),
                 std::make_move_iterator(events_.end()));
  events_.clear();
  return std::exchange(dropped_events_, 0);
}

}  // namespace ringpress::nccl_plugin
