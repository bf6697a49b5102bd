#include "nccl_plugin/interposer/stream/stream_steps.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// A message counts so many calls later: a program may be that far ahead of its device.
constexpr std::size_t kCallsUntilHeard = 32;
}  // namespace

Result<std::unique_ptr<StepMessageBuffer>> StepMessageBuffer::make(Device& device) {
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<WordMemory> memory, WordMemory::make(device, kWords));
  return std::unique_ptr<StepMessageBuffer>(new StepMessageBuffer(std::move(memory)));
}

void StepMessageBuffer::write(const StepMessage& message, std::uint64_t epoch) {
  std::uint64_t* const sent = memory_->sent();
  std::fill_n(sent, kWords - 1, 0);
  std::memcpy(sent, &message.header, sizeof message.header);
  std::memcpy(sent + kHeaderWords, message.calls.data(),
              message.calls.size() * sizeof(PlannedStepCall));
  sent[kWords - 1] = epoch;
}

Result<StepMessage> StepMessageBuffer::read() const {
  StepMessage message;
  std::memcpy(static_cast<void*>(&message.header), memory_->received(), sizeof message.header);
  if (message.header.calls > StepMessage::kMostCalls) {
    return Status(Code::kMismatch, "rank 0's plan is for a step of too many calls");
  }
  message.calls.resize(message.header.calls);
  std::memcpy(static_cast<void*>(message.calls.data()), memory_->received() + kHeaderWords,
              message.calls.size() * sizeof(PlannedStepCall));
  return message;
}

StreamSteps::StreamSteps(Device& device, const Settings& settings, int rank, int world,
                         std::shared_ptr<CallSequence> sequence)
    : settings_(settings),
      rank_(rank),
      planner_(rank, world, settings.minimum_bytes, std::move(sequence)),
      clock_(device, static_cast<std::size_t>(world)) {}

Result<std::unique_ptr<StreamSteps>> StreamSteps::make(Device& device, const Settings& settings,
                                                       int rank, int world,
                                                       std::shared_ptr<CallSequence> sequence) {
  std::unique_ptr<StreamSteps> steps(
      new StreamSteps(device, settings, rank, world, std::move(sequence)));
  RINGPRESS_ASSIGN_OR_RETURN(steps->memory_, StepMessageBuffer::make(device));
  return steps;
}

bool StreamSteps::takes(const PlanRequest& request) const {
  const bool is_over = planner_.is_over() && !is_message_under_way_;
  return !is_over && request.kind == CollectiveKind::kAllReduce &&
         !is_too_small(request, settings_.minimum_bytes);
}

Result<SteppedCall> StreamSteps::next(const TensorCall& call, Stream stream, const Watch& watch) {
  if (rank_ == 0) collect();
  if (is_message_under_way_ && calls_since_message_ == kCallsUntilHeard) {
    RINGPRESS_RETURN_IF_ERROR(receive(stream, watch));
  }
  SteppedCall stepped;
  if (!is_message_under_way_ && planner_.is_due()) {
    send_message();
    stepped.words = memory_->words();
  }
  ++calls_since_message_;
  const bool had_plan = planner_.has_plan();
  if (const PlannedStepCall* const exact = planner_.begin_call(call)) stepped.stays_exact = *exact;
  if (had_plan && !planner_.has_plan()) is_message_stale_ = true;
  return stepped;
}

/// Waits for the message that was sent last.
Status StreamSteps::receive(Stream stream, const Watch& watch) {
  RINGPRESS_RETURN_IF_ERROR(await_word(memory_->epoch(), stream, watch,
                                       "what rank 0 has found out about the step has not come",
                                       [this](std::uint64_t seen) { return seen == epoch_; })
                                .status());
  RINGPRESS_ASSIGN_OR_RETURN(const StepMessage message, memory_->read());
  is_message_under_way_ = false;
  if (std::exchange(is_message_stale_, false)) return Status::ok();
  // Those on their way were made without the plan.
  if (message.header.is_news != 0) clock_.forget();
  return planner_.apply(message, calls_since_message_);
}

/// With the coming call. The one before has arrived: it was waited for.
void StreamSteps::send_message() {
  ++epoch_;
  calls_since_message_ = 0;
  is_message_under_way_ = true;
  is_message_stale_ = false;
  if (rank_ == 0) memory_->write(find_message(), epoch_);
}

/// Never throws: the other ranks wait for it.
StepMessage StreamSteps::find_message() noexcept {
  try {
    return planner_.message(clock_.under_way());
  } catch (const std::exception& error) {
    log_line(LogLevel::kWarn, "no plan is made for the step: %s", error.what());
  }
  return {};
}

void StreamSteps::time(const TensorCall& call, Stream stream, bool is_by_rule, CallFrame* frame) {
  if (rank_ != 0) return;
  if (!planner_.is_recording()) return clock_.forget();
  RecordedCall known;
  known.call = call;
  known.standing = planner_.stand(call);
  known.is_by_rule = is_by_rule;
  if (!clock_.begin(known, stream, frame)) skip();
}

void StreamSteps::skip() {
  if (rank_ != 0) return;
  clock_.forget();
  planner_.skip();
}

/// Takes note of the calls that the device has done by now.
void StreamSteps::collect() {
  RecordedCall call;
  for (;;) {
    switch (clock_.next(&call)) {
      case StreamClock::Seen::kCall:
        planner_.note(call);
        break;
      case StreamClock::Seen::kNothing:
        return;
      case StreamClock::Seen::kFailure:
        return skip();
    }
  }
}

}  // namespace ringpress::nccl_plugin::interposer
