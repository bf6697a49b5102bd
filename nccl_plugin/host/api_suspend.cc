// Entry points for the memory that a communicator holds.
#include <memory>
#include <string>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Communicator;
using ringpress::CommunicatorState;
using ringpress::MemoryUse;
using ringpress::Result;
using ringpress::Status;

namespace {

Status suspend(ncclComm_t handle, int flags) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_ready_comm(handle));
  if (flags != NCCL_SUSPEND_MEM) {
    return Status(Code::kInvalidArgument,
                  "flags is " + std::to_string(flags) + ", but must be NCCL_SUSPEND_MEM");
  }
  return submit_setup(comm, {nullptr, nullptr, [comm]() -> Status {
                               return comm->run([&](Communicator& communicator) -> Status {
                                 if (CommunicatorState* const state = communicator.state()) {
                                   state->give_back_memory();
                                 }
                                 comm->life().pause(CommLife::State::kSuspended);
                                 return Status::ok();
                               });
                             }});
}

Status resume(ncclComm_t handle) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> comm, find_comm(handle));
  // In a group it may be suspended only when its turn comes.
  if (!group_is_open()) RINGPRESS_RETURN_IF_ERROR(comm->life().check_suspended());
  return submit_setup(comm, {nullptr, nullptr, [comm] { return comm->life().resume(); }});
}

Result<std::uint64_t> statistic(ncclComm& comm, int stat) {
  if (stat == ncclStatGpuMemSuspended) return comm.life().check_suspended().is_ok() ? 1 : 0;
  MemoryUse use;
  if (!comm.run_after_calls([&use](Communicator& communicator) {
        if (const auto* const state = communicator.state()) use = state->memory_use();
      })) {
    return Status(Code::kInvalidUsage, "a call is under way on comm");
  }
  switch (stat) {
    case ncclStatGpuMemSuspend:
      return use.spare;
    case ncclStatGpuMemPersist:
      return use.kept;
    case ncclStatGpuMemTotal:
      return use.spare + use.kept;
    default:
      return Status(Code::kInvalidArgument,
                    "stat " + std::to_string(stat) + " is not an ncclCommMemStat_t");
  }
}

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  return group_firewall("ncclCommSuspend", comm, [&] { return suspend(comm, flags); });
}
RINGPRESS_PROFILING_NAME(CommSuspend);

RINGPRESS_EXPORT ncclResult_t ncclCommResume(ncclComm_t comm) {
  return group_firewall("ncclCommResume", comm, [&] { return resume(comm); });
}
RINGPRESS_PROFILING_NAME(CommResume);

RINGPRESS_EXPORT ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat,
                                               uint64_t* value) {
  return firewall("ncclCommMemStats", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_known_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(value, "value"));
    RINGPRESS_ASSIGN_OR_RETURN(*value, statistic(*live, enum_value(stat)));
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(CommMemStats);
