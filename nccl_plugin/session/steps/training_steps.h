// Which step of a training a call is of, by what is equal on all ranks: the order and the shapes of
// calls (kind, count, type, operation). Never by time, and never by addresses.
//
//   Calls that repeat a sequence of two different shapes at least (CallSequence): each time that
//   it comes is a step. When it is found, as many steps have gone before as its calls have come
//   whole.
//   Others, and calls of one shape again and again: their step is the number of calls of that shape
//   before, over those that a step had when there was one.
//
// It never goes back: buckets that are built anew, a model that is changed or an evaluation between
// steps go on where the steps were.
//
// In the first two steps nobody knows the sequence: of several calls of one shape each counts as a
// step there. Where all calls of a training have one shape, that stays so. Steps with an evaluation
// after every few of them are a sequence that comes less often: then it takes longer.
#ifndef NCCL_PLUGIN_SESSION_STEPS_TRAINING_STEPS_H_
#define NCCL_PLUGIN_SESSION_STEPS_TRAINING_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "nccl_plugin/session/calls/by_shape.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// That a call is of.
struct TrainingStep {
  std::size_t before = 0;  // Steps that were before it.
  bool is_known = false;   // Its calls are known to repeat, and have two shapes at least.
};

/// Of one communicator. One thread at a time.
class TrainingSteps {
 public:
  explicit TrainingSteps(std::shared_ptr<CallSequence> sequence) : sequence_(std::move(sequence)) {}

  /// That of the next call. CallUser::kWarmUp is told of no other calls.
  TrainingStep of_next(const TensorCall& call);
  /// The least that it says of later calls.
  std::size_t begun() const { return steps_; }

  /// All of it is equal on all ranks.
  void save(StateWriter& to) const;
  /// For one that has seen no call, with the sequence of that state. Of what `from` fails at,
  /// nothing is to be used.
  void load(StateReader& from);
  /// What `other` has counted, with the sequence that it was asked of.
  void adopt(TrainingSteps&& other);

 private:
  struct Calls {
    std::uint64_t made = 0;
    std::uint64_t in_step = 1;  // Of the last step that had some.
  };
  void enter(std::span<const TensorCall> step);

  const std::shared_ptr<CallSequence> sequence_;
  ByShape<Calls> calls_;
  std::uint64_t cycle_ = 0;  // CallCycle::id of the step; 0: of none.
  std::size_t steps_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_TRAINING_STEPS_H_
