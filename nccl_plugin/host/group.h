// ncclGroupStart() and ncclGroupEnd(): what a thread calls in between is kept and starts at the
// end.
//
// A group is a set of lanes, one per communicator. In a lane come first the setups (init, split,
// shrink), then the collectives in the order of the calls, then all sends and receives as one
// exchange, then puts and signals, then waits for signals, then finalize and destroy. Lanes run
// concurrently: the last one in the calling thread, each other one in its communicator's thread. A
// lane alone thus never leaves the calling thread.
#ifndef NCCL_PLUGIN_HOST_GROUP_H_
#define NCCL_PLUGIN_HOST_GROUP_H_

#include <functional>
#include <memory>
#include <utility>

#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/operation.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {

/// Makes a communicator: `run` ends with comm->attach().
struct Setup {
  std::shared_ptr<ncclComm> comm;  // Registered already. Null: this rank gets none of the split.
  ncclComm_t* out = nullptr;       // Holds its handle; set to null if a blocking setup fails.
  std::function<Status()> run;
};

/// True in the thread between its ncclGroupStart() and the outermost ncclGroupEnd().
bool group_is_open() noexcept;
void group_start();
/// kInProgress if the communicators are nonblocking.
Status group_end();
/// Ends the group as group_end() does, but runs nothing.
Status group_drop();
/// The end of the group will return `status` (the first one noted) and run nothing.
void group_note(const Status& status) noexcept;

// Each of these runs its part now (kInProgress if nonblocking), or at the end of the open group.

/// `comm` is where the setup runs: the parent of a split, or the new communicator itself.
Status submit_setup(const std::shared_ptr<ncclComm>& comm, Setup setup);
/// Of a blocking communicator: in an open group only.
Status submit_operation(const std::shared_ptr<ncclComm>& comm, const Operation& operation);
/// Of a group the puts are made before the waits.
enum class OneSidedKind { kPut, kWait };
Status submit_one_sided(const std::shared_ptr<ncclComm>& comm, OneSidedKind kind,
                        std::function<Status()> call);
Status submit_finalize(const std::shared_ptr<ncclComm>& comm);
/// `comm` must be live; its handle dies now or at the end of the group.
Status submit_destroy(const std::shared_ptr<ncclComm>& comm);

/// The body of an entry point that groups collect: an error also fails the open group.
template <typename Body>
ncclResult_t group_firewall(const char* function, ncclComm_t comm, Body&& body) noexcept {
  const Status status = catch_all(std::forward<Body>(body));
  if (!status.is_ok() && group_is_open()) group_note(status);
  return report(function, comm, status);
}

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_GROUP_H_
