// What is kept of tensors from call to call: residuals, and what projecting codecs keep. By the
// place that a tensor has, or by its address alone.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSORS_H_
#define NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSORS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>

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

/// A position in a sequence, of buffers or (for programs that allocate anew each step) of shapes.
/// What is kept besides residuals may have an address alone.
struct KeptPlace {
  std::optional<CallsBy> by;  // Nothing: an address alone.
  std::uint64_t cycle = 0;    // CallPattern::cycle_id(); or the address.
  std::size_t position = 0;   // Or the count.

  auto operator<=>(const KeptPlace&) const = default;
};

struct FreeFloats {
  ResidualMemory* memory = nullptr;
  void operator()(float* values) const { memory->free(values); }
};

struct KeptTensor {
  KeptPlace place;
  TensorCall call;
  ToKeep kept;
  std::unique_ptr<float[], FreeFloats> residual;  // Or null; as
  std::unique_ptr<float[], FreeFloats> memory;    // Kept::memory.
  ProjectionState state;
  bool is_halved = false;  // Since it was found last.

  std::size_t bytes() const;
};

/// Of one communicator. Those used longest ago give way. What is found is valid until the next
/// call.
class KeptTensors {
 public:
  /// As ErrorFeedback has them.
  KeptTensors(std::size_t limit_bytes, ResidualMemory& memory)
      : limit_bytes_(limit_bytes), memory_(&memory) {}

  /// What is kept at a place, new if nothing is. Null: it alone exceeds the limit, or there is no
  /// memory.
  KeptTensor* at(const KeptPlace& place, const TensorCall& call, const ToKeep& wanted);
  /// That of the last such call at its address, without a residual. Makes room for nothing.
  KeptTensor* by_address(const TensorCall& call, ToKeep wanted);
  /// What is kept of a sequence, but for what an address alone can have: the calls go on, in
  /// another order. No time is lost where that is nothing.
  void drop(CallsBy by, std::uint64_t cycle);
  void forget_shapes();
  void halve_residuals();
  std::size_t bytes() const { return bytes_; }

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  using Entries = std::list<KeptTensor>;

  KeptTensor* look_up(const KeptPlace& place, const ToKeep& wanted);
  void note_alone(const KeptPlace& alone);
  void leave_alone(Entries::iterator entry);
  bool make_room(std::size_t bytes, std::size_t spared);
  KeptTensor* insert(const KeptPlace& place, const TensorCall& call, const ToKeep& wanted);
  float* allocate(std::size_t count, const KeptPlace& place);
  void fit_state(KeptTensor* entry, std::size_t state_count);
  void erase(Entries::iterator entry);
  void load_entry(StateReader& from);

  std::size_t limit_bytes_;
  ResidualMemory* memory_;
  bool warned_ = false;  // Of a tensor above the limit.
  std::size_t bytes_ = 0;
  std::size_t alone_entries_ = 0;
  Entries entries_;  // The most recently used first.
  std::map<KeptPlace, Entries::iterator> by_place_;
  // The entry that the last call with such an alone_place() had.
  std::map<KeptPlace, KeptPlace> by_address_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSORS_H_
