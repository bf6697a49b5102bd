// Entry points that move data: collectives, sends and receives.
#include <cstddef>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/configuration.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/operation.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

/// Which buffers a call needs on this rank.
struct Needs {
  bool send = true;
  bool receive = true;
  int blocks = 1;  // Runs of `count` elements in the larger buffer.
};

/// The names of the buffers in the entry point's own declaration.
struct Names {
  const char* send = "sendbuff";
  const char* receive = "recvbuff";
};

Status check_buffers(const Operation& operation, const Needs& needs, const Names& names) {
  RINGPRESS_RETURN_IF_ERROR(check_bytes(operation.count, operation.dtype, needs.blocks));
  if (operation.count == 0) return Status::ok();  // Empty tensors may have null pointers.
  if (needs.send) RINGPRESS_RETURN_IF_ERROR(check_pointer(operation.send, names.send));
  if (needs.receive) RINGPRESS_RETURN_IF_ERROR(check_pointer(operation.receive, names.receive));
  return Status::ok();
}

/// An entry point, and what it was given for this call; null: nothing.
struct Entry {
  const char* function;
  const ncclCollConfig_t* config = nullptr;
};

/// The common body: finds `comm`, reads `datatype`, lets `check` see to the rest, and makes the
/// call, or leaves it to the group.
template <typename Check>
ncclResult_t enqueue(const Entry& entry, ncclComm_t handle, const ncclDataType_t& datatype,
                     Operation operation, Check&& check) noexcept {
  return group_firewall(entry.function, handle, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_ready_comm(handle));
    if (entry.config != nullptr) {
      RINGPRESS_ASSIGN_OR_RETURN(operation.options,
                                 parse_call_options(entry.config, comm->traits().configuration));
    }
    RINGPRESS_ASSIGN_OR_RETURN(operation.dtype, to_dtype(enum_value(datatype)));
    RINGPRESS_RETURN_IF_ERROR(check(*comm, operation));
    if (operation.count == 0) return Status::ok();
    if (group_is_open() || !comm->traits().blocking()) return submit_operation(comm, operation);
    return comm->run(
        [&](Communicator& communicator) { return run_operation(communicator, operation); });
  });
}

Status check_reduction(ncclComm& comm, Operation& operation, const ncclRedOp_t& op) {
  RINGPRESS_ASSIGN_OR_RETURN(operation.reduction,
                             to_reduction(comm, enum_value(op), operation.dtype));
  return Status::ok();
}

Status check_root(const ncclComm& comm, const Operation& operation) {
  return check_rank(operation.root, comm.size(), "root");
}

ncclResult_t broadcast(const Entry& entry, const Operation& operation,
                       const ncclDataType_t& datatype, ncclComm_t comm, const Names& names) {
  return enqueue(entry, comm, datatype, operation, [&](ncclComm& c, Operation& o) -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_root(c, o));
    return check_buffers(o, {o.root == c.rank(), true, 1}, names);
  });
}

Status run_broadcast(Communicator& communicator, const Operation& o) {
  return communicator.broadcast(o.send, o.receive, o.count, o.dtype, o.root);
}

/// A send or a receive that is in no group.
Status run_transfer(Communicator& communicator, const Operation& operation) {
  const Transfer transfer = to_transfer(operation);
  return communicator.exchange({&transfer, 1});
}

ncclResult_t call_all_reduce(const Entry& entry, const void* sendbuff, void* recvbuff, size_t count,
                             ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm) {
  const auto run = [](Communicator& communicator, const Operation& o) {
    return communicator.all_reduce(o.send, o.receive, o.count, o.dtype, o.reduction);
  };
  return enqueue(entry, comm, datatype, {run, sendbuff, recvbuff, count},
                 [&](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_reduction(c, o, op));
                   return check_buffers(o, {}, {});
                 });
}

ncclResult_t call_reduce_scatter(const Entry& entry, const void* sendbuff, void* recvbuff,
                                 size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                 ncclComm_t comm) {
  const auto run = [](Communicator& communicator, const Operation& o) {
    return communicator.reduce_scatter(o.send, o.receive, o.count, o.dtype, o.reduction);
  };
  return enqueue(entry, comm, datatype, {run, sendbuff, recvbuff, recvcount},
                 [&](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_reduction(c, o, op));
                   return check_buffers(o, {true, true, c.size()}, {});
                 });
}

