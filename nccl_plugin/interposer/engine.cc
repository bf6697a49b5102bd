#include "nccl_plugin/interposer/engine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/session/lazy/lazy_flusher.h"
#include "ringpress/internal/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

ncclResult_t exact(const ringpressRealNccl& real, const Call& call) {
  return of_real(run_exactly(real, call));
}

/// More elements than any memory has: products of sizes stay far from overflow. The real library
/// says what is wrong with them.
constexpr std::size_t kMostElements = std::size_t{1} << 44;

/// What the planner would refuse at once is not even looked up, unless calls are to be counted. The
/// same on all ranks, but for null pointers, which the real library refuses, and RINGPRESS_STATS,
/// which changes no decision.
bool is_worth_a_look(const Call& call, const Settings& settings) {
  if (call.send == nullptr || call.receive == nullptr || call.count == 0) return false;
  // Nor counted.
  if (call.kind == CollectiveKind::kAllGather && !settings.all_gather) return false;
  if (call.count > kMostElements) return false;
  const auto dtype = static_cast<unsigned>(call.dtype);
  if (dtype >= static_cast<unsigned>(kDTypeCount)) return false;
  if (!settings.statistics.empty() || !settings.trace.empty()) return true;
  PlanRequest request;
  request.kind = call.kind;
  request.dtype = static_cast<DType>(dtype);
  request.pre_multiplied = call.op >= ncclNumOps;
  if (!request.pre_multiplied) request.op = static_cast<ReduceOp>(call.op);
  request.world = 2;  // At least: else nobody is asked.
  request.may_gather = settings.all_gather;
  return tuner::why_never_lossy(request).reason == ExactReason::kNone;
}

/// A call that cannot be planned: other ranks may be in it.
ncclResult_t give_up(Comm& comm, const Status& status) noexcept {
  const ncclResult_t result = to_nccl_result(status.code());
  static_cast<void>(catch_all([&status] {
    warn_if_failed("cannot plan a call", status);
    set_last_error("ringpress: cannot plan a call: " + status.message());
    return Status::ok();
  }));
  comm.lifetime().give_up(result);
  return result;
}

/// A call of one of ours that the real library makes.
ncclResult_t exact_of(const ringpressRealNccl& real, const std::shared_ptr<Comm>& comm,
                      const Call& call) noexcept {
  if (!comm->is_traced()) return exact(real, call);
  bool is_timed = false, is_deferred = false;
  static_cast<void>(catch_all([&] {
    ThreadGroup& mine = thread_group(real);
    is_deferred = mine.depth > 0;
    if (is_deferred) mine.timed.reserve(mine.timed.size() + 1);
    is_timed = comm->begin_exact(call);
    if (is_timed && is_deferred) mine.timed.push_back(comm);
    return Status::ok();
  }));
  const ncclResult_t result = exact(real, call);
  if (is_timed && !is_deferred) comm->end_exact();
  return result;
}

}  // namespace

ncclResult_t Engine::async_error(ncclComm_t handle, ncclResult_t* error) noexcept {
  const std::shared_ptr<Comm> comm = table_.find(handle);
  const ncclResult_t failure = comm == nullptr ? ncclSuccess : comm->lifetime().failure();
  if (failure == ncclSuccess || error == nullptr) return real_.CommGetAsyncError(handle, error);
  *error = failure;
  return ncclSuccess;
}

const char* Engine::last_error(ncclComm_t handle) noexcept {
  const char* const ours = interposer::last_error();
  return ours[0] != '\0' ? ours : real_.GetLastError(handle);
}

ncclResult_t Engine::reduce(const Call& call) noexcept {
  if (!is_worth_a_look(call, settings_)) return exact(real_, call);
  std::shared_ptr<Comm> comm = table_.find(call.comm);
  if (comm == nullptr) {
    left_.count(call.comm);
    return exact(real_, call);
  }
  if (comm->lifetime().is_left_alone()) return exact(real_, call);
  // Peers may be in the middle of a call that this rank gave up: nothing would fit that.
  if (comm->lifetime().failure() != ncclSuccess) return comm->lifetime().failure();
  bool accepted = false, is_deferred = false;
  PlannedCall ours{call};
  const Status planned = catch_all([&] {
    const CallsWithOptions with_options(ours.call.options);
    accepted = comm->planner().plan(&ours);
    if (!accepted) return Status::ok();
    ThreadGroup& mine = thread_group(real_);
    is_deferred = mine.depth > 0;
    // The program may end it before its group.
    if (is_deferred) ours.call.config = nullptr;
    if (is_deferred) mine.calls.push_back({comm, ours});
    return Status::ok();
  });
  if (!planned.is_ok()) return give_up(*comm, planned);
  if (!accepted) return exact_of(real_, comm, call);
  if (is_deferred) return ncclSuccess;
  AcceptedCall now{std::move(comm), ours};
  return run_calls(real_, {&now, 1});
}

