// Entry points for windows and one-sided calls.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/configuration.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/internal/one_sided.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

Status check_flags(int flags) {
  constexpr int kKnown =
      NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;
  if ((flags & ~kKnown) == 0) return Status::ok();
  return Status(Code::kInvalidArgument,
                "winFlags is " + std::to_string(flags) + ", which has bits that no flag has");
}

Status register_window(ncclComm_t handle, Buffer memory, ncclWindow_t* out, int flags) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_ready_comm(handle));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "win"));
  *out = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_flags(flags));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(memory.data, "buff"));
  if (memory.bytes == 0) return Status(Code::kInvalidArgument, "size is 0");
  Settings settings = settings_for_init(comm->traits().name());
  const auto run = [comm, memory, out, settings = std::move(settings)]() -> Status {
    return comm->run([&](Communicator& communicator) -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(
          void* const window,
          comm->objects().windows.register_memory(
              communicator, memory, comm->traits().configuration.one_sided, settings));
      *out = static_cast<ncclWindow_t>(window);
      return Status::ok();
    });
  };
  return submit_setup(comm, {nullptr, nullptr, run});
}

Status unknown_window() {
  return Status(Code::kInvalidArgument,
                "win was not made for this communicator, or is deregistered");
}

Status check_signal(const ncclComm& comm, const SignalName& name) {
  const OneSidedLimits& limits = comm.traits().configuration.one_sided;
  if (limits.contexts == 0) {
    return Status(Code::kInvalidUsage, "config.numRmaCtx is 0: there are no one-sided calls");
  }
  RINGPRESS_RETURN_IF_ERROR(check_rank(name.context, limits.contexts, "ctx"));
  return check_rank(name.index, limits.signals, "sigIdx");
}

/// What all one-sided calls that go to a peer have.
struct ToPeer {
  int peer = 0;
  SignalName signal;
  unsigned flags = 0;
};

Status check_to_peer(const ncclComm& comm, const ToPeer& to) {
  RINGPRESS_RETURN_IF_ERROR(check_rank(to.peer, comm.size(), "peer"));
  RINGPRESS_RETURN_IF_ERROR(check_signal(comm, to.signal));
  if (to.flags == 0) return Status::ok();
  return Status(Code::kInvalidArgument, "flags is " + std::to_string(to.flags) + ", but must be 0");
}

/// A part of a window, in elements.
struct Part {
  const void* source = nullptr;
  std::size_t count = 0;
  int dtype = 0;
  const void* window = nullptr;
  std::size_t offset = 0;
};

Result<Put> make_put(const ncclComm& comm, const Part& part, const ToPeer& to) {
  RINGPRESS_ASSIGN_OR_RETURN(const DType dtype, to_dtype(part.dtype));
  RINGPRESS_RETURN_IF_ERROR(check_to_peer(comm, to));
  RINGPRESS_RETURN_IF_ERROR(check_bytes(part.count, dtype, 1));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(part.window, "peerWin"));
  if (part.count > 0) RINGPRESS_RETURN_IF_ERROR(check_pointer(part.source, "localbuff"));
  return Put{to.peer, 0, part.offset, ConstBuffer(part.source, part.count * dtype_size(dtype)),
             to.signal};
}

Status put(ncclComm_t handle, const Part& part, const ToPeer& to) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_ready_comm(handle));
  RINGPRESS_ASSIGN_OR_RETURN(Put put, make_put(*comm, part, to));
  const Windows& windows = comm->objects().windows;
  RINGPRESS_ASSIGN_OR_RETURN(const Windows::Target target, windows.find(part.window, to.peer));
  put.window = target.number;
  if (put.offset > target.bytes || put.source.bytes > target.bytes - put.offset) {
    return Status(Code::kInvalidArgument, "peerWinOffset is " + std::to_string(put.offset) +
                                              " for " + std::to_string(put.source.bytes) +
                                              " bytes, but rank " + std::to_string(to.peer) +
                                              " has registered " + std::to_string(target.bytes));
  }
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<OneSided> calls, windows.one_sided());
  return submit_one_sided(comm, OneSidedKind::kPut, [calls, put] { return calls->put(put); });
}

