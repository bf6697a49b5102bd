// Espresso's plan for the training step (step_planner.h) where calls are work in streams:
// all-reduces that are compressed, though the step is no shorter for it, are left to the real
// library.
//
// Rank 0 has them between two events in the caller's stream, and takes note of those that its
// device has done by the time of later calls. Its message on the step travels in the stream, in
// front of a call whose number all ranks know, and counts from some calls later on: by then it has
// nearly always come. Nothing else waits for the device.
//
// A pause between two calls is one of their streams (stream_clock.h). Where it is the same stream
// that computes, the first plan makes steps longer, and is given up; in the default stream none is
// looked for. Calls of types that have no codec, those that rules leave exact, and those of
// captured streams count as pauses; those that automatic mode leaves exact until they recur do not,
// as the plan would then be at another call of the step.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_STEPS_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "nccl_plugin/interposer/calls/framed_call.h"
#include "nccl_plugin/interposer/stream/stream_clock.h"
#include "nccl_plugin/interposer/stream/stream_wait.h"
#include "nccl_plugin/interposer/stream/word_memory.h"
#include "nccl_plugin/session/steps/step_planner.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// A message of rank 0 on the step, on its way to all ranks.
class StepMessageBuffer {
 public:
  static Result<std::unique_ptr<StepMessageBuffer>> make(Device& device);

  TravelingWords words() const {
    return {kWords, memory_->on_device(), memory_->sent(), memory_->received()};
  }
  /// On rank 0: what is sent next. `epoch`: the number of the message, from 1 on.
  void write(const StepMessage& message, std::uint64_t epoch);
  /// The number of the message that came last.
  const volatile std::uint64_t* epoch() const { return memory_->received() + kWords - 1; }
  /// That message. kMismatch: it is longer than words are.
  Result<StepMessage> read() const;

 private:
  static constexpr std::size_t kHeaderWords = sizeof(StepMessage::Header) / sizeof(std::uint64_t);
  static constexpr std::size_t kCallWords = sizeof(PlannedStepCall) / sizeof(std::uint64_t);
  // The header, the calls, and at last the epoch.
  static constexpr std::size_t kWords = kHeaderWords + StepMessage::kMostCalls * kCallWords + 1;

  explicit StepMessageBuffer(std::unique_ptr<WordMemory> memory) : memory_(std::move(memory)) {}

  const std::unique_ptr<WordMemory> memory_;
};

/// What start() of a call has to do for the step's plan.
struct SteppedCall {
  std::optional<PlannedStepCall> stays_exact;  // As the plan says.
  TravelingWords words;                        // To go ahead of it.
};

/// Of one communicator. One thread at a time.
class StreamSteps {
 public:
  /// `device` and `settings` outlive this. `sequence`: of the communicator's calls.
  static Result<std::unique_ptr<StreamSteps>> make(
      Device& device, const Settings& settings, int rank, int world,
      std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>());

  /// When the program makes a call that has a codec. True: next() is to have it when it is begun,
  /// after all calls that were accepted before. The same on all ranks.
  bool takes(const PlanRequest& request) const;

  /// Of such a call in `stream`. May wait for a message, as await_word() does: kTimeout after
  /// RINGPRESS_TIMEOUT_MS. An error ends the communicator.
  Result<SteppedCall> next(const TensorCall& call, Stream stream, const Watch& watch);
  /// That call is made as it will be from now on: what its frame is to have so that it is timed.
  /// Until the next call the frame may be in use. `is_by_rule`: no plan leaves it exact.
  void time(const TensorCall& call, Stream stream, bool is_by_rule, CallFrame* frame);
  /// Or it is made otherwise: no step is learnt from what is around it.
  void skip();

  bool has_plan() const { return planner_.has_plan(); }
  /// Whether time() asks the sequence about a call.
  bool is_recording() const { return rank_ == 0 && planner_.is_recording(); }

 private:
  StreamSteps(Device& device, const Settings& settings, int rank, int world,
              std::shared_ptr<CallSequence> sequence);
  Status receive(Stream stream, const Watch& watch);
  void send_message();
  StepMessage find_message() noexcept;
  void collect();

  const Settings& settings_;
  const int rank_;
  StepPlanner planner_;
  std::unique_ptr<StepMessageBuffer> memory_;
  std::uint64_t epoch_ = 0;  // Words that were sent.
  bool is_message_under_way_ = false;
  std::size_t calls_since_message_ = 0;
  bool is_message_stale_ = false;  // It is about a search that has ended.
  StreamClock clock_;              // Of rank 0.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_STEPS_H_
