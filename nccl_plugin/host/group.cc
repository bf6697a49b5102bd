#include "nccl_plugin/host/group.h"

#include <algorithm>
#include <functional>
#include <latch>
#include <vector>

#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/session/calls/call_issue.h"

namespace ringpress::nccl_plugin::host {
namespace {

/// What one group holds for one communicator.
struct CommCalls {
  std::shared_ptr<ncclComm> comm;
  std::vector<Setup> setups;
  std::vector<Operation> collectives;
  std::vector<Transfer> transfers;
  bool finalize = false;
  bool destroy = false;
  CallIssue issue = {};  // Of what it holds, when the group ends.
  // One-sided calls, which need no turn of their communicator.
  std::vector<std::function<Status()>> puts = {};
  std::vector<std::function<Status()>> waits = {};
};

struct Group {
  int depth = 0;
  Status error;  // The first one; such a group runs nothing.
  std::vector<CommCalls> comms;
};
thread_local Group group;

CommCalls& calls_of(const std::shared_ptr<ncclComm>& comm) {
  const auto found = std::find_if(group.comms.begin(), group.comms.end(),
                                  [&](const CommCalls& calls) { return calls.comm == comm; });
  if (found != group.comms.end()) return *found;
  return group.comms.emplace_back(CommCalls{comm, {}, {}, {}, false, false, {}});
}

bool is_blocking(const CommCalls& calls) {
  return calls.comm->traits().blocking() &&
         std::all_of(calls.setups.begin(), calls.setups.end(), [](const Setup& setup) {
           return setup.comm == nullptr || setup.comm->traits().blocking();
         });
}

/// The new communicator of a failed setup. A nonblocking one stays: its handle tells of the error.
void cancel(const Setup& setup, const Status& status) {
  if (setup.comm == nullptr) return;
  setup.comm->life().fail(status);
  if (!setup.comm->traits().blocking()) return;
  Registry::instance().remove(setup.comm.get());
  *setup.out = nullptr;
}

void cancel_setups(const std::vector<CommCalls>& comms, const Status& status) {
  for (const CommCalls& calls : comms) {
    for (const Setup& setup : calls.setups) cancel(setup, status);
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

/// All of a calls but its destroy.
Status run_calls(const CommCalls& calls) {
  RINGPRESS_RETURN_IF_ERROR(run_setups(calls.setups));
  const IssuedCalls issued(calls.issue);
  for (const Operation& operation : calls.collectives) {
    RINGPRESS_RETURN_IF_ERROR(calls.comm->run(
        [&](Communicator& communicator) { return run_operation(communicator, operation); }));
  }
  if (!calls.transfers.empty()) {
    RINGPRESS_RETURN_IF_ERROR(calls.comm->run(
        [&](Communicator& communicator) { return communicator.exchange(calls.transfers); }));
  }
  for (const auto* const one_sided : {&calls.puts, &calls.waits}) {
    for (const auto& call : *one_sided) RINGPRESS_RETURN_IF_ERROR(call());
  }
  return calls.finalize ? calls.comm->finalize() : Status::ok();
}

Status run_blocking(const std::vector<CommCalls>& comms) {
  std::vector<Status> statuses(comms.size());
  std::latch others(static_cast<std::ptrdiff_t>(comms.size()) - 1);
  for (std::size_t i = 0; i + 1 < comms.size(); ++i) {
    const auto job = [&calls = comms[i], &status = statuses[i], &others] {
      status = catch_all([&] { return run_calls(calls); });
      others.count_down();
    };
    const Status started = catch_all([&] {
      comms[i].comm->run_aside(job);
      return Status::ok();
    });
    if (started.is_ok()) continue;
    statuses[i] = started;  // No thread to be had; its peers run into an error, too.
    others.count_down();
  }
  statuses.back() = catch_all([&] { return run_calls(comms.back()); });
  others.wait();
  for (const Status& status : statuses) RINGPRESS_RETURN_IF_ERROR(status);
  return Status::ok();
}

Status run_nonblocking(const std::vector<CommCalls>& comms) {
  for (const CommCalls& calls : comms) {
    calls.comm->submit([calls] { return run_calls(calls); });
  }
  return Status(Code::kInProgress, "");
}

void destroy_now(const std::shared_ptr<ncclComm>& comm) {
  if (Registry::instance().remove(comm.get()) != nullptr) comm->destroy();
}

Status run_comms(std::vector<CommCalls>& comms) {
  if (comms.empty()) return Status::ok();
  for (CommCalls& calls : comms) calls.issue = calls.comm->life().issue_now();
  const bool blocking = is_blocking(comms.front());
  if (std::any_of(comms.begin(), comms.end(),
                  [&](const CommCalls& calls) { return is_blocking(calls) != blocking; })) {
    // NCCL's code for it.
    Status refused(Code::kInvalidArgument,
                   "a group must not mix blocking and nonblocking communicators");
    cancel_setups(comms, refused);
    return refused;
  }
  const bool only_destroys = std::all_of(comms.begin(), comms.end(), [](const CommCalls& calls) {
    return calls.destroy && calls.setups.empty() && calls.collectives.empty() &&
           calls.transfers.empty() && calls.puts.empty() && calls.waits.empty() && !calls.finalize;
  });
  Status status;
  if (!only_destroys) status = blocking ? run_blocking(comms) : run_nonblocking(comms);
  for (const CommCalls& calls : comms) {
    if (calls.destroy) destroy_now(calls.comm);
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
Status run_alone(CommCalls calls) {
  std::vector<CommCalls> comms;
  comms.push_back(std::move(calls));
  return run_comms(comms);
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
    cancel_setups(ended.comms, ended.error);
    return ended.error;
  }
  return run_comms(ended.comms);
}

Status group_drop() {
  Group ended;
  RINGPRESS_ASSIGN_OR_RETURN(const bool outermost, leave_level(ended));
  if (!outermost) return Status::ok();
  cancel_setups(ended.comms, Status(Code::kInvalidUsage, "its group was only simulated"));
  return ended.error;
}

Status submit_setup(const std::shared_ptr<ncclComm>& comm, Setup setup) {
  if (group_is_open()) {
    calls_of(comm).setups.push_back(std::move(setup));
    return Status::ok();
  }
  CommCalls calls{comm, {}, {}, {}, false, false, {}};
  calls.setups.push_back(std::move(setup));
  return run_alone(std::move(calls));
}

Status submit_operation(const std::shared_ptr<ncclComm>& comm, const Operation& operation) {
  if (!group_is_open()) return run_alone(CommCalls{comm, {}, {operation}, {}, false, false, {}});
  CommCalls& calls = calls_of(comm);
  if (operation.is_point_to_point) {
    calls.transfers.push_back(to_transfer(operation));
  } else {
    calls.collectives.push_back(operation);
  }
  return Status::ok();
}

Status submit_one_sided(const std::shared_ptr<ncclComm>& comm, OneSidedKind kind,
                        std::function<Status()> run) {
  // Who polls hears of it, too.
  std::function<Status()> call = [comm, run = std::move(run)] {
    const Status status = run();
    if (status.code() == Code::kPeerLost) comm->life().fail(status);
    return status;
  };
  if (!group_is_open() && comm->traits().blocking()) return call();
  CommCalls alone{comm, {}, {}, {}, false, false, {}};
  CommCalls& calls = group_is_open() ? calls_of(comm) : alone;
  (kind == OneSidedKind::kPut ? calls.puts : calls.waits).push_back(std::move(call));
  return group_is_open() ? Status::ok() : run_alone(std::move(alone));
}

Status submit_finalize(const std::shared_ptr<ncclComm>& comm) {
  if (group_is_open()) {
    calls_of(comm).finalize = true;
    return Status::ok();
  }
  return run_alone(CommCalls{comm, {}, {}, {}, true, false, {}});
}

Status submit_destroy(const std::shared_ptr<ncclComm>& comm) {
  if (group_is_open()) {
    calls_of(comm).destroy = true;
  } else {
    destroy_now(comm);
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::host
