#include "nccl_plugin/interposer/stream_steps.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "nccl_plugin/interposer/stream_wait.h"
#include "ringpress/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// A word counts so many calls later: a program may be that far ahead of its device.
constexpr std::size_t kCallsUntilHeard = 32;
// Of a program that is further ahead than so many calls no step is learnt.
constexpr std::size_t kMostUnderWay = 4 * StepWord::kMostCalls;

/// cudaStreamLegacy, and what the default stream is without it.
bool is_default_stream(Stream stream) {
  return stream == nullptr || stream == reinterpret_cast<Stream>(1);
}

}  // namespace

Result<std::unique_ptr<StepWordMemory>> StepWordMemory::make(Device& device) {
  std::unique_ptr<StepWordMemory> memory(new StepWordMemory(device));
  constexpr std::size_t bytes = kWords * sizeof(std::uint64_t);
  RINGPRESS_ASSIGN_OR_RETURN(void* const words, device.allocate(bytes));
  memory->on_device_ = static_cast<std::uint64_t*>(words);
  RINGPRESS_ASSIGN_OR_RETURN(void* const shared, device.allocate_host(2 * bytes));
  memory->sent_ = static_cast<std::uint64_t*>(shared);
  memory->received_ = memory->sent_ + kWords;
  std::fill_n(memory->sent_, 2 * kWords, 0);
  return memory;
}

StepWordMemory::~StepWordMemory() {
  if (on_device_ != nullptr) device_.free(on_device_);
  if (sent_ != nullptr) device_.free_host(sent_);
}

void StepWordMemory::write(const StepWord& word, std::uint64_t epoch) {
  std::fill_n(sent_, kWords - 1, 0);
  std::memcpy(sent_, &word.header, sizeof word.header);
  std::memcpy(sent_ + kHeaderWords, word.calls.data(), word.calls.size() * sizeof(PlannedStepCall));
  sent_[kWords - 1] = epoch;
}

Result<StepWord> StepWordMemory::read() const {
  StepWord word;
  std::memcpy(static_cast<void*>(&word.header), received_, sizeof word.header);
  if (word.header.calls > StepWord::kMostCalls) {
    return Status(Code::kMismatch, "rank 0's plan is for a step of too many calls");
  }
  word.calls.resize(word.header.calls);
  std::memcpy(static_cast<void*>(word.calls.data()), received_ + kHeaderWords,
              word.calls.size() * sizeof(PlannedStepCall));
  return word;
}

StreamSteps::StreamSteps(Device& device, const Settings& settings, int rank, int world)
    : device_(device),
      settings_(settings),
      rank_(rank),
      world_(static_cast<std::size_t>(world)),
      planner_(rank, world, settings.minimum_bytes) {}

Result<std::unique_ptr<StreamSteps>> StreamSteps::make(Device& device, const Settings& settings,
                                                       int rank, int world) {
  std::unique_ptr<StreamSteps> steps(new StreamSteps(device, settings, rank, world));
  RINGPRESS_ASSIGN_OR_RETURN(steps->memory_, StepWordMemory::make(device));
  return steps;
}

StreamSteps::~StreamSteps() {
  forget_calls();
  for (const Event event : free_events_) device_.destroy_event(event);
}

bool StreamSteps::takes(const PlanRequest& request) const {
  const bool is_over = planner_.is_over() && !is_word_under_way_;
  return !is_over && request.kind == CollectiveKind::kAllReduce &&
         request.count * dtype_size(request.dtype) >= settings_.minimum_bytes;
}

Result<SteppedCall> StreamSteps::next(const TensorCall& call,
                                      const std::function<bool()>& is_given_up) {
  if (rank_ == 0) collect();
  if (is_word_under_way_ && calls_since_word_ == kCallsUntilHeard) {
    RINGPRESS_RETURN_IF_ERROR(hear(is_given_up));
  }
  SteppedCall stepped;
  if (!is_word_under_way_ && planner_.is_due()) {
    send_word();
    stepped.words = memory_->words();
  }
  ++calls_since_word_;
  const bool had_plan = planner_.has_plan();
  stepped.stays_exact = planner_.begin_call(call);
  if (had_plan && !planner_.has_plan()) is_word_stale_ = true;
  return stepped;
}

/// Waits for the word that was sent last.
Status StreamSteps::hear(const std::function<bool()>& is_given_up) {
  RINGPRESS_RETURN_IF_ERROR(await_word(memory_->epoch(), {settings_.timeout_ms, is_given_up},
                                       "what rank 0 has found out about the step has not come",
                                       [this](std::uint64_t seen) { return seen == epoch_; })
                                .status());
  RINGPRESS_ASSIGN_OR_RETURN(const StepWord word, memory_->read());
  is_word_under_way_ = false;
  if (std::exchange(is_word_stale_, false)) return Status::ok();
  // Those on their way were made without the plan.
  if (word.header.is_news != 0) forget_calls();
  return planner_.hear(word, calls_since_word_);
}

