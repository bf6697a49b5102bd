// What the codecs of RINGPRESS_RULES must be, and which ones a communicator needs for them.
#ifndef NCCL_PLUGIN_SESSION_RULES_RULE_CODECS_H_
#define NCCL_PLUGIN_SESSION_RULES_RULE_CODECS_H_

#include <string>
#include <vector>

#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// kInvalidArgument names the line whose codec there is not, or that projects whole tensors: that
/// is for RINGPRESS_CODEC.
Status check_rules(const Settings& settings);

/// Each codec but "none" that a plan may name because of a rule, once: for a call, or as what would
/// be its codec.
std::vector<std::string> rule_codecs(const CallSettings& settings);

/// A codec, and how calls get it.
struct GivenCodec {
  std::string codec;
  bool error_feedback = false;
  Origin origin = Origin::kSetting;
};

/// Each codec that the planner gives to some call of that kind, by a rule or else, once: of large
/// calls that recur, between hosts, on whatever communicator.
std::vector<GivenCodec> given_codecs(const Settings& settings, CollectiveKind kind);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_RULES_RULE_CODECS_H_
