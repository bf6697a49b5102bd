// In which order a ring visits its ranks, so that it crosses the uplink of each host and rack once
// in each direction. Pure functions of plain values.
#ifndef RINGPRESS_INTERNAL_RING_ORDER_H_
#define RINGPRESS_INTERNAL_RING_ORDER_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress {

/// Where a rank is, from the top of the network down: {"row0", "rack3", "node17"}. Each name is one
/// more uplink below what comes before it.
using Location = std::vector<std::string>;

/// The ranks, such that those of a host follow each other, those of a rack too, and so on. Each
/// group comes where its lowest rank would, so ranks that are numbered so already keep their order.
std::vector<int> ring_order(const std::vector<Location>& locations);

/// How often a ring in this order leaves a host, a rack and so on, summed over all of them: the
/// crossings of uplinks, each way. At least one for each group that does not hold all ranks.
std::size_t crossings(const std::vector<Location>& locations, const std::vector<int>& order);

/// What a file says of a network. Hosts hang from racks, and racks from what is above them.
struct HostMap {
  std::map<std::string, std::string> above;  // Of each name; "": nothing.
  std::map<int, std::string> hosts;          // Of ranks, where the file names ranks. Else empty.

  bool is_host(const std::string& name) const;
};

/// Reads any of these; "#" begins a comment. An error begins with the line.
///
///   node0 rack0                           a name and what it hangs from: hosts, racks, rows ...
///   node[0-3,7],gpu1 rack0                several names, and what all of them hang from
///   node[0-3,7],gpu1                      hosts alone, as Slurm lists them
///   node0 slots=4   or   node0:4          an MPI host file; slots are left to MPI
///   rank 0=node0 slot=0                   an MPI rank file; the host is one of the other lines'
///                                         if there are any
///   SwitchName=s0 Nodes=node[0-3]         Slurm's topology.conf; and Switches=s[0-1]
///   <system ...> ... <gpu rank="0" ...>   an NCCL topology as NCCL_TOPO_DUMP_FILE writes it: of
///   each
///                                         rank the host, by the host_hash of its <cpu>
Result<HostMap> parse_host_map(std::string_view text);

/// A line that differs for maps that differ: "4 hosts, 2 above them, 1f00c0de1f00c0de".
std::string summary(const HostMap& map);

/// Of each rank. `hosts` are those that the ranks are on, by rank; of a name that is not in the map
/// the part before the first dot is looked for. Where the map names ranks, it is believed. An error
/// names the rank and its host.
Result<std::vector<Location>> locations_of(const HostMap& map,
                                           const std::vector<std::string>& hosts);

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_RING_ORDER_H_
