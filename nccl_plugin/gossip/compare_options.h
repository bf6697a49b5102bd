// What all workers must have been asked for alike.
#ifndef NCCL_PLUGIN_GOSSIP_COMPARE_OPTIONS_H_
#define NCCL_PLUGIN_GOSSIP_COMPARE_OPTIONS_H_

#include "nccl_plugin/gossip/options.h"
#include "nccl_plugin/gossip/peers.h"
#include "ringpress/status.h"

namespace ringpress::nccl_plugin::gossip {

/// All ranks call it. kMismatch names the first field that differs, with both ranks and values,
/// everywhere. `own`: an error of one rank in place of its options is one of all.
Status compare_options(Peers& peers, const GossipOptions& options, const Status& own);

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_COMPARE_OPTIONS_H_
