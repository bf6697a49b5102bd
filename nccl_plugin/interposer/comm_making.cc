#include "nccl_plugin/interposer/comm_making.h"

#include <iterator>
#include <string>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ring/factory.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// Without memory for what `body` does, the real library goes on alone: a warning says so. True if
/// it was done.
template <typename Body>
bool warn_of_failure(const char* what, Body&& body) noexcept {
  const Status status = catch_all([&body] {
    std::forward<Body>(body)();
    return Status::ok();
  });
  warn_if_failed(what, status);
  return status.is_ok();
}
constexpr const char* kLooking = "cannot look at a new communicator";

std::string in_full(const char* why, ncclResult_t answer) {
  return answer == ncclSuccess ? why : why + std::to_string(static_cast<int>(answer));
}

/// Throws before anything is done.
ncclResult_t establish_or_leave(const ringpressRealNccl& real, const Settings& settings,
                                Meetings& meetings, KnownComms known, std::vector<MadeComm>& made) {
  std::vector<NewComm> comms;
  std::vector<ncclComm_t*> handles;
  comms.reserve(made.size());
  handles.reserve(made.size());
  for (MadeComm& pending : made) {
    pending.made.handle = *pending.handle;
    if (pending.made.handle == nullptr || pending.left_because.is_left()) continue;
    handles.push_back(pending.handle);
    comms.push_back(std::move(pending.made));
  }
  if (!comms.empty()) establish(real, settings, meetings, known, comms);
  warn_of_failure("cannot count calls", [&] {
    for (const MadeComm& pending : made) {
      if (!pending.left_because.is_left()) continue;
      known.left.add(*pending.handle, pending.left_because, pending.state);
    }
  });
  ncclResult_t result = ncclSuccess;
  for (std::size_t i = 0; i < comms.size(); ++i) {
    if (!comms[i].is_refused) continue;
    result = ncclInvalidArgument;
    *handles[i] = nullptr;
    static_cast<void>(real.CommAbort(comms[i].handle));
  }
  return result;
}

}  // namespace

void CommMaking::id_made(ncclUniqueId* id) noexcept {
  warn_of_failure("cannot open a meeting place", [&] {
    if (id != nullptr) meetings_.open(id);
  });
}

void CommMaking::joining(const ncclUniqueId& id) noexcept {
  warn_of_failure("cannot open a meeting place", [&] {
    if (const auto place = read_meeting_place(id)) meetings_.serve(*place);
  });
}

void CommMaking::not_joined(const ncclUniqueId& id, const char* why, ncclResult_t answer) noexcept {
  warn_of_failure("cannot close a meeting place", [&] {
    if (const auto place = read_meeting_place(id)) meetings_.call_off(*place, in_full(why, answer));
  });
}

void CommMaking::call_off(const std::vector<MadeComm>& made, const char* why,
                          ncclResult_t answer) noexcept {
  warn_of_failure("cannot close meeting places", [&] {
    for (const MadeComm& pending : made) {
      if (pending.made.place) meetings_.call_off(*pending.made.place, in_full(why, answer));
    }
  });
}

ncclResult_t CommMaking::made_rank(ncclComm_t* handle, const ncclUniqueId& id,
                                   const char* name) noexcept {
  ncclResult_t result = ncclSuccess;
  warn_of_failure(kLooking, [&] {
    const std::optional<UniqueId> place = read_meeting_place(id);
    if (!place) {
      const std::string reason = why_no_place(id);
      warn_left(reason);
      return leave(handle, {ExactReason::kCannotBegin, reason});
    }
    MadeComm pending;
    pending.handle = handle;
    pending.made.place = place;
    if (name != nullptr) pending.made.name = name;
    pending.made.clique = number_of(*place);
    pending.made.problem = trouble_.problem();
    pending.made.refusal = trouble_.refusal();
    result = add_made(std::move(pending));
  });
  return result;
}

