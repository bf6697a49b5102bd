#include "nccl_plugin/session/steps/step_search.h"

#include <algorithm>
#include <utility>

#include "nccl_plugin/session/steps/step_link.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/planner.h"

namespace ringpress::nccl_plugin {
namespace {

// So many calls later rank 0 no longer looks for a plan of the step that has been found.
constexpr std::uint64_t kMostCalls = std::uint64_t{1} << 15;
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

/// Which call of the step comes after those; nothing if they do not go on with it.
std::optional<std::size_t> next_after(const RecordedStep& step, std::span<const TensorCall> calls) {
  std::size_t next = step.next;
  for (const TensorCall& call : calls) {
    if (!fits(plan_of(step.calls[next].call, false), call)) return std::nullopt;
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

PlannedStepCall plan_of(const TensorCall& call, bool stays_exact) {
  PlannedStepCall plan;
  plan.count = call.count;
  plan.dtype = static_cast<std::uint8_t>(call.dtype);
  plan.op = static_cast<std::uint8_t>(call.op);
  plan.stays_exact = stays_exact ? 1 : 0;
  return plan;
}

bool fits(const PlannedStepCall& plan, const TensorCall& call) {
  const PlannedStepCall shape = plan_of(call, false);
  return plan.count == shape.count && plan.dtype == shape.dtype && plan.op == shape.op;
}

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

void StepSearch::record_anew() {
  recorder_ = std::make_unique<StepRecorder>(CallUser::kPlan, sequence_);
}

void StepSearch::begin() {
  record_anew();
  calls_in_vain_ = 0;
  fruitless_looks_ = 0;
  has_doubted_ = false;
  shortest_ = {};
  unplanned_seconds_.reset();
  judgements_ = 0;
}

void StepSearch::go_on() {
  fruitless_looks_ = 0;
  shortest_ = {};
  unplanned_seconds_.reset();
  if (recorder_ == nullptr) record_anew();
}

StepMessage StepSearch::message(std::span<const TensorCall> under_way, std::uint64_t calls,
                                std::uint64_t late) {
  StepMessage message;
  const std::optional<RecordedStep> step =
      recorder_ == nullptr ? std::nullopt : recorder_->current();
  const std::uint64_t most = step ? kMostCalls : kMostCallsWithoutStep;
  if (calls >= std::max(calls_in_vain_, late) + most && !unplanned_seconds_) recorder_.reset();
  if (step && recorder_ != nullptr) {
    message = unplanned_seconds_ ? judge_plan(*step, calls) : plan_step(*step, under_way);
  }
  message.header.looks_on = recorder_ != nullptr ? 1 : 0;
  return message;
}

StepMessage StepSearch::judge_plan(const RecordedStep& step, std::uint64_t calls) {
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
    record_anew();
    unplanned_seconds_.reset();
    judgements_ = 0;
    calls_in_vain_ = calls;  // It has as long as the first search to find a step.
  } else if (is_longer || has_doubted_ || judgements_ == kMostJudgements) {
    recorder_.reset();
  } else {
    record_anew();
  }
  return message;
}

bool StepSearch::takes_long(const RecordedStep& step) {
  const SeenStep now = {step.calls.size(), step.bytes(), step.seconds()};
  const bool is_known = now.calls == shortest_.calls && now.bytes == shortest_.bytes;
  if (is_known && now.seconds > kMuchLonger * shortest_.seconds) return true;
  if (!is_known || now.seconds < shortest_.seconds) shortest_ = now;
  return false;
}

StepMessage StepSearch::plan_step(const RecordedStep& step, std::span<const TensorCall> under_way) {
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
    message.calls.push_back(plan_of(step.calls[i].call, exact[i]));
  }
  return message;
}

std::optional<CallStanding> StepSearch::stand(const TensorCall& call) {
  if (recorder_ == nullptr) return std::nullopt;
  return recorder_->stand(call);
}

void StepSearch::note(const RecordedCall& call) {
  if (recorder_ != nullptr) recorder_->note(call);
}

void StepSearch::skip(std::uint64_t calls) {
  if (recorder_ == nullptr) return;
  recorder_->skip();
  calls_in_vain_ = calls;
}

}  // namespace ringpress::nccl_plugin