/// Options are read on all communicators, as a mistake is one wherever it is made.
ncclResult_t Engine::reduce_as_asked(const Call& call, const ncclCollConfig_t* config) noexcept {
  if (config == nullptr) return reduce(call);
  Call asked = call;
  asked.config = config;
  if (!is_configuration(config)) return exact(real_, asked);
  const Status status = catch_all([&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(asked.options, call_options_of(*config));
    if (asked.options.codec.empty() || is_no_codec(asked.options.codec)) return Status::ok();
    const std::shared_ptr<Comm> comm = table_.find(call.comm);
    if (comm == nullptr || comm->lifetime().is_left_alone()) return Status::ok();
    return comm->planner().check_codec(asked.options.codec);
  });
  if (status.is_ok()) return reduce(asked);
  static_cast<void>(catch_all([&status] {
    set_last_error("ringpress: " + status.message());
    return Status::ok();
  }));
  return to_nccl_result(status.code());
}

void Engine::set_left_alone(ncclComm_t handle, bool is_left_alone) noexcept {
  if (const std::shared_ptr<Comm> comm = table_.find(handle)) {
    comm->lifetime().set_left_alone(is_left_alone);
  }
}

void Engine::revoking(ncclComm_t handle) noexcept {
  gossip_comms_.end(handle);
  const std::shared_ptr<Comm> comm = table_.find(handle);
  if (comm == nullptr) return;
  comm->lifetime().set_left_alone(true);
  comm->lifetime().retire();
  comm->lifetime().end_groups(true);
}

ncclResult_t Engine::group_start() noexcept {
  ThreadGroup* const mine = find_thread_group(real_);
  if (mine == nullptr) return out_of_memory();
  const ncclResult_t result = real_.GroupStart();
  if (result == ncclSuccess) ++mine->depth;
  return result;
}

ncclResult_t Engine::group_end() noexcept {
  ThreadGroup* const mine = find_thread_group(real_);
  if (mine == nullptr) return of_real(real_.GroupEnd());  // Nothing waits for it.
  if (mine->depth > 0) --mine->depth;
  if (mine->depth > 0) return real_.GroupEnd();
  std::vector<EndingComm> ends = std::exchange(mine->ends, {});
  const auto ended = std::exchange(mine->ended, {});  // Freed at the end.
  const ncclResult_t result = run_group(*mine, of_real(real_.GroupEnd()));
  if (!ends.empty()) end_pending(std::move(ends));
  return result;
}

/// What has waited for the end of the group, which the real library has ended.
ncclResult_t Engine::run_group(ThreadGroup& mine, ncclResult_t real_ended) noexcept {
  std::vector<MadeComm> made = std::exchange(mine.made, {});
  std::vector<AcceptedCall> calls = std::exchange(mine.calls, {});
  mine.end_timed();
  ncclResult_t ours = ncclSuccess;
  // In progress: some communicator is nonblocking. Those of our calls are not.
  const bool has_ended = real_ended == ncclSuccess || real_ended == ncclInProgress;
  if (has_ended && !calls.empty()) ours = run_calls(real_, calls);
  if (!has_ended) {
    for (const AcceptedCall& one : calls) one.comm->planner().classifier().forget_waiting();
    making_.call_off(made, "its ncclGroupEnd answers ", real_ended);
    return real_ended;
  }
  if (ours != ncclSuccess) {
    making_.call_off(made, "a compressed call of the same group failed", ncclSuccess);
    return ours;
  }
  calls.clear();
  mine.calls = std::move(calls);  // Its memory is for the next group.
  if (real_ended == ncclInProgress) making_.leave_in_progress(made);
  const ncclResult_t established =
      made.empty() ? ncclSuccess : making_.establish_made(std::move(made));
  return established != ncclSuccess ? established : real_ended;
}

/// In one group, as their ranks may end them in any order.
void Engine::end_pending(std::vector<EndingComm> ends) noexcept {
  const bool has_begun = real_.GroupStart() == ncclSuccess;
  for (const EndingComm& pending : ends) {
    static_cast<void>(
        end(pending.handle, Ending::kInOrder, [&] { return pending.finish(pending.handle); }));
  }
  if (has_begun) static_cast<void>(real_.GroupEnd());
}

/// Simulating runs nothing.
ncclResult_t Engine::group_simulate_end(ncclSimInfo_t* info) noexcept {
  ThreadGroup* const mine = find_thread_group(real_);
  if (mine != nullptr && mine->depth > 0 && --mine->depth == 0) {
    const auto ended = std::exchange(mine->ended, {});  // Freed at the end.
    for (const AcceptedCall& accepted : mine->calls)
      accepted.comm->planner().classifier().forget_waiting();
    mine->calls.clear();
    mine->end_timed();
    making_.call_off(std::exchange(mine->made, {}), "its group was simulated", ncclSuccess);
    const ncclResult_t result = real_.GroupSimulateEnd(info);
    if (!mine->ends.empty()) end_pending(std::exchange(mine->ends, {}));
    return result;
  }
  return real_.GroupSimulateEnd(info);
}

