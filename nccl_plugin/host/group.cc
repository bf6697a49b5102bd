#include "nccl_plugin/host/group.h"

#include <algorithm>
#include <latch>
#include <vector>

#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/session/calls/call_issue.h"

namespace ringpress::nccl_plugin::host {
namespace {

/// What one group holds for one communicator.
struct Lane {
  std::shared_ptr<ncclComm> comm;
  std::vector<Setup> setups;
  std::vector<Operation> collectives;
  std::vector<Transfer> transfers;
  bool finalize = false;
  bool destroy = false;
  CallIssue issue = {};  // Of what it holds, when the group ends.
};

struct Group {
  int depth = 0;
  Status error;  // The first one; such a group runs nothing.
  std::vector<Lane> lanes;
};
thread_local Group group;

Lane& lane_of(const std::shared_ptr<ncclComm>& comm) {
  const auto found = std::find_if(group.lanes.begin(), group.lanes.end(),
                                  [&](const Lane& lane) { return lane.comm == comm; });
  if (found != group.lanes.end()) return *found;
  return group.lanes.emplace_back(Lane{comm, {}, {}, {}, false, false, {}});
}

bool is_blocking(const Lane& lane) {
  return lane.comm->blocking() &&
         std::all_of(lane.setups.begin(), lane.setups.end(), [](const Setup& setup) {
           return setup.comm == nullptr || setup.comm->blocking();
         });
}

/// The new communicator of a failed setup. A nonblocking one stays: its handle tells of the error.
void cancel(const Setup& setup, const Status& status) {
  if (setup.comm == nullptr) return;
  setup.comm->fail(status);
  if (!setup.comm->blocking()) return;
  Registry::instance().remove(setup.comm.get());
  *setup.out = nullptr;
}

void cancel_setups(const std::vector<Lane>& lanes, const Status& status) {
  for (const Lane& lane : lanes) {
    for (const Setup& setup : lane.setups) cancel(setup, status);
  }
}

Status run_setups(const std::vector<Setup>& setups) {
  Status first;
  for (const Setup& setup : setups) {
    const Status status = first.is_ok() ? catch_all(setup.run) : first;
    if (status.is_ok()) continue;
    cancel(setup, status);
    first = status;
  }
  return first;
}

/// All of a lane but its destroy.
Status run_lane(const Lane& lane) {
  RINGPRESS_RETURN_IF_ERROR(run_setups(lane.setups));
  const IssuedCalls issued(lane.issue);
  for (const Operation& operation : lane.collectives) {
    RINGPRESS_RETURN_IF_ERROR(lane.comm->run(
        [&](Communicator& communicator) { return perform(communicator, operation); }));
  }
  if (!lane.transfers.empty()) {
    RINGPRESS_RETURN_IF_ERROR(lane.comm->run(
        [&](Communicator& communicator) { return communicator.exchange(lane.transfers); }));
  }
  return lane.finalize ? lane.comm->finalize() : Status::ok();
}

Status run_blocking(const std::vector<Lane>& lanes) {
  std::vector<Status> statuses(lanes.size());
  std::latch others(static_cast<std::ptrdiff_t>(lanes.size()) - 1);
  for (std::size_t i = 0; i + 1 < lanes.size(); ++i) {
    const auto job = [&lane = lanes[i], &status = statuses[i], &others] {
      status = catch_all([&] { return run_lane(lane); });
      others.count_down();
    };
    const Status started = catch_all([&] {
      lanes[i].comm->run_aside(job);
      return Status::ok();
    });
    if (started.is_ok()) continue;
    statuses[i] = started;  // No thread to be had; its peers run into an error, too.
    others.count_down();
  }
  statuses.back() = catch_all([&] { return run_lane(lanes.back()); });
  others.wait();
  for (const Status& status : statuses) RINGPRESS_RETURN_IF_ERROR(status);
  return Status::ok();
}

Status run_nonblocking(const std::vector<Lane>& lanes) {
  for (const Lane& lane : lanes) {
    lane.comm->submit([lane] { return run_lane(lane); });
  }
  return Status(Code::kInProgress, "");
}

void destroy_now(const std::shared_ptr<ncclComm>& comm) {
  if (Registry::instance().remove(comm.get()) != nullptr) comm->destroy();
}

Status run_lanes(std::vector<Lane>& lanes) {
  if (lanes.empty()) return Status::ok();
  for (Lane& lane : lanes) lane.issue = lane.comm->issue_now();
  const bool blocking = is_blocking(lanes.front());
  if (std::any_of(lanes.begin(), lanes.end(),
                  [&](const Lane& lane) { return is_blocking(lane) != blocking; })) {
    // NCCL's code for it.
    Status refused(Code::kInvalidArgument,
                   "a group must not mix blocking and nonblocking communicators");
    cancel_setups(lanes, refused);
    return refused;
  }
  const bool only_destroys = std::all_of(lanes.begin(), lanes.end(), [](const Lane& lane) {
    return lane.destroy && lane.setups.empty() && lane.collectives.empty() &&
           lane.transfers.empty() && !lane.finalize;
  });
  Status status;
  if (!only_destroys) status = blocking ? run_blocking(lanes) : run_nonblocking(lanes);
  for (const Lane& lane : lanes) {
    if (lane.destroy) destroy_now(lane.comm);
  }
  return status;
}

/// Leaves one level. True if it was the outermost; `ended` then holds the whole group.
Result<bool> leave_level(Group& ended) {
  if (group.depth == 0) {
    return Status(Code::kInvalidUsage,
                  "no group is open in this thread: ncclGroupStart is missing");
  }
  if (--group.depth > 0) return false;
  ended = std::move(group);
  group = Group();
  return true;
}

/// A part that is not collected: a group of its own.
Status run_alone(Lane lane) {
  std::vector<Lane> lanes;
  lanes.push_back(std::move(lane));
  return run_lanes(lanes);
}

}  // namespace

bool group_is_open() noexcept {
  return group.depth > 0;
}

void group_start() {
  ++group.depth;
}

void group_note(const Status& status) noexcept {
  if (!group.error.is_ok()) return;
  static_cast<void>(catch_all([&] {
    group.error = status;
    return Status::ok();
  }));
}

Status group_end() {
  Group ended;
  RINGPRESS_ASSIGN_OR_RETURN(const bool outermost, leave_level(ended));
  if (!outermost) return Status::ok();
  if (!ended.error.is_ok()) {
    cancel_setups(ended.lanes, ended.error);
    return ended.error;
  }
  return run_lanes(ended.lanes);
}

Status group_drop() {
  Group ended;
  RINGPRESS_ASSIGN_OR_RETURN(const bool outermost, leave_level(ended));
  if (!outermost) return Status::ok();
  cancel_setups(ended.lanes, Status(Code::kInvalidUsage, "its group was only simulated"));
  return ended.error;
}

Status submit_setup(const std::shared_ptr<ncclComm>& comm, Setup setup) {
  if (group_is_open()) {
    lane_of(comm).setups.push_back(std::move(setup));
    return Status::ok();
  }
  Lane lane{comm, {}, {}, {}, false, false, {}};
  lane.setups.push_back(std::move(setup));
  return run_alone(std::move(lane));
}

Status submit_operation(const std::shared_ptr<ncclComm>& comm, const Operation& operation) {
  if (group_is_open()) {
    Lane& lane = lane_of(comm);
    if (is_point_to_point(operation)) {
      lane.transfers.push_back(to_transfer(operation));
    } else {
      lane.collectives.push_back(operation);
    }
    return Status::ok();
  }
  if (comm->blocking()) {
    return comm->run([&](Communicator& communicator) { return perform(communicator, operation); });
  }
  return run_alone(Lane{comm, {}, {operation}, {}, false, false, {}});
}

Status submit_finalize(const std::shared_ptr<ncclComm>& comm) {
  if (group_is_open()) {
    lane_of(comm).finalize = true;
    return Status::ok();
  }
  return run_alone(Lane{comm, {}, {}, {}, true, false, {}});
}

Status submit_destroy(const std::shared_ptr<ncclComm>& comm) {
  if (group_is_open()) {
    lane_of(comm).destroy = true;
  } else {
    destroy_now(comm);
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::host
