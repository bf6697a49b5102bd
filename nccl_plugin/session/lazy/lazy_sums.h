// What has been added up of gradients that are put off, tensor by tensor (lazy_calls.h).
//
// When the sequence of calls breaks, what has been added up is an orphan until a call of its tensor
// comes, with which it is sent. Where calls are otherwise the same, that is the call at its place
// in the step, if its buffer is a new one: one that had another place before may be another
// tensor's turn, or memory that is used again, and what cannot be told is not mixed. Where the
// calls differ it is the next one of the same buffer, if no other tensor was of its shape. Orphans
// that wait for more than RINGPRESS_LAZY_CALLS steps are given up, and counted as unsent.
#ifndef NCCL_PLUGIN_SESSION_LAZY_LAZY_SUMS_H_
#define NCCL_PLUGIN_SESSION_LAZY_LAZY_SUMS_H_

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/session/lazy/lazy_memory.h"
#include "nccl_plugin/session/lazy/lazy_places.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// Of one tensor.
struct SumOfCalls {
  TensorCall call;
  std::optional<std::size_t> place;  // LazyPlace::own_place.
  LazySum values;
  bool is_contested = false;     // Another tensor was seen at an orphan's place.
  std::size_t steps_missed = 0;  // By an orphan.
  std::size_t calls = 0;
  double norms = 0;         // Of the single gradients, added up.
  double length = 0;        // Of `values`.
  bool is_flushed = false;  // The next call is to be sent.
};

/// What has been put off and not sent.
struct UnsentSums {
  std::size_t tensors = 0;
  std::size_t elements = 0;  // Of these tensors.
  double norm = 0;           // l2, of all sums together.

  void add(const SumOfCalls& sum);
};

/// Of one communicator. One thread at a time.
class LazySums {
 public:
  LazySums(const CallSettings& settings, LazyMemory& memory, int rank,
           std::shared_ptr<CallSequence> sequence)
      : most_steps_(settings.lazy_calls),
        limit_bytes_(settings.feedback_limit_bytes),
        rank_(rank),
        memory_(memory),
        steps_(std::move(sequence)) {}

  /// The sum that this call's values may be added to; an orphan is to be sent with it. Null: the
  /// call has no certain place, or there is no memory. Nothing that is kept is given up.
  SumOfCalls* find(const TensorCall& call, bool* is_orphan);
  /// It has been sent.
  Status begin_anew(SumOfCalls* sum);
  /// The next call of every tensor is to be sent. (Orphans are in any case.)
  void flush();
  /// What was given up included.
  UnsentSums unsent() const;
  /// Memory held.
  std::size_t bytes() const { return bytes_; }

 private:
  void observe(const TensorCall& call);
  void orphan_sums();
  void count_missed_step();
  bool is_of(const TensorCall& call, SumOfCalls* orphan) const;
  bool is_repeated(const TensorCall& call);
  SumOfCalls* find_known(const TensorCall& call);

  const std::size_t most_steps_;
  const std::size_t limit_bytes_;  // 0: none.
  const int rank_;
  LazyMemory& memory_;
  LazySteps steps_;
  LazyPlace at_;  // The last call.
  LazyTensors tensors_;
  std::map<std::size_t, SumOfCalls> sums_;  // By position.
  std::list<SumOfCalls> orphans_;           // Whose position is no more.
  std::vector<TensorCall> repeated_;        // Of this sequence.
  UnsentSums given_up_;
  std::size_t bytes_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LAZY_LAZY_SUMS_H_
