// Which part of its tensor a call sends, where a codec sends one part in each call and all of them
// in a cycle (Projection::cycle()): in turn, so that each cycle of a tensor's calls sends each part
// once. That is to hold for whatever the tensors are, which calls alone do not say: a step with
// three calls of one shape may be that of three tensors, or of one that is called three times.
//
// Calls of one shape take the parts in turn, whosever they are: so does one tensor. If M tensors
// have that shape, each takes every M-th turn and would see some of the parts only, where M and the
// cycle C have a divisor in common. So the turns go on by one more whenever lcm(C, M) calls have
// come, which is never within a cycle: M tensors then take all parts in each C of their calls, and
// one tensor does so as before.
//
// M is how often the shape comes in the sequence that the calls repeat, by shapes alone; at
// least 2. So all ranks find the same, whatever their buffers do: new ones each time, several by
// turns, or one for all. Calls between steps, of other shapes, change nothing. Until calls of
// different shapes have repeated, M is not known. Two is right for one tensor and for two, and the
// turns jump every two cycles, so that each of several takes all parts equally often in the long
// run.
//
// Where all calls have one shape, addresses tell tensors from each other, if they repeat: then what
// is kept for an address is to say which part comes (is_by_address).
#ifndef NCCL_PLUGIN_SESSION_CALLS_SLICE_TURNS_H_
#define NCCL_PLUGIN_SESSION_CALLS_SLICE_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// The shortest sequence that the calls so far repeat from the first of them on, which may be cut
/// off at the end. By numbers that stand for calls.
class SequenceFromStart {
 public:
  static constexpr std::size_t kMostCalls = 2 * CallHistory::kLongestPeriod;

  void add(std::uint64_t call);
  /// 0: they repeat nothing, or have become too many.
  std::size_t period() const;
  std::size_t size() const { return calls_.size(); }
  void save(StateWriter& to) const;
  void load(StateReader& from);
  std::uint64_t operator[](std::size_t call) const { return calls_[call]; }

 private:
  std::vector<std::uint64_t> calls_;
  std::vector<std::size_t> borders_;  // [i]: so many of the first i + 1 calls are their last ones.
  bool is_too_long_ = false;
};

/// What a call does.
struct SliceTurn {
  std::uint64_t turn = 0;  // CollectiveContext::turn. The same on all ranks.
  bool is_by_address = false;
};

/// Of one communicator. All ranks show it the same calls in the same order, but for addresses.
class SliceTurns {
 public:
  explicit SliceTurns(std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>())
      : sequence_(std::move(sequence)) {}

  /// Of the coming call; its shape's cycle. The sequence is told of it, if it has not been told.
  SliceTurn next(const TensorCall& call, std::size_t cycle);

  /// What is equal on all ranks, but for the sequence. Addresses tell again, as soon as they
  /// repeat.
  void save(StateWriter& to) const;
  void load(StateReader& from);
  /// What `other` knows, about the calls of its own sequence.
  void adopt(SliceTurns&& other);

 private:
  struct Shape {
    std::uint64_t calls = 0;
    std::uint64_t shift = 0;  // So many more turns than calls.
    std::size_t cycle = 1;
  };
  // More than a program has: one whose calls all differ would fill the memory.
  static constexpr std::size_t kMostShapes = 4096;

  using Counts = std::map<std::uint64_t, std::size_t>;  // By shape.

  void learn(const TensorCall& call, std::uint64_t shape);
  void learn_step(const Counts& step);
  void go_on(std::uint64_t number, Shape* shape) const;

  struct Seen {
    std::uint64_t cycle_id = 0;  // Of the last proven sequence.
    bool is_proven = false;
    // Until it finds a sequence of different shapes:
    SequenceFromStart shapes;
    std::size_t period = 0;  // Of shapes.
    SequenceFromStart buffers;
    Counts in_step;  // How often a shape comes in a step; empty: not known.
    std::map<std::uint64_t, Shape> known;
  };

  std::shared_ptr<CallSequence> sequence_;
  Seen seen_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_SLICE_TURNS_H_
