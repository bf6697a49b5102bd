// Sequences that calls have repeated, and what of the last calls each of them explains.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KNOWN_CYCLES_H_
#define NCCL_PLUGIN_SESSION_CALLS_KNOWN_CYCLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/call_history.h"
#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// What names a tensor: the shortest sequence that it recurs in, and its place there.
struct TensorPlace {
  std::uint64_t cycle = 0;  // CallCycle::id.
  std::size_t position = 0;

  bool operator==(const TensorPlace&) const = default;
};

/// A sequence that was found.
struct CallCycle {
  // The same, with the same positions, whenever it is found again until it is forgotten. 0: none.
  std::uint64_t id = 0;
  std::vector<TensorCall> calls;
  std::vector<std::uint64_t> hashes;  // Of the calls.
  // Of the calls. Two are one tensor's if they are one place of a shorter sequence with own
  // buffers, which this one is but for strays.
  std::vector<TensorPlace> tensors;
  // [p]: how many calls since the last surprise are those of the sequence up to its call p.
  std::vector<std::size_t> matches;
  bool has_own_buffers = false;
  bool is_proven = false;

  std::size_t period() const { return calls.size(); }
  /// True if it holds at least two different calls, so that its beginning is certain.
  bool has_landmark() const;
};
inline const CallCycle kNoCycle;

/// How many of the last calls are those of a cycle up to a position of it.
struct CycleMatch {
  std::size_t calls = 0;
  std::size_t position = 0;  // Of the last of them.
};

/// Whether a call may be a stray beside a sequence. (A larger call may as well be one more tensor,
/// or the beginning of another sequence.)
bool is_stray(const TensorCall& call, const CallCycle& cycle);

class KnownCycles {
 public:
  // Proven sequences that are kept: those that were left longest ago are forgotten.
  static constexpr std::size_t kMost = 8;

  /// While a sequence is believed or interrupted, it is the first. All others are proven, the last
  /// used first.
  const std::vector<CallCycle>& all() const { return all_; }
  const CallCycle& front() const { return all_.front(); }
  void prove_front() { all_.front().is_proven = true; }

  /// Whether a call that is the first one's at `position` can be no other tensor's.
  bool is_certain(std::size_t position) const;
  /// Whether these are one round of the first one and strays.
  bool is_front_with_strays(std::span<const TensorCall> calls) const;
  /// From now on the last calls are compared with all sequences.
  void begin_matching();
  void match(std::uint64_t hash);
  /// The most of the last calls that one of them explains.
  std::size_t explained() const;

  /// One of them, and where in it the last call is.
  struct Place {
    std::size_t index = 0;
    CycleMatch last;
  };
  /// Of the proven sequences the one that has come whole since the surprise, and that explains more
  /// calls than any other. Two that explain the same differ before each has come twice; that is
  /// waited for.
  std::optional<Place> best_explained(const CallHistory& history) const;
  /// The one of this period that the last calls are, in whatever turn; `calls` is 0.
  std::optional<Place> ending_now(const CallHistory& history, std::size_t period) const;
  /// The last one: these calls, with which nothing that is known was repeated.
  void add(std::span<const TensorCall> calls);

  /// It is believed. If the first one was interrupted and is not proven, it must be a part of this
  /// one: else it is forgotten.
  void bring_to_front(std::size_t index, bool is_interrupted);
  void forget(std::size_t index);
  /// Of those that are proven.
  void forget_oldest();
  /// Numbers of those that were forgotten since clear_forgotten().
  std::span<const std::uint64_t> forgotten() const { return forgotten_; }
  void clear_forgotten() { forgotten_.clear(); }
  std::uint64_t last_id() const { return last_id_; }

  void save(StateWriter& to) const;
  /// For none.
  void load(StateReader& from);
  void set_last_id(std::uint64_t id) { last_id_ = id; }

 private:
  std::vector<CallCycle> all_;
  std::vector<CycleMatch> matches_;  // Of each of them, after the last call.
  std::vector<std::uint64_t> forgotten_;
  std::uint64_t last_id_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KNOWN_CYCLES_H_
