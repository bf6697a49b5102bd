// RINGPRESS_BUDGET: what automatic mode may lose.
#ifndef NCCL_PLUGIN_SESSION_CALLS_BUDGET_H_
#define NCCL_PLUGIN_SESSION_CALLS_BUDGET_H_

#include <string>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// kInvalidArgument, with the reason, if that is no codec, or one that could not stand for others:
/// that looks at tensors as a whole, or whose ranks talk before they encode. `given`: what the
/// codec was given by, such as "RINGPRESS_BUDGET="; the message begins with it.
Status check_budget(const std::string& codec, const std::string& given);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_BUDGET_H_
