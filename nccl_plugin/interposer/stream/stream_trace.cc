#include "nccl_plugin/interposer/stream/stream_trace.h"

#include <utility>

#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "nccl_plugin/session/steps/step_trace.h"

namespace ringpress::nccl_plugin::interposer {

bool StreamTrace::is_wanted(const Settings& settings, int rank, int world) {
  return rank == 0 && world > 1 && !settings.trace.empty() && !LazyCalls::is_wanted(settings);
}

StreamTrace::StreamTrace(Device& device, int world, std::shared_ptr<CallSequence> sequence)
    : device_(device),
      world_(world),
      clock_(device, static_cast<std::size_t>(world)),
      recorder_(CallUser::kTrace, std::move(sequence)) {}

bool StreamTrace::begin_timing(const TensorCall& call, Stream stream, bool is_trial,
                               CallFrame* frame) {
  collect();
  RecordedCall known;
  known.call = call;
  known.standing = recorder_.stand(call);
  known.is_trial = is_trial;
  return clock_.begin(known, stream, frame);
}

void StreamTrace::time(const TensorCall& call, Stream stream, bool is_trial, CallFrame* frame) {
  if (!begin_timing(call, stream, is_trial, frame)) skip();
}

/// Within a group exact calls may have begun: their frames are not to be used any more.
void StreamTrace::skip() {
  exact_.clear();
  clock_.forget();
  const std::lock_guard lock(recorder_mutex_);
  recorder_.skip();
}

void StreamTrace::begin_exact(const TensorCall& call, Stream stream) {
  ExactCall exact{stream, {}};
  const bool has_begun = begin_timing(call, stream, false, &exact.frame) &&
                         device_.record(exact.frame.begin, stream).is_ok();
  if (!has_begun) return skip();
  exact_.push_back(exact);
}

void StreamTrace::end_exact() {
  bool have_ended = true;
  for (const ExactCall& exact : exact_) {
    have_ended = have_ended && device_.record(exact.frame.end, exact.stream).is_ok();
    exact.frame.sent->is_known = true;
  }
  exact_.clear();
  if (!have_ended) skip();
}

/// Takes note of the calls that the device has done by now.
void StreamTrace::collect() {
  RecordedCall call;
  for (;;) {
    switch (clock_.next(&call)) {
      case StreamClock::Seen::kCall: {
        const std::lock_guard lock(recorder_mutex_);
        recorder_.note(call);
        break;
      }
      case StreamClock::Seen::kNothing:
        return;
      case StreamClock::Seen::kFailure:
        return skip();
    }
  }
}

void StreamTrace::close(const std::string& path, const std::string& codec, ReportTime time) {
  if (time == ReportTime::kEnd) collect();
  const auto lock = lock_for_report(recorder_mutex_, time);
  if (!lock.owns_lock()) return;
  write_trace(path, recorder_, {world_, codec, CodecTime::kPartOfLink}, time);
}

}  // namespace ringpress::nccl_plugin::interposer
