// What all workers must have been asked for alike.
#ifndef NCCL_PLUGIN_GOSSIP_COMPARE_OPTIONS_H_
#define NCCL_PLUGIN_GOSSIP_COMPARE_OPTIONS_H_

#include <cstdint>

#include "nccl_plugin/gossip/options.h"
#include "nccl_plugin/gossip/peers.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::gossip {

/// How one rank's own part has gone.
struct OwnPart {
  Status status;
  /// A value of its model that is not finite, if that is what is wrong.
  bool is_not_finite = false;
  std::uint64_t element = 0;
  double value = 0;
};

/// All ranks call it. kMismatch names the first field that differs, with both ranks and values,
/// everywhere; an error of one rank's own part is one of all. Gives a number that tells this gossip
/// from others of the same ranks, equal on all of them.
Result<std::uint32_t> compare_options(Peers& peers, const GossipOptions& options,
                                      const OwnPart& own);

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_COMPARE_OPTIONS_H_