ncclResult_t CommMaking::made_all(ncclComm_t* handles, int count) noexcept {
  ncclResult_t result = ncclSuccess;
  const std::uint64_t clique = ++in_process_cliques_;
  warn_of_failure("cannot look at new communicators", [&] {
    std::vector<MadeComm> made;
    for (int i = 0; i < count; ++i) {
      MadeComm pending;
      pending.handle = handles + i;
      pending.made.clique = clique;
      pending.made.in_process = true;
      pending.made.problem = trouble_.problem();
      pending.made.refusal = trouble_.refusal();
      made.push_back(std::move(pending));
    }
    ThreadGroup& mine = thread_group(real_);
    if (mine.depth == 0) {
      result = establish_made(std::move(made));
      return;
    }
    mine.made.insert(mine.made.end(), std::make_move_iterator(made.begin()),
                     std::make_move_iterator(made.end()));
  });
  return result;
}

ncclResult_t CommMaking::expect_child() noexcept {
  const Status noted = catch_all([this] {
    ThreadGroup& mine = thread_group(real_);
    if (mine.made.capacity() == mine.made.size()) mine.made.reserve(2 * mine.made.size() + 4);
    return Status::ok();
  });
  return noted.is_ok() ? ncclSuccess : out_of_memory();
}

void CommMaking::made_child(ncclComm_t* handle, ncclComm_t parent, int color,
                            const char* name) noexcept {
  if (color != NCCL_SPLIT_NOCOLOR) add_child(handle, parent, name, false);
}

void CommMaking::made_shrunk(ncclComm_t* handle, ncclComm_t parent, const char* name) noexcept {
  add_child(handle, parent, name, true);
}

void CommMaking::add_child(ncclComm_t* handle, ncclComm_t parent, const char* name,
                           bool is_heir) noexcept {
  warn_of_failure(kLooking, [&] {
    MadeComm pending;
    pending.made.is_heir = is_heir;
    pending.made.parent = known_.open.find(parent);
    pending.handle = handle;
    if (name != nullptr) {
      pending.made.name = name;
    } else if (pending.made.parent != nullptr) {
      pending.made.name = pending.made.parent->identity().name;
    }
    if (pending.made.parent == nullptr) pending.left_because = known_.left.why(parent);
    if (pending.made.parent == nullptr && !pending.left_because.is_left()) return;
    static_cast<void>(add_made(std::move(pending)));  // Of a parent that no rank has refused.
  });
}

void CommMaking::grow_id_made(ncclComm_t parent, ncclUniqueId* id) noexcept {
  warn_of_failure("cannot open a meeting place", [&] {
    if (id == nullptr) return;
    const std::shared_ptr<Comm> comm = known_.open.find(parent);
    if (comm != nullptr) {
      meetings_.open(id);
      comm->identity().grow_id = *id;
      return;
    }
    static_cast<void>(write_refusal("the communicator that grows is plain NCCL's", id));
  });
}

std::optional<ncclUniqueId> CommMaking::growing(ncclComm_t parent,
                                                const ncclUniqueId* given) noexcept {
  std::optional<ncclUniqueId> id;
  if (given != nullptr) id = *given;
  warn_of_failure("cannot open a meeting place", [&] {
    if (const std::shared_ptr<Comm> comm = known_.open.find(parent)) {
      const std::optional<ncclUniqueId> made =
          std::exchange(comm->identity().grow_id, std::nullopt);
      if (!id) id = made;
    }
    if (id) joining(*id);
  });
  return id;
}

ncclResult_t CommMaking::made_grown(ncclComm_t* handle, ncclComm_t parent, const ncclUniqueId* id,
                                    const char* name) noexcept {
  ncclResult_t result = ncclSuccess;
  warn_of_failure(kLooking, [&] {
    MadeComm pending;
    pending.handle = handle;
    pending.made.grown_from = known_.open.find(parent);
    if (pending.made.grown_from == nullptr) {
      pending.left_because = known_.left.why(parent);
      if (!pending.left_because.is_left()) return;
    } else {
      // Ranks compare names, and those that come do not know the parent's.
      if (name != nullptr) pending.made.name = name;
      if (id != nullptr) pending.made.place = read_meeting_place(*id);
      pending.made.problem = trouble_.problem();
      pending.made.refusal = trouble_.refusal();
    }
    result = add_made(std::move(pending));
  });
  return result;
}

