// The ranks' votes on what a communicator's sums are (class_vote.h), in streams.
//
// A rank's ballot travels in front of a call whose number all ranks know, as words of which the
// real library takes the largest. What they came to counts from some steps later on: by then it has
// nearly always come, so that no rank waits for another that is a little late.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_VOTES_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_VOTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "nccl_plugin/interposer/calls/framed_call.h"
#include "nccl_plugin/interposer/stream/stream_wait.h"
#include "nccl_plugin/interposer/stream/word_memory.h"
#include "nccl_plugin/session/calls/class_ballot.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator. One thread at a time.
class StreamVotes {
 public:
  /// `device` outlives this.
  static Result<std::unique_ptr<StreamVotes>> make(Device& device);

  /// This rank's ballot: what is to go in front of the call that begins in `stream`. Waits, as
  /// receive() does, for a vote whose result nobody has asked for.
  Result<TravelingWords> send(const ClassBallot& ballot, Stream stream, const Watch& watch);
  /// What the ranks have said in the last vote; nothing if there was none. May wait for it, as
  /// await_word() does: kTimeout after RINGPRESS_TIMEOUT_MS.
  Result<std::optional<ClassBallot>> receive(Stream stream, const Watch& watch);

 private:
  // The verdicts, and the number of the vote.
  static constexpr std::size_t kWords = ClassBallot::kShapes + 1;

  explicit StreamVotes(std::unique_ptr<WordMemory> memory) : memory_(std::move(memory)) {}

  const std::unique_ptr<WordMemory> memory_;
  std::uint64_t votes_ = 0;  // So far.
  bool is_under_way_ = false;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_VOTES_H_
