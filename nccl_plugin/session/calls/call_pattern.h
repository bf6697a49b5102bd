// The sequence that a program's calls repeat, found without knowing the program.
//
// A sequence is believed once it has come twice in a row. When a call does not fit it any more:
//
//   it had come three times, and kProofCalls calls of it   it is proven, and kept. After whatever
//       came between, it is believed again as soon as it has come once, whole and in order, from
//       any of its calls on, and no other proven sequence explains as many of the last calls.
//   it had not     it may have been the beginning of a longer one: a step A A B suggests A at its
//       beginning each time. From then on, until something is proven, only longer runs are
//       believed.
//
// Buffers are a sequence's own if each of its calls has an address and no two different calls have
// memory in common. A stray (a value that is logged, a metric) is a call beside such a sequence, in
// other memory, of an eighth of its bytes at most. After strays, fewer than the calls that have
// fitted, the sequence goes on where it was left, as soon as its next call comes, unless that may
// be another tensor's of those that are known.
//
// Strays that come at the same places again and again make a longer sequence (A A A X). In it, each
// place of the shorter one is one tensor's, see CallCycle::tensors. But where the shorter one was
// proven before, that stays, and they remain strays: unless they come with it each time, eight
// times in a row. Then they are tensors that the program has got besides, as also after a state
// of an earlier program was loaded.
//
// A longer sequence in which a proven one with its own buffers comes twice in a row (training
// steps, then an evaluation, again and again) is not believed: the buffer that was called so often
// in a row is one tensor's.
//
// Calls without an address, and buffers that hold several tensors in turn, may be many tensors':
// each place of a sequence is then a tensor of its own.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_PATTERN_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/call_history.h"
#include "nccl_plugin/session/calls/cycle_run.h"
#include "nccl_plugin/session/calls/known_cycles.h"
#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// Finds the shortest sequence that the calls repeat.
class CallPattern {
 public:
  /// Takes note of the next call. Gives its position in the repeating sequence, or nothing while no
  /// repetition has been seen since the last surprise (a call that did not fit).
  std::optional<std::size_t> observe(const TensorCall& call);

  /// The repeating sequence; kNoCycle while there is none.
  const CallCycle& cycle() const { return run_.goes_on() ? known_.front() : kNoCycle; }
  /// Numbers that observe() has just given up for good.
  std::span<const std::uint64_t> forgotten() const { return known_.forgotten(); }
  /// How often a call did not fit the sequence.
  std::uint64_t breaks() const { return breaks_; }
  /// So many of the last calls have fitted the sequence; while there is none, so many have come in
  /// this order before.
  std::size_t repeating() const { return run_.goes_on() ? run_.calls() : history_.most_repeats(); }
  /// The sequence's next call, if it goes on as it did; null: nobody knows.
  const TensorCall* expected() const;
  /// The last call; null: there was none.
  const TensorCall* last() const;
  /// The calls before the sequence, or the last ones; then each sequence that is known.
  std::vector<std::span<const TensorCall>> seen() const;
  /// Number of the last sequence that was new.
  std::uint64_t last_id() const { return known_.last_id(); }
  /// Whether a sequence up to this number goes on, or may after strays.
  bool may_go_on_until(std::uint64_t id) const {
    return expected() != nullptr && known_.front().id <= id;
  }
  /// Forgets those up to this number that are not being repeated; forgotten() has them.
  void forget_until(std::uint64_t id);

  void save(StateWriter& to) const;
  /// Instead of all that was observed. Nothing of what `from` fails at.
  void load(StateReader& from);

 private:
  void leave();
  void give_up();
  void note_proof();
  std::size_t refuted_run() const;
  std::optional<KnownCycles::Place> find_new();
  void believe(const KnownCycles::Place& place);

  KnownCycles known_;
  CycleRun run_;  // Of the first of them.
  std::uint64_t breaks_ = 0;
  CallHistory history_;       // While a sequence is believed it tells the last calls.
  std::size_t evidence_ = 0;  // Of the longest run that was refuted since something was proven.
  // Calls since the end of a run that is no part of a longer sequence.
  std::size_t since_own_run_ = SIZE_MAX / 2;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_PATTERN_H_
