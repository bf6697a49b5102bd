// Residuals of error feedback, and what projecting codecs keep, found again from call to call
// without knowing the program's tensors.
//
// A training step makes the same calls in the same order, step after step. The communicator's
// CallSequence says, once they repeat, at which position of the repeating sequence a call stands.
// The residual of a tensor belongs to a position. It is kept while other calls come between, until
// the sequence is forgotten. Where addresses do not recur, shapes have to do: once they have come
// so often that other tensors are not to be expected.
//
// Which residual a rank adds to its own values is its own affair: it need not be agreed with the
// others. What projecting codecs keep is compared with the others' before it is used
// (ringpress/internal/projection.h), and does no harm to another tensor of the same size: while a
// call's position is not known, that of the last such call at its address is taken.
#ifndef NCCL_PLUGIN_SESSION_CALLS_ERROR_FEEDBACK_H_
#define NCCL_PLUGIN_SESSION_CALLS_ERROR_FEEDBACK_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// What is to be kept of a tensor.
struct ToKeep {
  bool residual = true;
  std::size_t state_count = 0;   // Floats of ProjectionState.
  std::size_t memory_count = 0;  // Floats of ResidualMemory, zero at first, beside the residual.
};

/// What is kept of a tensor. Null: nothing of the kind.
struct Kept {
  float* residual = nullptr;  // call.count floats, zero at first.
  ProjectionState* state = nullptr;
  float* memory = nullptr;  // ToKeep::memory_count floats, aligned as the memory's allocations are.
};

/// Where residuals lie: in host memory or on a device.
class ResidualMemory {
 public:
  virtual ~ResidualMemory() = default;
  /// `count` zeros, or null if there is no room.
  virtual float* allocate(std::size_t count) = 0;
  virtual void free(float* memory) = 0;
};
/// That of the process. Lives for ever.
ResidualMemory& host_residual_memory();

/// The residuals of one communicator. One thread at a time.
class ErrorFeedback {
 public:
  /// `limit_bytes` 0: no limit. Above it, the residuals used longest ago are dropped; where
  /// `memory` has no room, those of other sequences. `memory` outlives this.
  explicit ErrorFeedback(std::size_t limit_bytes, ResidualMemory& memory = host_residual_memory(),
                         std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>())
      : limit_bytes_(limit_bytes), memory_(&memory), sequence_(std::move(sequence)) {}

  /// What is kept for a call, valid until the next find(). No residual if the call's place in the
  /// pattern is not certain yet; nothing if it alone exceeds the limit.
  Kept find(const TensorCall& call, const ToKeep& wanted = {});

  /// The call goes without what is kept of it, this time. It has its place in the pattern.
  void pass(const TensorCall& call) { static_cast<void>(locate(call)); }

  /// A result was no finite number. Programs whose loss is scaled take that for an overflow: they
  /// leave the step out and go on with half the scale. So half of each residual is kept, once
  /// until it is found again. Otherwise a codec that owes many steps' gradients would add what is
  /// many times too large for the new scale. Of residuals in host memory.
  void halve_residuals();

  /// Memory held, in bytes.
  std::size_t bytes() const { return bytes_; }

  /// Of residuals in host memory. The sequence is saved beside it.
  void save(StateWriter& to) const;
  /// For one that keeps nothing yet. Of what `from` fails at, nothing is to be used.
  void load(StateReader& from);
  /// Keeps what `loaded`, of the same memory and the same settings, has, and nothing else.
  void adopt(ErrorFeedback&& loaded);
  /// What belongs to places in sequences of shapes is dropped.
  void forget_shapes();

 private:
  // A residual belongs to a position in a sequence, of buffers or (for programs that allocate anew
  // each step) of shapes. What is kept besides may have an address alone.
  struct Key {
    std::optional<CallsBy> by;  // Nothing: an address alone.
    std::uint64_t cycle = 0;    // CallPattern::cycle_id(); or the address.
    std::size_t position = 0;   // Or the count.

    auto operator<=>(const Key&) const = default;
  };
  struct FreeFloats {
    ResidualMemory* memory = nullptr;
    void operator()(float* values) const { memory->free(values); }
  };
  struct Entry {
    Key key;
    TensorCall call;
    ToKeep kept;
    std::unique_ptr<float[], FreeFloats> residual;  // Or null; as
    std::unique_ptr<float[], FreeFloats> memory;    // Kept::memory.
    ProjectionState state;
    bool is_halved = false;  // Since it was found last.

    std::size_t bytes() const;
  };
  using Entries = std::list<Entry>;
  // So many entries with an address alone: a program that allocates anew makes ever more.
  static constexpr std::size_t kMostAlone = 1024;

  std::optional<Key> locate(const TensorCall& call);
  static Key alone_key(const TensorCall& call);
  Entry* look_up(const Key& key, const ToKeep& wanted);
  void adopt_alone(Entry* entry);
  Entry* entry_at(const Key& place, const TensorCall& call, const ToKeep& wanted);
  Entry* entry_by_address(const TensorCall& call, ToKeep wanted);
  void leave_alone(Entries::iterator entry);
  void drop_oldest_alone();
  bool may_go_by_shape(const CallPlaces& places);
  void drop(CallsBy by, std::uint64_t cycle);
  bool make_room(std::size_t bytes, std::size_t spared);
  Entry* insert(const Key& key, const TensorCall& call, const ToKeep& wanted);
  float* allocate(std::size_t count, const Key& key);
  void fit_state(Entry* entry, std::size_t state_count);
  void erase(Entries::iterator entry);
  static void save_key(const Key& key, StateWriter& to);
  static Key load_key(StateReader& from);
  static void save_entry(const Entry& entry, StateWriter& to);
  void load_entry(StateReader& from);

  std::size_t limit_bytes_;
  ResidualMemory* memory_;
  bool warned_ = false;  // Of a tensor above the limit.
  std::size_t bytes_ = 0;
  const std::shared_ptr<CallSequence> sequence_;
  bool keeps_buffers_ = true;       // The program, as far as is known.
  std::size_t calls_by_shape_ = 0;  // In a row: those that the pattern of shapes explains.
  std::size_t entries_by_shape_ = 0;
  std::size_t alone_entries_ = 0;
  Entries entries_;  // The most recently used first.
  std::map<Key, Entries::iterator> by_key_;
  std::map<Key, Key> by_address_;  // The entry that the last call with such an alone_key() had.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_ERROR_FEEDBACK_H_
