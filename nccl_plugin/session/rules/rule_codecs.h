// What the codecs of RINGPRESS_RULES must be, and which ones a communicator needs for them.
#ifndef NCCL_PLUGIN_SESSION_RULES_RULE_CODECS_H_
#define NCCL_PLUGIN_SESSION_RULES_RULE_CODECS_H_

#include <string>
#include <vector>

#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// kInvalidArgument names the line whose codec there is not, or that projects whole tensors: that
/// is for RINGPRESS_CODEC.
Status check_rules(const Settings& settings);

/// Each codec but "none" that a plan may name because of a rule, once.
std::vector<std::string> rule_codecs(const CallSettings& settings);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_RULES_RULE_CODECS_H_
