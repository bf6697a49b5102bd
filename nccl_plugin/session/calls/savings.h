// Whether a codec makes a call smaller at all.
#ifndef NCCL_PLUGIN_SESSION_CALLS_SAVINGS_H_
#define NCCL_PLUGIN_SESSION_CALLS_SAVINGS_H_

#include "ringpress/internal/codec.h"
#include "ringpress/internal/planner.h"

namespace ringpress::nccl_plugin {

/// True if what the ranks send of such a call, encoded, is smaller than its elements. False for
/// "none" and for types that are no wider than what the codec makes of them. The same on all ranks.
/// How much is left by codecs without a fixed size is known only when they have encoded: they never
/// make more than the elements, and count as smaller.
bool saves_bytes(const Codec& codec, const PlanRequest& request);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_SAVINGS_H_
