#include "nccl_plugin/session/mesh/class_votes.h"

#include <algorithm>
#include <array>
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
  if (values != nullptr && classes_.next_vote().wants_values()) {
    sample = sample_values(values, request.count, request.dtype);
  }
  classes_.observe(request, seen, sample);
  if (!classes_.is_vote_due()) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  return session_.decide_on(request, [&]() -> Status {
    const ClassBallot own = classes_.vote();
    std::array<double, ClassBallot::kShapes> verdicts;
    for (std::size_t i = 0; i < verdicts.size(); ++i) verdicts[i] = static_cast<double>(own.of(i));
    RINGPRESS_RETURN_IF_ERROR(session_.peers.max(verdicts));
    ClassBallot of_all;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      of_all.add(i, static_cast<Verdict>(verdicts[i]));
    }
    classes_.apply(of_all);
    return Status::ok();
  });
}

}  // namespace ringpress::nccl_plugin
