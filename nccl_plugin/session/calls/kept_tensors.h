// What is kept of tensors from call to call: residuals, and what projecting codecs keep. By the
// place that a tensor has, by the name that the program gives it, or by its address alone.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSORS_H_
#define NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/kept_room.h"
#include "nccl_plugin/session/calls/kept_tensor.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// Of those that are in no sequence.
struct EntryCounts {
  std::size_t alone = 0;  // With an address alone.
  std::size_t named = 0;
};

/// Of one communicator. What is found is valid until the next call. Where not all fit, KeptRoom
/// says what has room.
class KeptTensors {
 public:
  /// As ErrorFeedback has them.
  KeptTensors(std::size_t limit_bytes, ResidualMemory& memory)
      : room_(limit_bytes), memory_(&memory) {}
  /// What `other` has, in this memory from now on, for calls that are counted anew. `other` has
  /// nothing then.
  KeptTensors(KeptTensors&& other, ResidualMemory& memory);

  /// The call that comes has this position in the sequence that is repeated, see PlaceOrder.
  void follow(CallsBy by, const CallPattern& pattern, std::size_t position, std::uint64_t calls) {
    room_.follow(by, pattern, position, calls);
  }
  /// The call at this place goes without what is kept.
  void pass(const KeptPlace& place);

  /// What is kept at a place, new if nothing is. Null: there is no room, or no memory.
  KeptTensor* at(const KeptPlace& place, const TensorCall& call, const ToKeep& wanted);
  /// That of the last such call at its address, without a residual. Makes room for nothing.
  KeptTensor* by_address(const TensorCall& call, ToKeep wanted);
  /// What is kept of a sequence, but for what an address alone can have: the calls go on, in
  /// another order. No time is lost where that is nothing.
  void drop(CallsBy by, std::uint64_t cycle);
  /// `is_one(entry)`: what is dropped.
  void forget(bool (*is_one)(const KeptTensor& entry));
  void halve_residuals();
  std::size_t bytes() const { return room_.held(); }

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  using Entries = KeptEntries;

  KeptTensor* look_up(const KeptPlace& place, const ToKeep& wanted);
  void drop_too_many();
  void leave_alone(Entries::iterator entry);
  bool make_room(std::size_t bytes, const KeptPlace& place, const KeptTensor* spared);
  KeptTensor* insert(const KeptPlace& place, const TensorCall& call, const ToKeep& wanted);
  float* allocate(std::size_t count, const KeptPlace& place);
  void fit_state(KeptTensor* entry, std::size_t state_count);
  void erase(Entries::iterator entry);
  void load_entry(StateReader& from);

  KeptRoom room_;
  ResidualMemory* memory_;
  EntryCounts counts_;
  Entries entries_;  // The most recently used first.
  std::map<KeptPlace, Entries::iterator> by_place_;
  // The entry that the last call with such an alone_place() had.
  std::map<KeptPlace, KeptPlace> by_address_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSORS_H_
