// How often a call has come before.
#ifndef NCCL_PLUGIN_SESSION_CALLS_RECURRENCES_H_
#define NCCL_PLUGIN_SESSION_CALLS_RECURRENCES_H_

#include <cstdint>

#include "nccl_plugin/session/calls/by_shape.h"
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
    return counts_.of(request)++;
  }

  void save(StateWriter& to) const { counts_.save(to); }
  /// Instead of all that was counted.
  void load(StateReader& from) {
    counts_.load(from, [](StateReader& saved) { return saved.get<std::uint64_t>(); });
  }

 private:
  ByShape<std::uint64_t> counts_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_RECURRENCES_H_
