#include "nccl_plugin/session/steps/step_planner.h"

#include <algorithm>
#include <utility>

#include "nccl_plugin/session/steps/step_link.h"
#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/log.h"
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
// So many calls later rank 0 no longer looks for a plan, and sooner where no step has been found:
// to search among calls that repeat nothing takes some 6 us in each of them, to follow a step 0.8.
constexpr std::uint64_t kMostCalls = std::uint64_t{1} << 15;
constexpr std::uint64_t kMostCallsWithoutStep = std::uint64_t{1} << 13;
// And when so many looks at a step have found nothing to leave exact.
constexpr int kMostFruitlessLooks = 4;
// A plan that makes the step longer than this is given up, for good.
constexpr double kMostLonger = 1.02;
// A plan makes a step hardly shorter. One that has become so short took so long before because of
// something else, as a machine that was busy: the plan goes by times that are no longer so.
constexpr double kMuchShorter = 0.9;
// For which it is looked at so often, as far apart as words are.
constexpr int kMostJudgements = 4;
// Nor is anything planned by a step that takes so much longer than it did at an earlier look.
constexpr double kMuchLonger = 1.1;
// An exact call is taken to last so much longer than the link says: a plan is to have some slack.
constexpr double kCaution = 1.1;
// A pause of at least this part of the longest may as well be the one between two steps. What comes
// before that has no time to lose, whatever the pause after it.
constexpr double kNearlyAsLong = 0.5;
constexpr std::size_t kMostBeginnings = 4;

PlannedStepCall planned(const TensorCall& call, bool stays_exact) {
  PlannedStepCall planned;
  planned.count = call.count;
  planned.dtype = static_cast<std::uint8_t>(call.dtype);
  planned.op = static_cast<std::uint8_t>(call.op);
  planned.stays_exact = stays_exact ? 1 : 0;
  return planned;
}

bool fits(const PlannedStepCall& plan, const TensorCall& call) {
  const PlannedStepCall shape = planned(call, false);
  return plan.count == shape.count && plan.dtype == shape.dtype && plan.op == shape.op;
}

bool names_no_collective(const PlannedStepCall& call) {
  return !runs_on_mesh(call.algorithm);
}

/// Which call of the step comes after those; nothing if they do not go on with it.
std::optional<std::size_t> next_after(const RecordedStep& step, std::span<const TensorCall> calls) {
  std::size_t next = step.next;
  for (const TensorCall& call : calls) {
    if (!fits(planned(step.calls[next].call, false), call)) return std::nullopt;
    next = (next + 1) % step.calls.size();
  }
  return next;
}

/// By its own times, not by those of all calls of its size: layers have codecs of their own, and a
/// call may have to wait for other ranks where it is. What a compressed call would take exact is
/// what the link says, whose rate is that of calls with their codecs: rather too long than too
/// short.
espresso::CallPrice price_of(const StepCall& call, int world, const LinkSpeed& link) {
  const bool is_settled = call.is_by_rule || !was_compressed(call, world);
  if (is_settled) return {call.call_seconds, call.call_seconds};
  const double exact =
      kCaution * (2 * link.latency_seconds + exact_bytes(call, world) / link.bytes_per_second);
  return {std::max(exact, call.call_seconds), call.call_seconds};
}

/// Those that the best plan does not compress, if the step begins with its first call.
std::vector<bool> calls_not_compressed(const RecordedStep& step, int world, const LinkSpeed& link) {
  std::vector<bool> exact(step.calls.size(), false);
  espresso::Job job = job_of(step, static_cast<std::size_t>(world), link);
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    job.tensors[i].call = price_of(step.calls[i], world, link);
  }
  if (!check(job).is_ok()) return exact;
  const std::vector<espresso::Option> options = espresso::call_options();
  const espresso::Plan best = espresso::plan(job, options);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    exact[i] = !options[best.choices[i].option].compresses();
  }
  return exact;
}

/// The calls with which the step may begin: the first, and others after pauses nearly as long.
std::vector<std::size_t> beginnings(const RecordedStep& step) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    if (step.calls[i].gap_seconds >= kNearlyAsLong * step.calls[0].gap_seconds) found.push_back(i);
  }
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
    return step.calls[a].gap_seconds > step.calls[b].gap_seconds;
  });
  if (found.size() > kMostBeginnings) found.resize(kMostBeginnings);
  return found;
}

}  // namespace

std::vector<bool> calls_to_leave_exact(const RecordedStep& step, int world,
                                       std::size_t minimum_bytes) {
  const std::size_t count = step.calls.size();
  const Result<LinkSpeed> link = link_of(step);
  // Where nothing overlaps, a step is shorter by what each of its calls is.
  if (!link.is_ok() || !step.overlaps()) return std::vector<bool>(count, false);
  std::vector<bool> exact;
  for (const StepCall& call : step.calls) {
    exact.push_back(!is_too_small(call.bytes(), minimum_bytes) && was_compressed(call, world) &&
                    !call.is_by_rule);
  }
  for (const std::size_t first : beginnings(step)) {
    RecordedStep turned = step;
    const auto middle = turned.calls.begin() + static_cast<std::ptrdiff_t>(first);
    std::rotate(turned.calls.begin(), middle, turned.calls.end());
    const std::vector<bool> found = calls_not_compressed(turned, world, link.value());
    for (std::size_t i = 0; i < count; ++i) {
      exact[(first + i) % count] = exact[(first + i) % count] && found[i];
    }
  }
  return exact;
}

