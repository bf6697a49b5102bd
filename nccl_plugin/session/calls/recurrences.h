// How often a call has come before.
#ifndef NCCL_PLUGIN_SESSION_CALLS_RECURRENCES_H_
#define NCCL_PLUGIN_SESSION_CALLS_RECURRENCES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>

#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/planner.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {

/// Of one communicator. All ranks make the same calls in the same order, so all of them count and
/// forget alike.
class Recurrences {
 public:
  /// Earlier calls of this kind, count, type and operation. Those that are never compressed are not
  /// counted: not every rank need show them here.
  std::uint64_t count(const PlanRequest& request) {
    if (tuner::why_never_lossy(request).reason != ExactReason::kNone) return 0;
    const Key key{request.kind, request.count, request.dtype, request.op};
    if (counts_.size() == kMostKinds && counts_.find(key) == counts_.end()) counts_.clear();
    return counts_[key]++;
  }

  void save(StateWriter& to) const {
    to.put<std::uint64_t>(counts_.size());
    for (const auto& [key, count] : counts_) {
      const auto& [kind, elements, dtype, op] = key;
      to.put(kind);
      to.put<std::uint64_t>(elements);
      to.put(dtype);
      to.put(op);
      to.put(count);
    }
  }
  /// Instead of all that was counted.
  void load(StateReader& from) {
    counts_.clear();
    const std::size_t kinds = from.get_count(kSavedBytes, kMostKinds);
    for (std::size_t i = 0; i < kinds; ++i) {
      const auto kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
      const auto elements = static_cast<std::size_t>(from.get<std::uint64_t>());
      const auto dtype = static_cast<DType>(from.get_below(kDTypeCount));
      const auto op = static_cast<ReduceOp>(from.get_below(kReduceOpCount));
      counts_[Key{kind, elements, dtype, op}] = from.get<std::uint64_t>();
    }
  }

 private:
  using Key = std::tuple<CollectiveKind, std::size_t, DType, ReduceOp>;
  // More than a program makes in a step. One whose calls all differ would fill the memory; what
  // recurs in others is soon known again.
  static constexpr std::size_t kMostKinds = 4096;
  static constexpr std::size_t kSavedBytes = 19;  // Of each.

  std::map<Key, std::uint64_t> counts_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_RECURRENCES_H_