Status signal(ncclComm_t handle, const ToPeer& to) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_ready_comm(handle));
  RINGPRESS_RETURN_IF_ERROR(check_to_peer(*comm, to));
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<OneSided> calls,
                             comm->objects().windows.one_sided());
  const Put put{to.peer, 0, 0, {}, to.signal};
  return submit_one_sided(comm, OneSidedKind::kPut, [calls, put] { return calls->put(put); });
}

Result<AwaitedSignals> to_awaited(const ncclComm& comm, const ncclWaitSignalDesc_t& from) {
  if (from.opCnt < 1) {
    return Status(Code::kInvalidArgument,
                  "opCnt is " + std::to_string(from.opCnt) + ", but must be at least 1");
  }
  const SignalName name{from.ctx, from.sigIdx};
  RINGPRESS_RETURN_IF_ERROR(check_rank(from.peer, comm.size(), "peer"));
  RINGPRESS_RETURN_IF_ERROR(check_signal(comm, name));
  return AwaitedSignals{from.peer, name, static_cast<std::uint64_t>(from.opCnt)};
}

Status wait_for_signals(ncclComm_t handle, int count, const ncclWaitSignalDesc_t* descriptors) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_ready_comm(handle));
  if (count < 1) {
    return Status(Code::kInvalidArgument,
                  "nDesc is " + std::to_string(count) + ", but must be at least 1");
  }
  RINGPRESS_RETURN_IF_ERROR(check_pointer(descriptors, "signalDescs"));
  std::vector<AwaitedSignals> awaited;
  for (int i = 0; i < count; ++i) {
    const auto one = to_awaited(*comm, descriptors[i]);
    if (!one.is_ok()) {
      return Status(one.status().code(),
                    "signalDescs[" + std::to_string(i) + "]: " + one.status().message());
    }
    awaited.push_back(one.value());
  }
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<OneSided> calls,
                             comm->objects().windows.one_sided());
  return submit_one_sided(comm, OneSidedKind::kWait,
                          [calls, awaited = std::move(awaited)] { return calls->wait(awaited); });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Buffer;
using ringpress::Status;

RINGPRESS_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size,
                                                     ncclWindow_t* win, int winFlags) {
  return group_firewall("ncclCommWindowRegister", comm, [&] {
    Buffer memory;
    memory.data = static_cast<std::byte*>(buff);
    memory.bytes = size;
    return register_window(comm, memory, win, winFlags);
  });
}
RINGPRESS_PROFILING_NAME(CommWindowRegister);

RINGPRESS_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return firewall("ncclCommWindowDeregister", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    if (live->life().check_suspended().is_ok()) return live->life().check_ready();
    if (win == nullptr || live->objects().windows.remove(win)) return Status::ok();
    return unknown_window();
  });
}
RINGPRESS_PROFILING_NAME(CommWindowDeregister);

RINGPRESS_EXPORT ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win,
                                                void** outUserPtr) {
  return firewall("ncclWinGetUserPtr", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(outUserPtr, "outUserPtr"));
    *outUserPtr = live->objects().windows.memory_of(win);
    return *outUserPtr == nullptr ? unknown_window() : Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(WinGetUserPtr);

RINGPRESS_EXPORT ncclResult_t ncclPutSignal(const void* localbuff, size_t count,
                                            ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                                            size_t peerWinOffset, int sigIdx, int ctx,
                                            unsigned int flags, ncclComm_t comm, cudaStream_t) {
  return group_firewall("ncclPutSignal", comm, [&] {
    return put(comm, {localbuff, count, enum_value(datatype), peerWin, peerWinOffset},
               {peer, {ctx, sigIdx}, flags});
  });
}
RINGPRESS_PROFILING_NAME(PutSignal);

RINGPRESS_EXPORT ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags,
                                         ncclComm_t comm, cudaStream_t) {
  return group_firewall("ncclSignal", comm, [&] {
    return signal(comm, {peer, {ctx, sigIdx}, flags});
  });
}
RINGPRESS_PROFILING_NAME(Signal);

RINGPRESS_EXPORT ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs,
                                             ncclComm_t comm, cudaStream_t) {
  return group_firewall("ncclWaitSignal", comm,
                        [&] { return wait_for_signals(comm, nDesc, signalDescs); });
}
RINGPRESS_PROFILING_NAME(WaitSignal);
