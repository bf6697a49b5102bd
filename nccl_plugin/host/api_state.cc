// Entry points for checkpoints (ringpress/ringpress.h).
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "nccl_plugin/session/lazy/lazy_flusher.h"
#include "ringpress/internal/export.h"
#include "ringpress/ringpress.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Communicator;
using ringpress::CommunicatorState;
using ringpress::Result;
using ringpress::StateLoad;
using ringpress::Status;

namespace {

static_assert(static_cast<int>(ringpress::StateOutcome::kOtherStep) == RINGPRESS_STATE_OTHER_STEP);
static_assert(ringpress::kStateOutcomeCount == RINGPRESS_STATE_OTHER_STEP + 1);

constexpr std::size_t kOldestStateLoadBytes = sizeof(ringpressStateLoad_t);

/// A communicator that the real library made keeps no state here.
Result<std::shared_ptr<ncclComm>> find_comm_with_state(ncclComm_t handle) {
  if (group_is_open()) {
    return Status(Code::kInvalidUsage, "a state within a group: it would not wait for its calls");
  }
  if (handle != nullptr && ringpress::nccl_plugin::lazy_flusher() && !find_comm(handle).is_ok()) {
    return Status(Code::kInvalidUsage,
                  "checkpoints are not on this door yet: residuals of a device are not saved");
  }
  return find_ready_comm(handle);
}

Result<CommunicatorState*> state_of(Communicator& communicator) {
  if (CommunicatorState* const state = communicator.state()) return state;
  return Status(Code::kUnsupported, "states are not kept at this door yet");
}

Status check_load_size(const ringpressStateLoad_t* load) {
  if (load == nullptr || load->size >= kOldestStateLoadBytes) return Status::ok();
  return {Code::kInvalidArgument, "load->size is " + std::to_string(load->size) +
                                      "; set it to sizeof(ringpressStateLoad_t)"};
}

void copy_load(const StateLoad& from, ringpressStateLoad_t* to) {
  ringpressStateLoad_t load{};
  load.size = to->size;
  load.outcome = static_cast<int>(from.outcome);
  load.rank = from.rank;
  std::snprintf(load.reason, sizeof load.reason, "%s", from.reason.c_str());
  std::memcpy(to, &load, std::min(to->size, sizeof load));
}

}  // namespace

extern "C" {

RINGPRESS_EXPORT int ringpressStateSave(void* comm, const char* path) {
  const auto handle = static_cast<ncclComm_t>(comm);
  return firewall("ringpressStateSave", handle, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm_with_state(handle));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(path, "path"));
    return live->run([&](Communicator& communicator) -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(const CommunicatorState* const state, state_of(communicator));
      return state->save(path);
    });
  });
}

RINGPRESS_EXPORT int ringpressStateLoad(void* comm, const char* path, ringpressStateLoad_t* load) {
  const auto handle = static_cast<ncclComm_t>(comm);
  return firewall("ringpressStateLoad", handle, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm_with_state(handle));
    const Status given = check_load_size(load);
    // The others hear of what is wrong here: without a file, all go without.
    const bool has_path = given.is_ok() && path != nullptr;
    StateLoad loaded;
    RINGPRESS_RETURN_IF_ERROR(live->run([&](Communicator& communicator) -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(CommunicatorState* const state, state_of(communicator));
      RINGPRESS_ASSIGN_OR_RETURN(loaded, state->load(has_path ? path : ""));
      return Status::ok();
    }));
    RINGPRESS_RETURN_IF_ERROR(given);
    RINGPRESS_RETURN_IF_ERROR(check_pointer(path, "path"));
    if (load != nullptr) copy_load(loaded, load);
    return Status::ok();
  });
}

}  // extern "C"