bool StepPlanner::is_wanted(const Settings& settings, int world, bool crosses_hosts) {
  return is_automatic(settings) && crosses_hosts && world > 1;
}

StepPlanner::StepPlanner(int rank, int world, std::size_t minimum_bytes,
                         std::shared_ptr<CallSequence> sequence)
    : is_root_(rank == 0),
      world_(world),
      minimum_bytes_(minimum_bytes),
      sequence_(std::move(sequence)),
      first_message_(kFirstMessage) {
  start_anew();
}

/// What was seen before is nothing to it, but the sequence is still known.
void StepPlanner::start_recording() {
  recorder_ = std::make_unique<StepRecorder>(CallUser::kPlan, sequence_);
}

void StepPlanner::start_anew() {
  calls_ = 0;
  next_message_ = first_message_;
  plan_.clear();
  cursor_ = 0;
  if (is_root_) start_recording();
  calls_in_vain_ = 0;
  fruitless_looks_ = 0;
  has_doubted_ = false;
  shortest_ = {};
  unplanned_seconds_.reset();
  judgements_ = 0;
}

void StepPlanner::start_over() {
  const bool has_ended = next_message_ == kNoMessage || calls_ >= kMostCallsWithoutStep;
  if (!plan_.empty() || has_ended) return start_anew();
  fruitless_looks_ = 0;
  shortest_ = {};
  unplanned_seconds_.reset();
  if (is_root_ && recorder_ == nullptr) start_recording();
}

StepMessage StepPlanner::message(std::span<const TensorCall> under_way) {
  StepMessage message = find_message(under_way);
  message.header.looks_on = recorder_ != nullptr ? 1 : 0;
  return message;
}

StepMessage StepPlanner::find_message(std::span<const TensorCall> under_way) {
  if (recorder_ == nullptr) return {};
  const std::optional<RecordedStep> step = recorder_->current();
  const std::uint64_t most = step ? kMostCalls : kMostCallsWithoutStep;
  const std::uint64_t since = std::max(calls_in_vain_, first_message_ - kFirstMessage);
  if (calls_ >= since + most && !unplanned_seconds_) recorder_.reset();
  if (!step || recorder_ == nullptr) return {};
  return unplanned_seconds_ ? judge_plan(*step) : plan_step(*step, under_way);
}

StepMessage StepPlanner::judge_plan(const RecordedStep& step) {
  StepMessage message;
  // Later, steps may be longer for other reasons than the plan.
  const bool is_first = judgements_++ == 0;
  const bool is_longer = is_first && step.seconds() > *unplanned_seconds_ * kMostLonger;
  const bool is_doubtful = !has_doubted_ && step.seconds() < *unplanned_seconds_ * kMuchShorter;
  if (is_longer || is_doubtful) {
    log_line(LogLevel::kInfo, "the plan for the step is given up%s: %.3f ms with it, %.3f before",
             is_longer ? "" : ", and looked for anew", 1e3 * step.seconds(),
             1e3 * *unplanned_seconds_);
    message.header.is_news = 1;
  }
  if (is_doubtful) {
    has_doubted_ = true;
    start_recording();
    unplanned_seconds_.reset();
    judgements_ = 0;
    calls_in_vain_ = calls_;  // It has as long as the first search to find a step.
  } else if (is_longer || has_doubted_ || judgements_ == kMostJudgements) {
    recorder_.reset();
  } else {
    start_recording();
  }
  return message;
}

bool StepPlanner::takes_long(const RecordedStep& step) {
  const SeenStep now = {step.calls.size(), step.bytes(), step.seconds()};
  const bool is_known = now.calls == shortest_.calls && now.bytes == shortest_.bytes;
  if (is_known && now.seconds > kMuchLonger * shortest_.seconds) return true;
  if (!is_known || now.seconds < shortest_.seconds) shortest_ = now;
  return false;
}

StepMessage StepPlanner::plan_step(const RecordedStep& step,
                                   std::span<const TensorCall> under_way) {
  StepMessage message;
  const std::optional<std::size_t> next = next_after(step, under_way);
  if (!next) return message;
  std::vector<bool> exact(step.calls.size(), false);
  if (exact.size() <= StepMessage::kMostCalls && !takes_long(step)) {
    exact = calls_to_leave_exact(step, world_, minimum_bytes_);
  }
  const auto count = std::count(exact.begin(), exact.end(), true);
  log_line(LogLevel::kInfo, "a step of %zu all-reduces and %.3f ms: %td of them stay exact",
           exact.size(), 1e3 * step.seconds(), count);
  if (count == 0) {
    if (++fruitless_looks_ == kMostFruitlessLooks) recorder_.reset();
    return message;
  }
  unplanned_seconds_ = step.seconds();
  message.header.is_news = 1;
  message.header.calls = static_cast<std::uint32_t>(step.calls.size());
  message.header.next = static_cast<std::uint32_t>(*next);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    message.calls.push_back(planned(step.calls[i].call, exact[i]));
  }
  return message;
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
  if (recorder_ != nullptr) start_recording();
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
  if (recorder_ == nullptr) return std::nullopt;
  return recorder_->stand(call);
}

void StepPlanner::note(const RecordedCall& call) {
  if (recorder_ != nullptr) recorder_->note(call);
}

void StepPlanner::skip() {
  if (recorder_ == nullptr) return;
  recorder_->skip();
  calls_in_vain_ = calls_;
}

}  // namespace ringpress::nccl_plugin