ncclResult_t call_all_gather(const Entry& entry, const void* sendbuff, void* recvbuff,
                             size_t sendcount, ncclDataType_t datatype, ncclComm_t comm) {
  const auto run = [](Communicator& communicator, const Operation& o) {
    return communicator.all_gather(o.send, o.receive, o.count, o.dtype);
  };
  return enqueue(entry, comm, datatype, {run, sendbuff, recvbuff, sendcount},
                 [](ncclComm& c, Operation& o) -> Status {
                   return check_buffers(o, {true, true, c.size()}, {});
                 });
}

ncclResult_t call_reduce(const Entry& entry, const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm) {
  const auto run = [](Communicator& communicator, const Operation& o) {
    return communicator.reduce(o.send, o.receive, o.count, o.dtype, o.reduction, o.root);
  };
  return enqueue(entry, comm, datatype, {run, sendbuff, recvbuff, count, root},
                 [&](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_reduction(c, o, op));
                   RINGPRESS_RETURN_IF_ERROR(check_root(c, o));
                   return check_buffers(o, {true, o.root == c.rank(), 1}, {});
                 });
}

ncclResult_t call_all_to_all(const Entry& entry, const void* sendbuff, void* recvbuff, size_t count,
                             ncclDataType_t datatype, ncclComm_t comm) {
  return enqueue(entry, comm, datatype, {all_to_all, sendbuff, recvbuff, count},
                 [](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_buffers(o, {true, true, c.size()}, {}));
                   if (o.count == 0 || o.send != o.receive || c.size() == 1) return Status::ok();
                   return Status(ringpress::Code::kInvalidArgument,
                                 "sendbuff and recvbuff are equal, but it cannot work in place");
                 });
}

ncclResult_t call_gather(const Entry& entry, const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm) {
  return enqueue(entry, comm, datatype, {gather, sendbuff, recvbuff, count, root},
                 [](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_root(c, o));
                   return check_buffers(o, {true, o.root == c.rank(), c.size()}, {});
                 });
}

ncclResult_t call_scatter(const Entry& entry, const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm) {
  return enqueue(entry, comm, datatype, {scatter, sendbuff, recvbuff, count, root},
                 [](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_root(c, o));
                   return check_buffers(o, {o.root == c.rank(), true, c.size()}, {});
                 });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Communicator;
using ringpress::Status;

RINGPRESS_EXPORT ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                            ncclDataType_t datatype, ncclRedOp_t op,
                                            ncclComm_t comm, cudaStream_t) {
  return call_all_reduce({"ncclAllReduce"}, sendbuff, recvbuff, count, datatype, op, comm);
}
RINGPRESS_PROFILING_NAME(AllReduce);

RINGPRESS_EXPORT ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff,
                                                  size_t count, ncclDataType_t datatype,
                                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t,
                                                  const ncclCollConfig_t* config) {
  return call_all_reduce({"ncclAllReduceConfig", config}, sendbuff, recvbuff, count, datatype, op,
                         comm);
}
RINGPRESS_PROFILING_NAME(AllReduceConfig);

RINGPRESS_EXPORT ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff,
                                                size_t recvcount, ncclDataType_t datatype,
                                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return call_reduce_scatter({"ncclReduceScatter"}, sendbuff, recvbuff, recvcount, datatype, op,
                             comm);
}
RINGPRESS_PROFILING_NAME(ReduceScatter);

RINGPRESS_EXPORT ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff,
                                                      size_t recvcount, ncclDataType_t datatype,
                                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t,
                                                      const ncclCollConfig_t* config) {
  return call_reduce_scatter({"ncclReduceScatterConfig", config}, sendbuff, recvbuff, recvcount,
                             datatype, op, comm);
}
RINGPRESS_PROFILING_NAME(ReduceScatterConfig);

RINGPRESS_EXPORT ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                            ncclDataType_t datatype, ncclComm_t comm,
                                            cudaStream_t) {
  return call_all_gather({"ncclAllGather"}, sendbuff, recvbuff, sendcount, datatype, comm);
}
RINGPRESS_PROFILING_NAME(AllGather);

RINGPRESS_EXPORT ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff,
                                                  size_t sendcount, ncclDataType_t datatype,
                                                  ncclComm_t comm, cudaStream_t,
                                                  const ncclCollConfig_t* config) {
  return call_all_gather({"ncclAllGatherConfig", config}, sendbuff, recvbuff, sendcount, datatype,
                         comm);
}
RINGPRESS_PROFILING_NAME(AllGatherConfig);

RINGPRESS_EXPORT ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                            ncclDataType_t datatype, int root, ncclComm_t comm,
                                            cudaStream_t) {
  return broadcast({"ncclBroadcast"}, {run_broadcast, sendbuff, recvbuff, count, root}, datatype,
                   comm, {});
}
RINGPRESS_PROFILING_NAME(Broadcast);