Result<std::unique_ptr<gossip::Workers>> Engine::gossip_workers(ncclComm_t handle) {
  const auto is_grouped = [this] { return thread_group(real_).depth > 0; };
  Result<std::unique_ptr<gossip::Workers>> made =
      make_gossip_workers({real_, settings_.backend, is_grouped, gossip_comms_}, handle);
  if (!made.is_ok()) set_last_error("ringpress: " + made.status().message());
  return made;
}

/// Those that are plain NCCL's have put nothing off.
Status Engine::flush_lazy(ncclComm_t handle) {
  int size = 0;
  Status status;
  if (const std::shared_ptr<Comm> comm = table_.find(handle)) {
    if (comm->lifetime().failure() == ncclSuccess) {
      comm->flush_lazy();
    } else {
      status = {Code::kInvalidUsage, "a call of the communicator has failed"};
    }
  } else if (real_.CommCount(handle, &size) != ncclSuccess) {
    status = {Code::kInvalidArgument, "comm is not a communicator of the NCCL library"};
  }
  if (!status.is_ok()) set_last_error("ringpress: " + status.message());
  return status;
}

/// Gives what is left of it; null: nothing was kept.
std::shared_ptr<Comm> Engine::forget(ncclComm_t handle, Ending ending) noexcept {
  gossip_comms_.end(handle);
  warn_if_failed("cannot write statistics", catch_all([&] {
                   left_.end(handle);
                   return Status::ok();
                 }));
  std::shared_ptr<Comm> comm = table_.remove(handle);
  if (comm == nullptr) return nullptr;
  comm->lifetime().retire();
  comm->lifetime().end_groups(ending == Ending::kAbort);
  return comm;
}

/// Outside of groups, and without memory to keep it, it is freed now.
void Engine::keep_in_group(std::shared_ptr<Comm> ended) noexcept {
  ThreadGroup* const mine = ended == nullptr ? nullptr : find_thread_group(real_);
  if (mine == nullptr || mine->depth == 0) return;
  static_cast<void>(catch_all([&] {
    mine->ended.push_back(std::move(ended));
    return Status::ok();
  }));
}

ncclResult_t Engine::end_in_order(ncclComm_t handle, EndingComm::Finish finish) noexcept {
  ThreadGroup* const mine = find_thread_group(real_);
  const auto is_of_it = [handle](const AcceptedCall& accepted) {
    return accepted.comm->handle() == handle;
  };
  bool is_noted = false;
  if (mine != nullptr && std::any_of(mine->calls.begin(), mine->calls.end(), is_of_it)) {
    is_noted = catch_all([&] {
                 mine->ends.push_back({handle, finish});
                 return Status::ok();
               }).is_ok();
  }
  if (is_noted) return ncclSuccess;
  return end(handle, Ending::kInOrder, [&] { return finish(handle); });
}

namespace {

Status check_real(const ringpressRealNccl& real) {
  if (real.size != sizeof real || real.version != RINGPRESS_ENGINE_VERSION) {
    return {Code::kMismatch, "the preloaded library is of another version than the engine"};
  }
  const bool complete = real.GetVersion != nullptr && real.CommCount != nullptr &&
                        real.CommUserRank != nullptr && real.CommCuDevice != nullptr &&
                        real.AllGather != nullptr && real.Send != nullptr && real.Recv != nullptr &&
                        real.GroupStart != nullptr && real.GroupEnd != nullptr &&
                        real.AllReduce != nullptr && real.ReduceScatter != nullptr;
  return complete ? Status::ok()
                  : Status(Code::kUnsupported, "this NCCL lacks functions that are needed");
}

}  // namespace

Engine* open_engine(const ringpressRealNccl& real) {
  Engine* engine = nullptr;
  const Status status = catch_all([&]() -> Status {
    const Settings settings = settings_from_environment();
    set_log_level(settings.debug.value_or(LogLevel::kWarn));
    if (settings.mode == Mode::kOff) return Status::ok();
    RINGPRESS_RETURN_IF_ERROR(check_real(real));
    engine = new Engine(real, settings);  // Lives as long as the process.
    gossip::set_workers_maker(
        [engine](void* comm) { return engine->gossip_workers(static_cast<ncclComm_t>(comm)); });
    set_lazy_flusher(
        [engine](void* comm) { return engine->flush_lazy(static_cast<ncclComm_t>(comm)); });
    return Status::ok();
  });
  warn_if_failed("nothing is compressed", status);
  return engine;
}

}  // namespace ringpress::nccl_plugin::interposer
