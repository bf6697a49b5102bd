#include "nccl_plugin/session/steps/steps_of_calls.h"

#include <exception>

#include "ringpress/internal/log.h"
#include "ringpress/internal/planner.h"

namespace ringpress::nccl_plugin {

void StepsOfCalls::open(const Settings& settings, int rank, int world, bool crosses_hosts,
                        const std::shared_ptr<CallSequence>& sequence) {
  is_root_ = rank == 0;
  world_ = world;
  trace_file_ = settings.trace;
  minimum_bytes_ = settings.minimum_bytes;
  if (world < 2) return;
  if (is_root_ && !trace_file_.empty()) {
    trace_ = std::make_unique<StepRecorder>(CallUser::kTrace, sequence);
  }
  if (StepPlanner::is_wanted(settings, world, crosses_hosts)) {
    planner_ = std::make_unique<StepPlanner>(rank, world, settings.minimum_bytes, sequence);
  }
}

void StepsOfCalls::close(const std::string& codec, ReportTime time) const {
  if (trace_ == nullptr) return;
  const auto lock = lock_for_report(trace_mutex_, time);
  if (!lock.owns_lock()) return;
  write_trace(trace_file_, *trace_, {world_, codec, CodecTime::kMeasured, link_}, time);
}

void StepsOfCalls::set_link(const LinkSpeed& link) {
  const std::lock_guard lock(trace_mutex_);
  link_ = link;
}

StepMessage StepsOfCalls::message() noexcept {
  try {
    if (is_root_) return planner_->message();
  } catch (const std::exception& error) {
    log_line(LogLevel::kWarn, "no plan is made for the step: %s", error.what());
  }
  return {};
}

bool StepsOfCalls::is_planned(const TensorCall& call) const {
  return planner_ != nullptr && !is_too_small(call.count * dtype_size(call.dtype), minimum_bytes_);
}

void StepsOfCalls::begin_call(const TensorCall& call) {
  stays_exact_.reset();
  if (!is_planned(call)) return;
  if (const PlannedStepCall* const exact = planner_->begin_call(call)) stays_exact_ = *exact;
}

CallUsers StepsOfCalls::users(const TensorCall& call) const {
  CallUsers users;
  if (trace_ != nullptr) users.add(CallUser::kTrace);
  if (is_planned(call) && planner_->is_recording()) users.add(CallUser::kPlan);
  return users;
}

void StepsOfCalls::end_timing(const TensorCall& call, const Made& made) {
  if (!is_timed_) return;
  is_timed_ = false;
  RecordedCall recorded = clock_.end_call(call, made.sent_bytes);
  recorded.is_by_rule = made.is_by_rule;
  recorded.is_trial = made.is_trial;
  if (trace_ != nullptr) {
    const std::lock_guard lock(trace_mutex_);
    trace_->note(recorded);
  }
  if (!is_planned(call)) return;
  // Calls that are made in different ways for a while are no step to be planned by.
  if (made.is_trial) return planner_->skip();
  planner_->note(recorded);
}

}  // namespace ringpress::nccl_plugin
