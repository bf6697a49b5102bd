#include "nccl_plugin/session/steps/step_planner.h"

#include <algorithm>
#include <utility>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/planner.h"

namespace ringpress::nccl_plugin {
namespace {

// The first message of a search comes before this call, the next ones each time after twice as
// many, up to a distance: soon enough for steps of few calls, seldom enough to cost nothing.
constexpr std::uint64_t kFirstMessage = 64;
constexpr std::uint64_t kMostBetweenMessages = 1024;
// After each plan that no longer fitted, the first message comes so much later, up to a limit.
constexpr std::uint64_t kLater = 4;
constexpr std::uint64_t kLatestFirstMessage = std::uint64_t{1} << 20;

bool names_no_collective(const PlannedStepCall& call) {
  return !runs_on_mesh(call.algorithm);
}

}  // namespace

bool StepPlanner::is_wanted(const Settings& settings, int world, bool crosses_hosts) {
  return is_automatic(settings) && crosses_hosts && world > 1;
}

StepPlanner::StepPlanner(int rank, int world, std::size_t minimum_bytes,
                         std::shared_ptr<CallSequence> sequence)
    : first_message_(kFirstMessage) {
  if (rank == 0) search_.emplace(world, minimum_bytes, std::move(sequence));
  start_anew();
}

void StepPlanner::start_anew() {
  calls_ = 0;
  next_message_ = first_message_;
  plan_.clear();
  cursor_ = 0;
  if (search_) search_->begin();
}

void StepPlanner::start_over() {
  const bool has_ended = next_message_ == kNoMessage || calls_ >= kMostCallsWithoutStep;
  if (!plan_.empty() || has_ended) return start_anew();
  if (search_) search_->go_on();
}

StepMessage StepPlanner::message(std::span<const TensorCall> under_way) {
  return search_ ? search_->message(under_way, calls_, first_message_ - kFirstMessage)
                 : StepMessage();
}

Status StepPlanner::apply(const StepMessage& message, std::size_t calls_since) {
  next_message_ = calls_ + std::min(calls_, kMostBetweenMessages);
  if (message.header.looks_on == 0) next_message_ = kNoMessage;
  if (message.header.is_news == 0) return Status::ok();
  if (message.calls.size() != message.header.calls ||
      (message.header.calls > 0 && message.header.next >= message.header.calls) ||
      std::any_of(message.calls.begin(), message.calls.end(), names_no_collective)) {
    return {Code::kMismatch, "rank 0's plan for the step makes no sense"};
  }
  plan_ = message.calls;
  // Of the calls since the message, none was made as it says.
  if (is_recording()) search_->record_anew();
  if (!plan_.empty()) cursor_ = (message.header.next + calls_since) % plan_.size();
  return Status::ok();
}

const PlannedStepCall* StepPlanner::begin_call(const TensorCall& call) {
  if (!plan_.empty() && !fits(plan_[cursor_], call)) {
    first_message_ = std::min(first_message_ * kLater, kLatestFirstMessage);
    start_anew();
  }
  ++calls_;
  if (plan_.empty()) return nullptr;
  const PlannedStepCall& planned_call = plan_[cursor_];
  cursor_ = (cursor_ + 1) % plan_.size();
  return planned_call.stays_exact != 0 ? &planned_call : nullptr;
}

std::optional<CallStanding> StepPlanner::stand(const TensorCall& call) {
  return search_ ? search_->stand(call) : std::nullopt;
}

void StepPlanner::note(const RecordedCall& call) {
  if (search_) search_->note(call);
}

void StepPlanner::skip() {
  if (search_) search_->skip(calls_);
}

}  // namespace ringpress::nccl_plugin
