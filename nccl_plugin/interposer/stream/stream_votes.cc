#include "nccl_plugin/interposer/stream/stream_votes.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// Nothing else is sent, but the word comes from other processes.
Result<nccl_plugin::Verdict> verdict_in(std::uint64_t word) {
  if (word >= kVerdictCount) {
    return Status(Code::kMismatch, "a rank's vote on what sums are is none that there is");
  }
  return static_cast<nccl_plugin::Verdict>(word);
}

}  // namespace

Result<std::unique_ptr<StreamVotes>> StreamVotes::make(Device& device) {
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<WordMemory> memory, WordMemory::make(device, kWords));
  return std::unique_ptr<StreamVotes>(new StreamVotes(std::move(memory)));
}

/// A stream reads what is sent when its turn comes: not before the last vote has been read.
Result<TravelingWords> StreamVotes::send(const ClassBallot& ballot, Stream stream,
                                         const Watch& watch) {
  RINGPRESS_RETURN_IF_ERROR(receive(stream, watch).status());
  for (std::size_t shape = 0; shape < ClassBallot::kShapes; ++shape) {
    memory_->sent()[shape] = static_cast<std::uint64_t>(ballot.of(shape));
  }
  memory_->sent()[ClassBallot::kShapes] = ++votes_;
  is_under_way_ = true;
  return TravelingWords{kWords, memory_->on_device(), memory_->sent(), memory_->received(), true};
}

Result<std::optional<ClassBallot>> StreamVotes::receive(Stream stream, const Watch& watch) {
  if (!is_under_way_) return std::optional<ClassBallot>();
  const volatile std::uint64_t* const number = memory_->received() + ClassBallot::kShapes;
  RINGPRESS_RETURN_IF_ERROR(await_word(number, stream, watch,
                                       "what other ranks say that sums are has not come",
                                       [this](std::uint64_t seen) { return seen == votes_; })
                                .status());
  is_under_way_ = false;
  ClassBallot of_all;
  for (std::size_t shape = 0; shape < ClassBallot::kShapes; ++shape) {
    RINGPRESS_ASSIGN_OR_RETURN(const nccl_plugin::Verdict verdict,
                               verdict_in(memory_->received()[shape]));
    of_all.add(shape, verdict);
  }
  return std::optional(of_all);
}

}  // namespace ringpress::nccl_plugin::interposer
