// RINGPRESS_BUDGET: what automatic mode may lose.
#ifndef NCCL_PLUGIN_SESSION_CALLS_BUDGET_H_
#define NCCL_PLUGIN_SESSION_CALLS_BUDGET_H_

#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// kInvalidArgument, with the reason, if it names no codec, or one that could not stand for others:
/// that looks at tensors as a whole, or whose ranks talk before they encode.
Status check_budget(const Settings& settings);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_BUDGET_H_
