#include "nccl_plugin/interposer/comm/call_classifier.h"

#include <optional>
#include <utility>

namespace ringpress::nccl_plugin::interposer {
namespace {

// A program may be so far ahead of its device, and of other ranks, without waiting for a vote.
constexpr std::size_t kStepsUntilHeard = 2;

}  // namespace

CallClassifier::CallClassifier(CommParts& parts)
    : parts_(parts),
      classes_(parts.settings, parts.policy.name(), parts.sequence, kStepsUntilHeard) {}

bool CallClassifier::must_wait(const PlanRequest& request, PlannedCall* planned) {
  if (parts_.votes == nullptr || !classes_.is_of_interest(request)) return false;
  const bool waits = waiting_ > 0 || (classes_.next_vote().may_be_heard_next() &&
                                      find_capture(*parts_.device, planned) == 0);
  if (waits) ++waiting_;
  return waits;
}

Status CallClassifier::begin_turn(const PlanRequest& request, PlannedCall* planned) {
  if (waiting_ > 0) --waiting_;
  observe(request, planned);
  const bool is_captured = find_capture(*parts_.device, planned) != 0;
  if (is_captured || !classes_.next_vote().is_result_due()) return Status::ok();
  return hear(planned->call.stream);
}

/// Nothing has been voted where the group of the call that was to carry it was never run.
Status CallClassifier::hear(Stream stream) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::optional<ClassBallot> of_all,
                             parts_.votes->receive(stream, parts_.lifetime.watch()));
  if (of_all) {
    classes_.apply(*of_all);
  } else {
    classes_.next_vote().end();
  }
  return Status::ok();
}

/// What is put off is voted on in another way, call by call.
void CallClassifier::observe(const PlanRequest& request, PlannedCall* planned) {
  if (!classes_.is_of_interest(request) || find_capture(*parts_.device, planned) != 0) return;
  classes_.observe(request, see(planned->call));
  planned->votes = classes_.is_vote_due() && parts_.votes != nullptr;
}

/// The program's pauses: how long calls take is not known here.
CallEvidence::Seen CallClassifier::see(const Call& call) {
  CallEvidence::Seen seen{call.send};
  if (!classes_.wants_times()) return seen;
  const auto now = std::chrono::steady_clock::now();
  seen.pause_seconds = std::chrono::duration<double>(now - last_call_).count();
  last_call_ = now;
  return seen;
}

void CallClassifier::classify(const PlanRequest& request, PlannedCall* planned) const {
  if (!classes_.is_of_interest(request)) return;
  const bool is_captured = find_capture(*parts_.device, planned) != 0;
  planned->call.call_class =
      is_captured ? classes_.class_of_captured(request) : classes_.class_of(request);
}

Status CallClassifier::add_vote(const Call& call, StreamCallPointer* started) {
  CallFrame frame;
  RINGPRESS_ASSIGN_OR_RETURN(
      frame.words, parts_.votes->send(classes_.vote(), call.stream, parts_.lifetime.watch()));
  *started = make_framed_call(parts_.framed_parts(call), frame, std::move(*started));
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::interposer
