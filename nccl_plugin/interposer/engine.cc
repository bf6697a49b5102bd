#include "nccl_plugin/interposer/engine.h"

#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/budget.h"
#include "nccl_plugin/firewall.h"
#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/statistics_file.h"
#include "ringpress/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

LogLevel log_level_of(const Settings& settings) {
  if (settings.debug == "error") return LogLevel::kError;
  if (settings.debug == "info") return LogLevel::kInfo;
  if (settings.debug == "trace") return LogLevel::kTrace;
  return LogLevel::kWarn;
}

void warn_if_failed(const char* what, const Status& status) {
  if (status.is_ok()) return;
  log_line(LogLevel::kWarn, "%s: %s", what, status.message().c_str());
}

}  // namespace

/// What ranks compare, plan with and report is what is in use.
Settings Engine::in_streams(Settings settings) {
  settings.codec = compress_kernels::stream_specification(settings.codec);
  settings.budget = compress_kernels::stream_specification(settings.budget);
  return settings;
}

Engine::Group& Engine::group() const {
  // The engine may have been opened within a group of this thread.
  thread_local Group group{real_.GroupDepth != nullptr ? real_.GroupDepth() : 0, {}, {}};
  return group;
}

ncclResult_t Engine::async_error(ncclComm_t handle, ncclResult_t* error) noexcept {
  const std::shared_ptr<Comm> comm = table_.find(handle);
  const ncclResult_t failure = comm == nullptr ? ncclSuccess : comm->failure();
  if (failure == ncclSuccess || error == nullptr) return real_.CommGetAsyncError(handle, error);
  *error = failure;
  return ncclSuccess;
}

const char* Engine::last_error(ncclComm_t handle) noexcept {
  const char* const ours = interposer::last_error();
  return ours[0] != '\0' ? ours : real_.GetLastError(handle);
}

ncclResult_t Engine::exact(const Call& call) const {
  return of_real(run_exactly(real_, call));
}

/// More elements than any memory has: products of sizes stay far from overflow. The real library
/// says what is wrong with them.
constexpr std::size_t kMostElements = std::size_t{1} << 44;

/// What the planner would refuse at once is not even looked up, unless calls are to be counted. The
/// same on all ranks, but for null pointers, which the real library refuses, and RINGPRESS_STATS,
/// which changes no decision.
bool Engine::is_worth_a_look(const Call& call) const {
  if (call.send == nullptr || call.receive == nullptr || call.count == 0) return false;
  if (call.kind == CollectiveKind::kAllGather && !settings_.all_gather) return false;
  if (call.count > kMostElements) return false;
  const auto dtype = static_cast<unsigned>(call.dtype);
  if (dtype >= static_cast<unsigned>(kDTypeCount)) return false;
  if (!settings_.statistics.empty()) return true;
  return is_compressible(static_cast<DType>(dtype)) && (call.op == ncclSum || call.op == ncclAvg);
}

ncclResult_t Engine::reduce(const Call& call) noexcept {
  if (!is_worth_a_look(call)) return exact(call);
  std::shared_ptr<Comm> comm = table_.find(call.comm);
  if (comm == nullptr) {
    left_.count(call.comm);
    return exact(call);
  }
  // Peers may be in the middle of a call that this rank gave up: nothing would fit that.
  if (comm->failure() != ncclSuccess) return comm->failure();
  bool accepted = false;
  const Status planned = catch_all([&] {
    accepted = comm->plan(call);
    if (accepted && group().depth > 0) group().calls.push_back({comm, call});
    return Status::ok();
  });
  if (!planned.is_ok()) {
    return give_up(*comm, planned);
  }
  if (!accepted) return exact(call);
  if (group().depth > 0) return ncclSuccess;
  return run_call(std::move(comm), call);
}

/// A call that cannot be planned: other ranks may be in it.
ncclResult_t Engine::give_up(Comm& comm, const Status& status) noexcept {
  const ncclResult_t result = to_nccl_result(status.code());
  static_cast<void>(catch_all([&status] {
    warn_if_failed("cannot plan a call", status);
    set_last_error("ringpress: cannot plan a call: " + status.message());
    return Status::ok();
  }));
  comm.give_up(result);
  return result;
}

ncclResult_t Engine::run_call(std::shared_ptr<Comm> comm, const Call& call) {
  AcceptedCall accepted{std::move(comm), call};
  return run_calls(real_, {&accepted, 1});
}

ncclResult_t Engine::group_start() noexcept {
  const ncclResult_t result = real_.GroupStart();
  if (result == ncclSuccess) ++group().depth;
  return result;
}

ncclResult_t Engine::group_end() noexcept {
  Group& mine = group();
  if (mine.depth > 0) --mine.depth;
  if (mine.depth > 0) return real_.GroupEnd();
  CallVector<AcceptedCall> calls;
  calls.swap(mine.calls);
  std::vector<Pending> made = std::exchange(mine.made, {});
  const ncclResult_t result = of_real(real_.GroupEnd());
  // In progress: some communicator is nonblocking. Those of our calls are not.
  if (result != ncclSuccess && result != ncclInProgress) {
    call_off(made, "its ncclGroupEnd answers " + std::to_string(static_cast<int>(result)));
    return result;
  }
  if (!calls.empty()) {
    const ncclResult_t ours = run_calls(real_, calls);
    if (ours != ncclSuccess) {
      call_off(made, "a compressed call of the same group failed");
      return ours;
    }
  }
  // Of what is in progress nothing but those that are left is known here.
  if (!made.empty()) establish_made(std::move(made));
  return result;
}

