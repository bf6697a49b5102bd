// Which tensors of the sequence that the calls repeat come first where not all can have something.
#ifndef NCCL_PLUGIN_SESSION_CALLS_PLACE_ORDER_H_
#define NCCL_PLUGIN_SESSION_CALLS_PLACE_ORDER_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "nccl_plugin/session/calls/call_sequence.h"

namespace ringpress::nccl_plugin {

/// A position in a sequence, of buffers or (for programs that allocate anew each step) of shapes.
/// What is kept besides residuals may have an address alone.
struct KeptPlace {
  std::optional<CallsBy> by;  // Nothing: an address alone.
  std::uint64_t cycle = 0;    // CallCycle::id; or the address, or the name.
  std::size_t position = 0;   // Or the count, or a hash of the shape.

  bool is_named() const { return by == CallsBy::kName; }
  auto operator<=>(const KeptPlace&) const = default;
};

/// The order of a sequence's places begins where a sequence of its length would have begun that the
/// communicator's first call had begun. So it is one order on all ranks, which make the same calls,
/// though some may have noticed the sequence at another call than others. A sequence keeps its
/// order until it is forgotten.
class PlaceOrder {
 public:
  /// From now on the calls repeat this sequence: call `calls` of the communicator, from 0 on, was
  /// that at `position`. True if it is another one than before. Else no time is lost.
  bool follow(CallsBy by, const CallPattern& pattern, std::size_t position, std::uint64_t calls);
  void forget(CallsBy by, std::uint64_t cycle);
  /// Nothing: the place is in no sequence that the calls repeat now.
  std::optional<std::size_t> of(const KeptPlace& place) const;

 private:
  using Sequence = std::pair<CallsBy, std::uint64_t>;

  std::optional<Sequence> followed_;
  std::map<KeptPlace, std::size_t> order_;      // Of its places.
  std::map<Sequence, std::size_t> beginnings_;  // Of these and earlier ones: what position 0 has.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_PLACE_ORDER_H_
