// RINGPRESS_TOPOLOGY: where ranks are, and what order their ring has because of that.
#ifndef NCCL_PLUGIN_SESSION_RING_TOPOLOGY_H_
#define NCCL_PLUGIN_SESSION_RING_TOPOLOGY_H_

#include <string>
#include <vector>

#include "ringpress/internal/ring_order.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// What the setting says on this rank.
struct RingTopology {
  TopologyChoice choice;
  HostMap map;     // Of the file.
  Status problem;  // Ok, or why the file has no map.
  /// Must be equal on all ranks; `problem` too, so that ranks without a map still meet the others
  /// and all can say who has what.
  std::string agreed;

  std::string own_host;  // NCCL_HOSTID, or the name of this host.

  bool is_file() const { return choice.by == RingOrderBy::kFile; }
};

/// Reads the file.
RingTopology read_ring_topology(const Settings& settings);

/// `problem`, or kInvalidArgument where the file names hosts, but not this one: a communicator with
/// a rank here would be refused.
Status check_own_place(const RingTopology& topology);

/// Of a host that a map names, which is the same on all ranks; -1: it does not name this one.
int own_host_number(const RingTopology& topology);
/// The host of such a number, or that there is none.
std::string host_of_number(const RingTopology& topology, int number);

/// The order of the ring, by the map or by hosts alone. `hosts`: what ranks call their own, by
/// rank. Equal arguments give equal orders. Empty, with a warning, for a map that names ranks, but
/// another number of them: those of a communicator that was split off have other numbers.
Result<std::vector<int>> ring_order_of(const RingTopology& topology,
                                       const std::vector<std::string>& hosts);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_RING_TOPOLOGY_H_
