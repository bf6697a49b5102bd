// The network that this library is to NCCL: point-to-point messages over ringpress's own TCP links.
// One core for all versions of NCCL's table; net_tables.cc holds those. Messages are carried as they
// are: nothing is compressed here, for NCCL's rings would pass a loss on unequally.
//
// Threads: NCCL connects and registers in one thread and moves data in another, one connection in
// one thread at a time; each connection has sockets and state of its own, so nothing is locked
// between them.
#ifndef NCCL_PLUGIN_PLUGIN_NET_H_
#define NCCL_PLUGIN_PLUGIN_NET_H_

#include <cstddef>
#include <span>

#include "nccl_plugin/abi/types.h"
#include "ringpress/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Of NCCL_NET and NCCL's log.
inline constexpr const char* kNetName = "ringpress";

/// Reads the settings; the rest of these calls goes by them. kInvalidArgument for a setting that
/// cannot be. May be called again.
Status net_init(abi::Logger logger);
/// 0 before net_init().
int net_devices();

/// The places that NCCL's calls fill must not be null; `handle` is kHandleBytes long.
Status net_listen(int device, void* handle, void** listen_comm);
/// `*send_comm` stays null until the other side has accepted: call again with the same handle.
Status net_connect(int device, void* handle, void** send_comm);
/// Likewise until somebody has connected.
Status net_accept(void* listen_comm, void** receive_comm);
Status net_register(void* comm, void* data, std::size_t bytes, int type, void** mhandle);
Status net_deregister(void* comm, void* mhandle);
/// `*request` is null, and nothing has happened, while the connection has all the requests that it
/// can have.
Status net_isend(void* send_comm, void* data, std::size_t bytes, void** request);
Status net_irecv(void* receive_comm, int count, void* const* data, std::span<const std::size_t> bytes,
                 void** request);
/// Moves bytes. When `*done`, `sizes` (may be null) has the bytes of the message, and the request is
/// gone; so it is after an error.
Status net_test(void* request, int* done, int* sizes);
/// Null is closed already. What is under way is given up, and the other side hears it.
Status net_close_send(void* send_comm);
Status net_close_receive(void* receive_comm);
Status net_close_listen(void* listen_comm);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NET_H_