RINGPRESS_EXPORT ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff,
                                                  size_t count, ncclDataType_t datatype, int root,
                                                  ncclComm_t comm, cudaStream_t,
                                                  const ncclCollConfig_t* config) {
  return broadcast({"ncclBroadcastConfig", config},
                   {run_broadcast, sendbuff, recvbuff, count, root}, datatype, comm, {});
}
RINGPRESS_PROFILING_NAME(BroadcastConfig);

RINGPRESS_EXPORT ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                                        ncclComm_t comm, cudaStream_t) {
  return broadcast({"ncclBcast"}, {run_broadcast, buff, buff, count, root}, datatype, comm,
                   {"buff", "buff"});
}
RINGPRESS_PROFILING_NAME(Bcast);

RINGPRESS_EXPORT ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                         ncclDataType_t datatype, ncclRedOp_t op, int root,
                                         ncclComm_t comm, cudaStream_t) {
  return call_reduce({"ncclReduce"}, sendbuff, recvbuff, count, datatype, op, root, comm);
}
RINGPRESS_PROFILING_NAME(Reduce);

RINGPRESS_EXPORT ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                               ncclDataType_t datatype, ncclRedOp_t op, int root,
                                               ncclComm_t comm, cudaStream_t,
                                               const ncclCollConfig_t* config) {
  return call_reduce({"ncclReduceConfig", config}, sendbuff, recvbuff, count, datatype, op, root,
                     comm);
}
RINGPRESS_PROFILING_NAME(ReduceConfig);

RINGPRESS_EXPORT ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t) {
  return call_all_to_all({"ncclAlltoAll"}, sendbuff, recvbuff, count, datatype, comm);
}
RINGPRESS_PROFILING_NAME(AlltoAll);

RINGPRESS_EXPORT ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                                 ncclDataType_t datatype, ncclComm_t comm,
                                                 cudaStream_t, const ncclCollConfig_t* config) {
  return call_all_to_all({"ncclAlltoAllConfig", config}, sendbuff, recvbuff, count, datatype, comm);
}
RINGPRESS_PROFILING_NAME(AlltoAllConfig);

RINGPRESS_EXPORT ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count,
                                         ncclDataType_t datatype, int root, ncclComm_t comm,
                                         cudaStream_t) {
  return call_gather({"ncclGather"}, sendbuff, recvbuff, count, datatype, root, comm);
}
RINGPRESS_PROFILING_NAME(Gather);

RINGPRESS_EXPORT ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                                               ncclDataType_t datatype, int root, ncclComm_t comm,
                                               cudaStream_t, const ncclCollConfig_t* config) {
  return call_gather({"ncclGatherConfig", config}, sendbuff, recvbuff, count, datatype, root, comm);
}
RINGPRESS_PROFILING_NAME(GatherConfig);

RINGPRESS_EXPORT ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                                          ncclDataType_t datatype, int root, ncclComm_t comm,
                                          cudaStream_t) {
  return call_scatter({"ncclScatter"}, sendbuff, recvbuff, count, datatype, root, comm);
}
RINGPRESS_PROFILING_NAME(Scatter);

RINGPRESS_EXPORT ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                                cudaStream_t, const ncclCollConfig_t* config) {
  return call_scatter({"ncclScatterConfig", config}, sendbuff, recvbuff, count, datatype, root,
                      comm);
}
RINGPRESS_PROFILING_NAME(ScatterConfig);

RINGPRESS_EXPORT ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype,
                                       int peer, ncclComm_t comm, cudaStream_t) {
  return enqueue({"ncclSend"}, comm, datatype, {run_transfer, sendbuff, nullptr, count, peer, true},
                 [](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_rank(o.root, c.size(), "peer"));
                   return check_buffers(o, {true, false, 1}, {});
                 });
}
RINGPRESS_PROFILING_NAME(Send);

RINGPRESS_EXPORT ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype,
                                       int peer, ncclComm_t comm, cudaStream_t) {
  return enqueue({"ncclRecv"}, comm, datatype, {run_transfer, nullptr, recvbuff, count, peer, true},
                 [](ncclComm& c, Operation& o) -> Status {
                   RINGPRESS_RETURN_IF_ERROR(check_rank(o.root, c.size(), "peer"));
                   return check_buffers(o, {false, true, 1}, {});
                 });
}
RINGPRESS_PROFILING_NAME(Recv);
