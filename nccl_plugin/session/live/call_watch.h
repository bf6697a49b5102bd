// What the calls of one communicator do while they run: the call that is under way, its phase and
// the rank that it waits for, how long phases took, and what of it a timeline shows.
//
// One thread at a time makes calls and tells of them; any other thread may ask. Nothing is followed
// by default: then there is no CallWatch, and a call pays for a test of a pointer.
#ifndef NCCL_PLUGIN_SESSION_LIVE_CALL_WATCH_H_
#define NCCL_PLUGIN_SESSION_LIVE_CALL_WATCH_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/session/live/nvtx_range.h"
#include "nccl_plugin/session/live/residual_norms.h"
#include "ringpress/internal/call_phases.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// True if a setting asks for what calls do while they run, to be written.
inline bool follows_calls(const Settings& settings) {
  return !settings.live.empty() || !settings.prometheus.empty() || !settings.timeline.empty() ||
         settings.dump_signal;
}

/// A call that has begun.
struct WatchedCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
};

/// What was decided of a call, known at its end.
struct WatchedDecision {
  std::string codec;
  const char* algorithm = "";  // Of the program's text.
  std::string why_exact;       // Empty: it was compressed.
  std::uint64_t raw_bytes = 0;
  std::uint64_t wire_bytes = 0;
};

/// For a timeline: a call, or a phase of one.
struct TimelineEvent {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  std::optional<CallPhase> phase;  // No value: a call.
  int peer = -1;                   // Of a phase that has one.
  std::uint64_t number = 0;        // Of the call, from 1.
  WatchedCall call;
  WatchedDecision decision;
};

class CallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// What a communicator does at a moment.
  struct Activity {
    std::uint64_t calls = 0;          // That have begun.
    std::optional<WatchedCall> call;  // That is under way.
    Clock::time_point since;          // It is.
    std::optional<CallPhase> phase;
    int peer = -1;  // Which rank the phase is about; -1: none.
    Clock::time_point phase_since;
  };

  /// Between this and its end, which nobody outlives, a call is under way. `watch` null: nothing.
  class Call {
   public:
    Call(CallWatch* watch, const WatchedCall& call) : watch_(watch) {
      if (watch_ != nullptr) watch_->begin_call(call);
    }
    ~Call() {
      if (watch_ != nullptr) watch_->end_call();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallWatch* const watch_;
  };

  /// Between this and its end the call is in a phase.
  class Phase {
   public:
    Phase(CallWatch& watch, CallPhase phase, int peer = -1)
        : watch_(watch), phase_(phase), peer_(peer), begin_(Clock::now()) {
      watch_.enter(phase, peer, begin_);
    }
    ~Phase() { watch_.leave(phase_, peer_, begin_, Clock::now()); }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    CallWatch& watch_;
    const CallPhase phase_;
    const int peer_;
    const Clock::time_point begin_;
  };

  /// `name`: of the communicator. `nvtx` null: calls are no ranges.
  CallWatch(std::string name, int ranks, bool keeps_events, const NvtxDomain* nvtx = nullptr)
      : name_(std::move(name)),
        keeps_events_(keeps_events),
        call_{NvtxCall(nvtx), std::vector<bool>(static_cast<std::size_t>(ranks)), {}, {}} {}
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // By the thread that makes calls.

  /// Of the call that is about to be made.
  void make_with(const char* codec) { call_.nvtx.make_with(codec); }
  /// Of the call that is about to end.
  void decide(const WatchedDecision& decision) {
    if (keeps_events_) call_.decision = decision;
  }
  bool keeps_events() const { return keeps_events_; }
  /// What waiting for a frame of `peer` is: kWait, until one of it has come in this call.
  CallPhase phase_of_wait(int peer) const {
    return call_.has_heard[static_cast<std::size_t>(peer)] ? CallPhase::kReceive : CallPhase::kWait;
  }
  void hear(int peer) { call_.has_heard[static_cast<std::size_t>(peer)] = true; }

  // By any thread.

  const std::string& name() const { return name_; }
  PhaseTimes phases() const;
  Activity now() const;
  /// What calls have left.
  ResidualNorms& norms() { return norms_; }
  /// Moves what has come since to the end of `events`; gives how many were dropped for want of
  /// room.
  std::uint64_t take_events(std::vector<TimelineEvent>* events);

 private:
  /// What is known of a call only in the thread that makes it.
  struct OwnCall {
    NvtxCall nvtx;
    std::vector<bool> has_heard;  // By rank.
    WatchedDecision decision;
    std::vector<TimelineEvent> events;
  };

  /// That the call is in, and since when.
  struct CurrentPhase {
    std::atomic<int> of_peer{0};       // (peer + 1) * 256 + phase + 1; 0: none.
    std::atomic<Clock::rep> since{0};  // In the clock's ticks.
  };

  void begin_call(const WatchedCall& call);
  void end_call();
  void enter(CallPhase phase, int peer, Clock::time_point now);
  void leave(CallPhase phase, int peer, Clock::time_point begin, Clock::time_point end);

  const std::string name_;
  const bool keeps_events_;
  std::array<std::atomic<std::uint64_t>, kCallPhases> phases_{};
  CurrentPhase phase_;
  ResidualNorms norms_;

  OwnCall call_;

  mutable std::mutex mutex_;  // Of what follows.
  Activity activity_;         // But for its phase.
  std::vector<TimelineEvent> events_;
  std::uint64_t dropped_events_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_CALL_WATCH_H_
