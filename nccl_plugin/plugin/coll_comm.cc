#include "nccl_plugin/plugin/coll_comm.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/plugin/collnet_policy.h"
#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/session/calls/call_classes.h"
#include "nccl_plugin/session/live/live_line.h"
#include "nccl_plugin/session/start_line.h"
#include "nccl_plugin/session/statistics_file.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

/// Of pieces of one shape, what both workers have measured.
void add_error(const MeasuredError& error, std::vector<MeasuredError>* all) {
  const auto known = std::find_if(all->begin(), all->end(), [&error](const MeasuredError& one) {
    return one.count == error.count && one.dtype == error.dtype;
  });
  if (known == all->end()) {
    all->push_back(error);
    return;
  }
  const auto looks = static_cast<double>(known->looks), more = static_cast<double>(error.looks);
  const double squares = looks * known->mean * known->mean + more * error.mean * error.mean;
  known->mean = std::sqrt(squares / (looks + more));
  known->looks += error.looks;
  known->last = error.last;
  known->worst = std::max(known->worst, error.worst);
  known->more_bits = std::max(known->more_bits, error.more_bits);
}

/// The same of what is known where calls are followed.
void add_followed(const Statistics& now, const Statistics& before, Statistics* total) {
  const Statistics between = statistics_between(before, now);
  for (const auto& [codec, calls] : between.by_codec) {
    CodecCalls& sum = total->by_codec[codec];
    sum.calls += calls.calls;
    sum.raw_bytes += calls.raw_bytes;
    sum.wire_bytes += calls.wire_bytes;
  }
  if (between.phases) {
    if (!total->phases) total->phases.emplace();
    for (std::size_t phase = 0; phase < kCallPhases; ++phase) {
      (*total->phases)[phase] += (*between.phases)[phase];
    }
  }
  if (!now.residual_norm) return;
  total->residual_norm = std::hypot(total->residual_norm.value_or(0), *now.residual_norm);
}

LiveIdentity live_identity(const CollWorker& worker) {
  const Communicator& communicator = worker.communicator();
  const int nodes = communicator.size();
  return {worker.watch()->name(), "plugin", communicator.rank(), nodes, nodes};
}

template <typename Workers>
LiveReport::Watches watches_of(const Workers& workers) {
  LiveReport::Watches watches;
  for (const auto& worker : workers) watches.push_back(worker->watch());
  return watches;
}

/// Adds what was done between `before` and `now`.
void add_difference(const Statistics& now, const Statistics& before, Statistics* total) {
  total->calls += now.calls - before.calls;
  total->compressed_calls += now.compressed_calls - before.compressed_calls;
  total->unbiased_calls += now.unbiased_calls - before.unbiased_calls;
  total->raw_bytes += now.raw_bytes - before.raw_bytes;
  total->wire_bytes += now.wire_bytes - before.wire_bytes;
  total->calibration_bytes += now.calibration_bytes - before.calibration_bytes;
  total->residual_bytes += now.residual_bytes - before.residual_bytes;
  total->observed_calls += now.observed_calls - before.observed_calls;
  total->observed_raw_bytes += now.observed_raw_bytes - before.observed_raw_bytes;
  total->nanoseconds += now.nanoseconds - before.nanoseconds;
  for (const auto& [reason, count] : now.exact_calls) {
    const auto earlier = before.exact_calls.find(reason);
    const std::uint64_t more = count - (earlier != before.exact_calls.end() ? earlier->second : 0);
    if (more != 0) total->exact_calls[reason] += more;
  }
  for (const MeasuredError& error : now.errors) add_error(error, &total->errors);
  add_followed(now, before, total);
  if (now.calls == before.calls) return;
  total->last_codec = now.last_codec;
  total->last_algorithm = now.last_algorithm;
  total->last_reason = now.last_reason;
}

void log_totals(const Statistics& total, const Communicator& communicator) {
  log(abi::LogLevel::kInfo, abi::kLogNet,
      "CollNet of node %d of %d: %llu calls, %llu compressed (%llu of them unbiased), %llu bytes "
      "became %llu",
      communicator.rank(), communicator.size(), static_cast<unsigned long long>(total.calls),
      static_cast<unsigned long long>(total.compressed_calls),
      static_cast<unsigned long long>(total.unbiased_calls),
      static_cast<unsigned long long>(total.raw_bytes),
      static_cast<unsigned long long>(total.wire_bytes));
}

}  // namespace

CollComm::CollComm(Communicators communicators, const Settings& settings)
    : Object(kKind), process_(getpid()), settings_(settings) {
  for (CollRequest& request : requests_) request.owner = this;
  for (std::size_t worker = 0; worker < kCollWorkers; ++worker) {
    CallWatch* const watch = communicators[worker]->watch();
    workers_[worker] = std::make_unique<CollWorker>(std::move(communicators[worker]), watch);
  }
}