void CommMaking::made_nonblocking(ncclComm_t* handle) noexcept {
  warn_of_failure(kLooking, [&] {
    warn_left(kNonblockingText);
    leave(handle, {ExactReason::kNonblocking, {}}, LeftComms::State::kInTheMaking);
  });
}

void CommMaking::leave(ncclComm_t* handle, WhyLeft why, LeftComms::State state) {
  MadeComm pending;
  pending.state = state;
  pending.handle = handle;
  pending.left_because = std::move(why);
  static_cast<void>(add_made(std::move(pending)));
}

/// What a group leaves in progress is nonblocking, also where its configuration does not say so.
void CommMaking::leave_in_progress(std::vector<MadeComm>& made) noexcept {
  if (made.empty()) return;
  call_off(made, kNonblockingText, ncclSuccess);
  const bool is_noted = warn_of_failure(kLooking, [&] {
    warn_left(kNonblockingText);
    for (MadeComm& pending : made) {
      pending.state = LeftComms::State::kInTheMaking;
      if (!pending.left_because.is_left()) pending.left_because.reason = ExactReason::kNonblocking;
    }
  });
  if (!is_noted) made.clear();  // Left all the same, and not counted.
}

/// In a group, even communicators of one process are complete at its outermost end only. There is
/// room for one that was expected.
ncclResult_t CommMaking::add_made(MadeComm pending) {
  ThreadGroup& mine = thread_group(real_);
  mine.made.push_back(std::move(pending));
  return mine.depth == 0 ? establish_made(std::exchange(mine.made, {})) : ncclSuccess;
}

ncclResult_t CommMaking::establish_made(std::vector<MadeComm> made) noexcept {
  ncclResult_t result = ncclSuccess;
  const bool is_done = warn_of_failure(
      kLooking, [&] { result = establish_or_leave(real_, settings_, meetings_, known_, made); });
  if (is_done) return result;
  for (const MadeComm& pending : made) {
    if (pending.made.parent != nullptr) abandon(real_, *pending.handle);
  }
  return result;
}

/// Of RINGPRESS_SOCKET_IFNAME alone: where NCCL's own variable matches nothing, NCCL itself
/// refuses.
const Status& ProcessTrouble::refusal() {
  // No exception passes std::call_once: the C library's part of it would need libgcc_s, for which a
  // process out of memory has no room.
  std::call_once(looked_for_refusal_, [this] {
    warn_of_failure("cannot look at network interfaces", [this] {
      if (!settings_.interface.empty()) refusal_ = ring::check_address(settings_.address);
    });
  });
  return refusal_;
}

ncclResult_t CommMaking::may_make_id() noexcept {
  bool is_refused = false;
  warn_of_failure("cannot look at network interfaces", [&] {
    is_refused = !trouble_.refusal().is_ok();
    if (!is_refused) return;
    log_line(LogLevel::kError, "no id is made: %s", trouble_.refusal().message().c_str());
    set_last_error("ringpress: " + trouble_.refusal().message());
  });
  return is_refused ? ncclInvalidArgument : ncclSuccess;
}

const Status& ProcessTrouble::problem() {
  std::call_once(looked_for_problem_, [this] {
    problem_ = catch_all([this]() -> Status {
      RINGPRESS_RETURN_IF_ERROR(check_values(settings_));
      return check_backend(settings_.backend);
    });
    warn_if_failed("nothing is compressed", problem_);
  });
  return problem_;
}

}  // namespace ringpress::nccl_plugin::interposer
