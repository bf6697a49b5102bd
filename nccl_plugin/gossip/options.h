// What gossip is asked for.
#ifndef NCCL_PLUGIN_GOSSIP_OPTIONS_H_
#define NCCL_PLUGIN_GOSSIP_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "nccl_plugin/gossip/trigger.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::gossip {

struct GossipOptions {
  std::size_t count = 0;  // Elements of the model.
  DType dtype = DType::kFloat32;
  TriggerRule rule;
  std::uint64_t seed = 0;
  std::string codec = "none";
};

/// Ok, or which field is out of range and what is allowed.
Status check(const GossipOptions& options);

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_OPTIONS_H_
