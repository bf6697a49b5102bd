// RINGPRESS_CODEC=auto on streams: calls that compressing does not make quicker are left to the
// real library. Calls are judged by kind, type and size (from a power of two up to the next), as
// GuardedClass says; their times are between two events in the caller's stream.
//
// Where settings leave it open, the verdict also says whether such calls have coordinate scales: if
// what the kernels for these take would be at most a tenth of what a compressed call takes.
//
// A verdict travels in the stream, in front of a call, and lands in host memory. Rank 0 decides it
// when that call is made, by the times of those calls that its device has done by then. Nothing
// waits for the device unless a program is several calls of one class ahead of it just when a
// verdict counts.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_GUARD_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_GUARD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>

#include "nccl_plugin/interposer/calls/framed_call.h"
#include "nccl_plugin/interposer/stream/stream_wait.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "nccl_plugin/session/tuning/guarded_class.h"
#include "nccl_plugin/session/tuning/tuning_log.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// Words on their way to all ranks: one of a class.
class VerdictMemory {
 public:
  static constexpr std::size_t kMost = 256;

  static Result<std::unique_ptr<VerdictMemory>> make(Device& device);
  ~VerdictMemory();
  VerdictMemory(const VerdictMemory&) = delete;
  VerdictMemory& operator=(const VerdictMemory&) = delete;

  TravelingWords words_of(std::size_t index) const {
    return {1, device_words_ + index, sent(index), host_words_ + kMost + index};
  }
  /// What rank 0 sends, and what has come: host memory that streams read and write.
  std::uint64_t* sent(std::size_t index) const { return host_words_ + index; }
  volatile std::uint64_t* received(std::size_t index) const { return host_words_ + kMost + index; }

 private:
  explicit VerdictMemory(Device& device) : device_(device) {}

  Device& device_;
  std::uint64_t* device_words_ = nullptr;
  std::uint64_t* host_words_ = nullptr;
};

/// Classes of calls with a verdict that holds: the same on all ranks.
class SettledClasses {
 public:
  using Key = std::tuple<CollectiveKind, DType, int>;  // The last: the bits of a call's bytes.
  struct Settled {
    tuning::GuardedClass turns;
    bool wants_scales = false;
  };

  std::map<Key, Settled>& all() { return all_; }
  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  std::map<Key, Settled> all_;
};

/// What start() of a call has to do for the guard.
struct GuardedCall {
  tuning::GuardedStep step;
  CallFrame frame;
};

/// Of one communicator. One thread at a time.
class StreamGuard {
 public:
  /// `device` and `settings` outlive this.
  static Result<std::unique_ptr<StreamGuard>> make(Device& device, const Settings& settings,
                                                   int rank);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

  enum class Answer {
    kCompress,
    kExact,
    kAsk,  // next() when the call is begun, after all calls that were accepted before.
  };
  /// When the program makes a call that could be compressed.
  Answer look_at(const PlanRequest& request);
  /// What has been settled of such calls, if anything has. A captured call takes no turn.
  Answer look_at_captured(const PlanRequest& request) const;
  /// Whether such a call is to have coordinate scales, as the last verdict on it says.
  bool wants_scales(const PlanRequest& request) const;
  /// What they add to a call, by value; on rank 0. Without: no verdict wants any.
  void set_scale_cost(double seconds) { scale_seconds_ = seconds; }

  /// Of a call in `stream` that was answered with kAsk. May wait for a verdict, as await_word()
  /// does: kTimeout after RINGPRESS_TIMEOUT_MS.
  Result<GuardedCall> next(const PlanRequest& request, Stream stream, std::string_view codec,
                           const Watch& watch);

  SettledClasses settled() const;
  /// Before the first call: what was settled elsewhere holds here. prepare() has the memory made
  /// for it.
  void prepare(SettledClasses& settled);
  void adopt(SettledClasses& settled) noexcept;

 private:
  struct Slot {
    Event begin = nullptr, end = nullptr;
    std::size_t bytes = 0;  // 0: nothing is under way.
  };
  struct Class {
    std::size_t index = 0;
    tuning::TunedClass calls;
    tuning::GuardedClass turns;
    std::uint32_t epoch = 0;  // Verdicts that were sent.
    bool wants_scales = false;
    // On rank 0.
    tuning::GuardJudge judge;
    std::array<Slot, tuning::GuardedClass::kSlots> slots;
  };
  using Key = SettledClasses::Key;

  StreamGuard(Device& device, const Settings& settings, int rank);
  static Key key_of(const PlanRequest& request);
  Class* find_class(const PlanRequest& request);
  Class* find_class(const Key& key);
  Status receive(Class* calls, Stream stream, const Watch& watch);
  void write_verdict(Class* calls, std::string_view codec);
  bool are_scales_cheap(const Class& calls) const;
  void collect_times(Class* calls);
  void log_verdict(const Class& calls, tuning::Verdict verdict, std::string_view codec) const;
  Slot* prepare_slot(Class* calls, std::size_t slot);

  Device& device_;
  const Settings& settings_;
  const int rank_;
  const double worth_switching_;
  std::optional<double> scale_seconds_;
  std::unique_ptr<VerdictMemory> memory_;
  std::map<Key, Class> classes_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_GUARD_H_
