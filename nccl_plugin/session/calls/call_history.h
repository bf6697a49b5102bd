// The last calls of a user, and how they repeat.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_HISTORY_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

std::uint64_t hash_of(const TensorCall& call);
std::vector<std::uint64_t> hashes_of(const std::vector<TensorCall>& calls);
void save_calls(const std::vector<TensorCall>& calls, StateWriter& to);
std::vector<TensorCall> load_calls(StateReader& from, std::size_t most);

/// The newest call is at the end.
class CallHistory {
 public:
  // Longest period that is counted.
  static constexpr std::size_t kLongestPeriod = 4096;
  // Calls that are kept at least, of those that come: two of the longest periods.
  static constexpr std::size_t kKept = 2 * kLongestPeriod;

  /// A call comes. Repeats are counted as far as a run of more than `refuted` calls can show.
  void note(const TensorCall& call, std::size_t refuted);
  /// Calls that came, of which nothing was noted: the first `count` of those from `at` on in the
  /// sequence that `calls` repeat.
  void append(std::span<const TensorCall> calls, std::span<const std::uint64_t> hashes,
              std::size_t at, std::size_t count);

  const std::vector<TensorCall>& calls() const { return calls_; }
  std::span<const TensorCall> last(std::size_t count) const {
    return std::span(calls_).last(count);
  }
  std::uint64_t last_hash() const { return hashes_.back(); }
  /// How many of the last calls equal the one `period` before, by their hashes.
  std::size_t repeats(std::size_t period) const { return repeats_[period - 1]; }
  /// The shortest period, up to `longest`, that the last calls have twice at least, if those are
  /// more than `explained`. 0: none.
  std::size_t shortest_period(std::size_t longest, std::size_t explained) const;
  /// Whether the last `count` calls, or as many as are kept for sure, are each the one `period`
  /// before.
  bool has_period(std::size_t period, std::size_t count) const;
  std::size_t most_repeats() const { return most_repeats_; }
  /// True if the last calls are those of the sequence up to `position`, a whole period of them.
  bool ends_at(std::span<const TensorCall> sequence, std::size_t position) const;

  void save(StateWriter& to) const;
  /// Instead of all that was noted.
  void load(StateReader& from);

 private:
  void trim();
  void update_repeats();
  void count_repeats_anew(std::size_t refuted);

  std::vector<TensorCall> calls_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::size_t> repeats_;  // [p]: how many of the last calls equal the one p + 1 before.
  std::size_t most_repeats_ = 0;
  bool counts_anew_ = false;  // The repeats are those of before append().
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_HISTORY_H_
