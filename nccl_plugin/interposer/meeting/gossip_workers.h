// Gossip over communicators of the real NCCL. They need not be ones that the engine compresses.
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_WORKERS_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_WORKERS_H_

#include <functional>
#include <memory>

#include "nccl_plugin/gossip/workers.h"
#include "nccl_plugin/interposer/meeting/gossip_comms.h"
#include "nccl_plugin/preload/engine.h"
#include "ringpress/internal/setting_types.h"

namespace ringpress::nccl_plugin::interposer {

/// What the engine knows and workers need.
struct GossipGround {
  const ringpressRealNccl& real;
  BackendChoice backend = {};
  std::function<bool()> is_grouped;  // This thread is within a group of calls.
  GossipComms& comms;
};

/// `ground` is copied; what it refers to lives as long as the process.
Result<std::unique_ptr<gossip::Workers>> make_gossip_workers(const GossipGround& ground,
                                                             ncclComm_t comm);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_WORKERS_H_