/// With the coming call. The one before has arrived: it was waited for.
void StreamSteps::send_word() {
  ++epoch_;
  calls_since_word_ = 0;
  is_word_under_way_ = true;
  is_word_stale_ = false;
  if (rank_ == 0) memory_->write(find_word(), epoch_);
}

/// Never throws: the other ranks wait for it.
StepWord StreamSteps::find_word() noexcept {
  try {
    std::vector<TensorCall> calls;
    for (const CallUnderWay& one : under_way_) calls.push_back(one.call);
    return planner_.word(calls);
  } catch (const std::exception& error) {
    log_line(LogLevel::kWarn, "no plan is made for the step: %s", error.what());
  }
  return {};
}

void StreamSteps::time(const TensorCall& call, Stream stream, bool is_by_rule, CallFrame* frame) {
  if (rank_ != 0) return;
  if (!planner_.is_recording()) return forget_calls();
  CallUnderWay one{call, take_event(), take_event(), is_default_stream(stream), is_by_rule, {}};
  if (one.begin == nullptr || one.end == nullptr || under_way_.size() == kMostUnderWay) {
    give_back(&one.begin);
    give_back(&one.end);
    return skip();
  }
  under_way_.push_back(one);
  frame->begin = one.begin;
  frame->end = one.end;
  frame->sent = &under_way_.back().sent;
}

void StreamSteps::skip() {
  if (rank_ != 0) return;
  forget_calls();
  planner_.skip();
}

/// Takes note of the calls that the device has done by now.
void StreamSteps::collect() {
  while (!under_way_.empty()) {
    CallUnderWay& first = under_way_.front();
    if (!first.sent.is_known) return skip();  // It was made otherwise in the end.
    const Result<double> seconds = device_.seconds_between(first.begin, first.end);
    if (!seconds.is_ok()) return skip();
    if (seconds.value() < 0) return;
    if (!take_note(first, seconds.value())) return skip();
    under_way_.pop_front();
  }
}

/// Of one that has ended, and so has the one before. False: the device does not say when.
bool StreamSteps::take_note(CallUnderWay& one, double seconds) {
  double gap = 0;
  if (last_end_ != nullptr) {
    const Result<double> since = device_.seconds_between(last_end_, one.begin);
    if (!since.is_ok()) return false;
    gap = std::max(0.0, since.value());
  }
  RecordedCall recorded;
  recorded.call = one.call;
  recorded.begin_seconds = now_ + gap;
  recorded.end_seconds = now_ = recorded.begin_seconds + seconds;
  recorded.busy_before_seconds = one.blocks_device ? gap : 0;
  recorded.sent_bytes = sent_bytes(one);
  recorded.is_by_rule = one.is_by_rule;
  planner_.note(recorded);
  give_back(&one.begin);
  give_back(&last_end_);
  last_end_ = one.end;
  return true;
}

/// As if all calls were of all ranks: those of `hier` send a part of that between hosts.
std::size_t StreamSteps::sent_bytes(const CallUnderWay& one) const {
  const std::size_t bytes = one.call.count * dtype_size(one.call.dtype);
  const double exact = 2.0 * static_cast<double>(bytes) * static_cast<double>(world_ - 1) /
                       static_cast<double>(world_);
  if (one.sent.compressed_bytes == 0 || one.sent.raw_bytes == 0) {
    return static_cast<std::size_t>(exact);
  }
  return static_cast<std::size_t>(exact * static_cast<double>(one.sent.compressed_bytes) /
                                  static_cast<double>(one.sent.raw_bytes));
}

void StreamSteps::forget_calls() {
  for (CallUnderWay& one : under_way_) {
    give_back(&one.begin);
    give_back(&one.end);
  }
  under_way_.clear();
  give_back(&last_end_);
}

/// Null: there is none.
Event StreamSteps::take_event() {
  if (free_events_.empty()) {
    free_events_.reserve(events_ + 1);  // So that giving back needs no memory.
    const Result<Event> made = device_.create_timing_event();
    if (made.is_ok()) ++events_;
    return made.is_ok() ? made.value() : nullptr;
  }
  const Event event = free_events_.back();
  free_events_.pop_back();
  return event;
}

void StreamSteps::give_back(Event* event) {
  if (*event != nullptr) free_events_.push_back(std::exchange(*event, nullptr));
}

}  // namespace ringpress::nccl_plugin::interposer