Status CollComm::start() {
  try {
    for (std::size_t worker = 0; worker < kCollWorkers; ++worker) {
      workers_[worker]->start(workers_[kCollWorkers - 1 - worker].get());
    }
  } catch (const std::system_error& error) {  // The one that runs looks after its companion.
    for (auto& worker : workers_) worker->stop();
    return Status(Code::kSystem, std::string("a thread cannot be started: ") + error.what());
  }
  return Status::ok();
}

void CollComm::begin(TensorPart part) {
  decisions_ = CollDecisions(part);
  const auto nodes_here = static_cast<std::size_t>(nodes());
  why_unused_ = CollNetPolicy(settings_, {nodes_here, nodes_here, 0}).why_none();
  has_begun_ = true;
  for (std::size_t worker = 0; worker < kCollWorkers; ++worker) {
    before_[worker] = workers_[worker]->communicator().statistics();
  }
  say_start(settings_, workers_[0]->communicator().rank(), nodes(), true, "nodes");
  const bool is_followed = follows_calls(settings_);
  if (is_followed) {
    // Of all workers together.
    reports_.live.open(
        settings_, live_identity(*workers_[0]),
        [this](ReportTime time) { return statistics(time); }, watches_of(workers_));
  }
  if (settings_.statistics.empty() && !is_followed) return;
  reports_.end.open([this](ReportTime time) { write_report(time); });
}

void CollComm::write_report(ReportTime time) {
  const std::optional<Statistics> total = statistics(time);
  if (!total) return;
  const Communicator& communicator = workers_[0]->communicator();
  write_statistics(settings_, communicator.rank(), communicator.size(), *total);
  reports_.live.close(time);
}

CollComm::~CollComm() {
  for (auto& worker : workers_) worker->stop();
  reports_.end.write();
  if (!has_begun_) return;
  // The program may have no memory left for a copy of what is profiled.
  static_cast<void>(catch_all([this] {
    log_totals(*statistics(ReportTime::kEnd), workers_[0]->communicator());
    return Status::ok();
  }));
}

bool CollComm::is_of_this_process() const {
  return process_ == getpid();
}

/// Of all workers together, without what they did to get ready. What the last call was is that of
/// the last worker's; where none came, why. At the exit nothing if a worker has its own under lock.
std::optional<Statistics> CollComm::statistics(ReportTime time) const {
  Statistics total;
  const std::size_t last_worker = last_worker_.load();
  for (std::size_t turn = 1; turn <= kCollWorkers; ++turn) {
    const std::size_t worker = (last_worker + turn) % kCollWorkers;
    const Communicator& communicator = workers_[worker]->communicator();
    const std::optional<Statistics> now = communicator.statistics_at(time);
    if (!now) return std::nullopt;
    add_difference(*now, before_[worker], &total);
  }
  if (total.calls == 0) total.last_reason = why_unused_;
  return total;
}

CollRequest* CollComm::all_reduce(const CollCall& call) {
  CollRequest* const request = &requests_[next_request_];
  if (request->state.load(std::memory_order_acquire) != CollRequest::State::kFree) return nullptr;
  next_request_ = (next_request_ + 1) % kCollRequests;
  request->call = call;
  const bool had_unknown = decisions_.has_unknown();
  request->decision = decisions_.decide(call, &profiled_tensors_of_this_thread());
  const bool is_first = decisions_.has_unknown() && !had_unknown;
  if (is_first && decisions_.part() != TensorPart::kNothing) tell_unknown();
  last_worker_.store(request->decision.worker, std::memory_order_relaxed);
  workers_[request->decision.worker]->append(request);
  return request;
}

Status CollComm::check_events() {
  if (decisions_.part() == TensorPart::kNothing || !has_lost_events()) return Status::ok();
  for (auto& worker : workers_) worker->abort();
  return Status(Code::kSystem,
                "this process had no memory to take note of what NCCL told its profiler: the other "
                "nodes know of tensors that it does not");
}

void CollComm::tell_unknown() const {
  log(abi::LogLevel::kWarn, abi::kLogNet,
      "CollNet of node %d of %d: NCCL has not told its profiler which tensor a piece is of; such "
      "pieces are %s",
      workers_[0]->communicator().rank(), nodes(),
      takes_gradients_alone(settings_)
          ? "exact, as they may be of no gradient (RINGPRESS_GRADIENTS=all compresses them)"
          : "compressed without error feedback");
}

Result<bool> CollComm::test(CollRequest* request, bool* is_told) {
  switch (request->state.load(std::memory_order_acquire)) {
    case CollRequest::State::kWaiting:
      return false;
    case CollRequest::State::kDone:
      request->state.store(CollRequest::State::kFree, std::memory_order_release);
      return true;
    case CollRequest::State::kFailed:
      request->state.store(CollRequest::State::kFree, std::memory_order_release);
      *is_told = std::exchange(is_failure_told_, true);  // Each worker may have words of its own.
      return workers_[request->decision.worker]->failure();
    case CollRequest::State::kFree:
      break;
  }
  return Status(Code::kInvalidArgument, "a request that is not under way");
}

}  // namespace ringpress::nccl_plugin::plugin
