// The network that this library is to NCCL: point-to-point messages over ringpress's own TCP links.
// One core for all versions of NCCL's table; net_tables.cc holds those. Messages are carried as
// they are: nothing is compressed here, for NCCL's rings would pass a loss on unequally.
//
// Threads: NCCL connects and registers in one thread and moves data in another, one connection in
// one thread at a time; each connection has sockets and state of its own, so nothing is locked
// between them.
#ifndef NCCL_PLUGIN_PLUGIN_NET_H_
#define NCCL_PLUGIN_PLUGIN_NET_H_

#include <cstddef>
#include <cstdint>

#include "nccl_plugin/abi/types.h"
#include "nccl_plugin/plugin/registered_memory.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Of NCCL_NET and NCCL's log.
inline constexpr const char* kNetName = "ringpress";
/// Of one message: NCCL counts the bytes of what came in an int, and its own sockets take no more.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;
/// Connections that NCCL may make. Descriptors run out first.
inline constexpr int kMaxConnections = 65536;

/// Takes over NCCL's log and reads the settings. A wrong setting does not fail it, for a rank whose
/// network fails uses another one than its peers: it warns and takes the default. May be called
/// again.
Status net_init(abi::Logger logger);
/// NCCL has called it: this library is its network, or was asked to be.
bool is_net_initialised();
/// The same for a communicator of NCCL's, which `*ctx` (may be null: then there is none) stands
/// for.
Status net_init_context(void** ctx, abi::Logger logger);
/// Gives up what the communicator has begun to connect and not called for to the end. Null is gone
/// already.
Status net_finalize(void* ctx);
/// kInvalidUsage before net_init().
Status net_devices(int* count);

/// The places that these fill must not be null. `handle` is kHandleBytes long.
Status net_listen(int device, void* handle, void** listen_comm);
/// `*send_comm` stays null until the other side has accepted: call again with the same handle, at
/// the same address. `ctx`: of the communicator; null where the version has none.
Status net_connect(const void* ctx, int device, const void* handle, void** send_comm);
/// Likewise until somebody has connected.
Status net_accept(void* listen_comm, void** receive_comm);
/// Host memory only. Its handle is good with every connection until it is released, by the
/// connection that it was registered with, or until that is closed.
Status net_register(void* comm, const MemoryRange& range, int type, void** mhandle);
/// Null is released already.
Status net_deregister(void* comm, void* mhandle);

/// Where a message comes from or goes to.
struct NetBuffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  void* mhandle = nullptr;  // Null: not registered. Else all of the data lies in it.
};

// The first failure of a connection is final. `*is_told` becomes true where one of these calls has
// returned it before.

/// `*request` is null, and nothing has happened, while the connection has all the requests that it
/// can have.
Status net_isend(void* send_comm, const NetBuffer& message, void** request, bool* is_told);
/// A message of at most so many bytes. What `*request` holds on entry, a hint of NCCL's, is
/// ignored.
Status net_irecv(void* receive_comm, const NetBuffer& place, void** request, bool* is_told);
/// There is nothing to flush in host memory: `*request` is null. Refuses what irecv refuses.
Status net_iflush(void* receive_comm, const NetBuffer& place, void** request);
/// Moves bytes. When `*done`, `size` (may be null) has the bytes of the message and the request is
/// gone. A request that has failed fails again.
Status net_test(void* request, int* done, int* size, bool* is_told);

/// Null is closed already. What is under way is given up, and the other side hears it.
Status net_close_send(void* send_comm);
Status net_close_receive(void* receive_comm);
Status net_close_listen(void* listen_comm);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NET_H_
