// The collective network that this library is to NCCL: all-reduces among the nodes, compressed. One
// core for all versions of NCCL's table; collnet_tables.cc holds those.
//
// Setup. Every node listens, and its handle names a rendezvous of its own; NCCL gives all handles
// to all nodes, and they meet at that of node 0. `connect` ends on all nodes alike: with a
// communicator that all have used once, or with an error, whereupon NCCL does without CollNet
// (coll_connect.h). So `listen` never fails: a node that cannot listen says so in its handle.
#ifndef NCCL_PLUGIN_PLUGIN_COLLNET_H_
#define NCCL_PLUGIN_PLUGIN_COLLNET_H_

#include <cstddef>
#include <cstdint>

#include "nccl_plugin/abi/types.h"
#include "nccl_plugin/plugin/object.h"
#include "nccl_plugin/plugin/registered_memory.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::plugin {

/// What init of version 11 and later gives as the context of a communicator.
struct CollNetContext : Object {
  static constexpr ObjectKind kKind = ObjectKind::kCollNetContext;
  explicit CollNetContext(std::uint64_t id) : Object(kKind), comm_id(id) {}
  const std::uint64_t comm_id;  // Of NCCL's communicator.
};

Status collnet_init(abi::Logger logger);
/// Null is gone already.
Status collnet_finalize(void* ctx);
/// Code::kInvalidUsage before collnet_init().
Status collnet_devices(int* count);

/// `ctx`: of a CollNetContext; null where the version has none.
Status collnet_listen(void* ctx, int device, void* handle, void** listen_comm);
/// Blocks until all nodes are there and have agreed, until one has ended instead, or for
/// RINGPRESS_TIMEOUT_MS, a minute at most, and a few seconds. When it fails, `listen_comm` is
/// freed: NCCL forgets it.
Status collnet_connect(void* const* handles, int count, int rank, void* listen_comm,
                       void** coll_comm);
/// Sums of compressible types.
Status collnet_reduce_support(abi::DataTypeNumber type, abi::OperationNumber op, int* supported);
/// Host memory only. Its handle is good until it is released, or the communicator is closed.
Status collnet_register(void* coll_comm, const MemoryRange& range, int type, void** mhandle);
/// Of this communicator; null is released already.
Status collnet_deregister(void* coll_comm, void* mhandle);

struct CollNetAllReduce {
  void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  abi::DataTypeNumber type = ncclFloat32;
  abi::OperationNumber op = ncclSum;
  void* send_mhandle = nullptr;  // Null: not registered. Else all of the data lies in it.
  void* receive_mhandle = nullptr;
};
/// `*request` is null, and nothing has happened, while there are as many as there can be. Where the
/// tensor is not known, `send` is set to zero when the call is done, unless it is `receive`, too:
/// it is NCCL's staging memory, and what lies behind a tensor's end is to be zero at its next use.
Status collnet_iallreduce(void* coll_comm, const CollNetAllReduce& call, void** request);
/// There is nothing to flush in host memory: `*request` is null. Refuses what iallreduce refuses.
Status collnet_iflush(void* coll_comm, const MemoryRange& range, void* mhandle, void** request);
/// `bytes` may be null. Where the communicator has failed, `*is_told` becomes true unless this is
/// the first request that says so.
Status collnet_test(void* request, int* done, int* bytes, bool* is_told);
/// Null is closed already. What is under way is given up, and the other nodes hear it. Nothing
/// happens in a process that was forked from the one with the communicator.
Status collnet_close(void* coll_comm);
Status collnet_close_listen(void* listen_comm);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLLNET_H_
