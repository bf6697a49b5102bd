// How the nodes become a communicator: all of them, or none.
#ifndef NCCL_PLUGIN_PLUGIN_COLL_CONNECT_H_
#define NCCL_PLUGIN_PLUGIN_COLL_CONNECT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "nccl_plugin/plugin/coll_comm.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::plugin {

/// What a node brings along.
struct CollConnectOptions {
  std::optional<std::uint64_t> comm_id;  // Of NCCL's communicator, where it tells it.
  Settings settings;
  Rendezvous* rendezvous = nullptr;  // That of this node's own handle; null if that is zero.
};

/// The nodes meet at the rendezvous of handle 0. All that can fail on one of them is done before
/// node 0 says that there is a communicator. It says so only within the time-out (a minute at
/// most), and the others wait for it two seconds longer, so a node that comes late finds all as
/// decided, one way or the other. A node that ends before it comes is not waited for: each listens
/// at its own handle until it has come, and node 0 notices when that is no longer so.
///
/// What remains: node 0 may stop for more than those two seconds, or die, between telling one node
/// and telling the next. Then the first have a communicator, and the others do not; its first use
/// fails.
Result<std::unique_ptr<CollComm>> connect_nodes(std::span<const UniqueId> handles, int rank,
                                                const CollConnectOptions& options);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLL_CONNECT_H_
