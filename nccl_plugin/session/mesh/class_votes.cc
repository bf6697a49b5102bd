#include "nccl_plugin/session/mesh/class_votes.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>

namespace ringpress::nccl_plugin {

ClassVotes::ClassVotes(MeshSession& session)
    : session_(session),
      classes_(session.settings, session.settings.comm_name.value_or(""), session.call_sequence) {}

Status ClassVotes::observe(const PlanRequest& request, const void* address, const void* values) {
  is_observed_ = classes_.is_of_interest(request);
  if (!is_observed_) return Status::ok();
  CallEvidence::Seen seen{address};
  if (classes_.wants_times()) {
    const Clock::time_point now = Clock::now();
    const auto seconds = [](auto span) { return std::chrono::duration<double>(span).count(); };
    seen.pause_seconds = std::max(0.0, seconds(now - last_end_));
    seen.call_seconds = std::max(0.0, seconds(last_end_ - last_begin_));
    last_begin_ = now;
  }
  ValueSample sample{};
  if (values != nullptr && classes_.ballot().wants_values()) {
    sample = sample_values(values, request.count, request.dtype);
  }
  classes_.observe(request, seen, sample);
  if (!classes_.is_vote_due()) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  return session_.decide_on(request, [&]() -> Status {
    double against = classes_.vote() ? 0 : 1;
    RINGPRESS_RETURN_IF_ERROR(session_.peers.max(std::span(&against, 1)));
    classes_.apply(against == 0);
    return Status::ok();
  });
}

}  // namespace ringpress::nccl_plugin