/// Simulating runs nothing.
ncclResult_t Engine::group_simulate_end(ncclSimInfo_t* info) noexcept {
  Group& mine = group();
  if (mine.depth > 0 && --mine.depth == 0) {
    mine.calls.clear();
    call_off(std::exchange(mine.made, {}), "its group was simulated");
  }
  return real_.GroupSimulateEnd(info);
}

void Engine::id_made(ncclUniqueId* id) noexcept {
  warn_if_failed("cannot open a meeting place", catch_all([&] {
                   if (id != nullptr) meetings_.open(id);
                   return Status::ok();
                 }));
}

void Engine::joining(const ncclUniqueId& id) noexcept {
  warn_if_failed("cannot open a meeting place", catch_all([&] {
                   if (const auto place = read_meeting_place(id)) meetings_.serve(*place);
                   return Status::ok();
                 }));
}

void Engine::not_joined(const ncclUniqueId& id, const std::string& why) noexcept {
  warn_if_failed("cannot close a meeting place", catch_all([&] {
                   if (const auto place = read_meeting_place(id)) meetings_.call_off(*place, why);
                   return Status::ok();
                 }));
}

void Engine::call_off(const std::vector<Pending>& made, const std::string& why) {
  warn_if_failed("cannot close meeting places", catch_all([&] {
                   for (const Pending& pending : made) {
                     if (pending.made.place) meetings_.call_off(*pending.made.place, why);
                   }
                   return Status::ok();
                 }));
}

void Engine::made_rank(ncclComm_t* handle, const ncclUniqueId& id) noexcept {
  const std::optional<UniqueId> place = read_meeting_place(id);
  if (!place) {
    const std::string reason = why_no_place(id);
    warn_left(reason);
    return leave(handle, reason);
  }
  Pending pending;
  pending.handle = handle;
  pending.made.place = place;
  pending.made.clique = number_of(*place);
  pending.made.problem = problem();
  add_made(std::move(pending));
}

void Engine::made_all(ncclComm_t* handles, int count) noexcept {
  const std::uint64_t clique = ++in_process_cliques_;
  warn_if_failed("cannot look at new communicators", catch_all([&] {
                   std::vector<Pending> made;
                   for (int i = 0; i < count; ++i) {
                     Pending pending;
                     pending.handle = handles + i;
                     pending.made.clique = clique;
                     pending.made.in_process = true;
                     pending.made.problem = problem();
                     made.push_back(std::move(pending));
                   }
                   add_made(std::move(made));
                   return Status::ok();
                 }));
}

void Engine::made_child(ncclComm_t* handle, ncclComm_t parent, int color) noexcept {
  Pending pending;
  if (color == NCCL_SPLIT_NOCOLOR) return;
  pending.made.parent = table_.find(parent);
  pending.handle = handle;
  if (pending.made.parent == nullptr) pending.left_because = left_.reason_of(parent);
  if (pending.made.parent == nullptr && pending.left_because.empty()) return;
  add_made(std::move(pending));
}

void Engine::made_nonblocking(ncclComm_t* handle) noexcept {
  warn_left(kNonblocking);
  leave(handle, kNonblocking);
}

void Engine::leave(ncclComm_t* handle, const std::string& reason) {
  Pending pending;
  pending.handle = handle;
  pending.left_because = reason;
  add_made(std::move(pending));
}

/// In a group, even communicators of one process are complete at its outermost end only.
void Engine::add_made(std::vector<Pending> made) {
  if (group().depth == 0) return establish_made(std::move(made));
  for (Pending& pending : made) group().made.push_back(std::move(pending));
}

void Engine::add_made(Pending pending) {
  warn_if_failed("cannot look at a new communicator", catch_all([&] {
                   std::vector<Pending> made;
                   made.push_back(std::move(pending));
                   add_made(std::move(made));
                   return Status::ok();
                 }));
}

void Engine::establish_made(std::vector<Pending> made) {
  warn_if_failed("cannot look at new communicators", catch_all([&] {
                   std::vector<NewComm> comms;
                   for (Pending& pending : made) {
                     pending.made.handle = *pending.handle;
                     if (pending.made.handle == nullptr) continue;
                     if (pending.left_because.empty()) {
                       comms.push_back(std::move(pending.made));
                     } else {
                       left_.add(pending.made.handle, pending.left_because);
                     }
                   }
                   if (!comms.empty()) {
                     establish(real_, settings_, meetings_, {table_, left_}, comms);
                   }
                   return Status::ok();
                 }));
}

const std::string& Engine::problem() {
  std::call_once(looked_for_problem_, [this] {
    const Status status = catch_all([this]() -> Status {
      check_statistics_file(settings_);
      RINGPRESS_RETURN_IF_ERROR(check_settings(settings_));
      RINGPRESS_RETURN_IF_ERROR(check_budget(settings_));
      return check_backend(settings_.backend);
    });
    warn_if_failed("nothing is compressed", status);
    if (!status.is_ok()) problem_ = status.message();
  });
  return problem_;
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
    set_log_level(log_level_of(settings));
    if (settings.mode == "off") return Status::ok();
    RINGPRESS_RETURN_IF_ERROR(check_real(real));
    engine = new Engine(real, settings);  // Lives as long as the process.
    return Status::ok();
  });
  warn_if_failed("nothing is compressed", status);
  return engine;
}

}  // namespace ringpress::nccl_plugin::interposer
