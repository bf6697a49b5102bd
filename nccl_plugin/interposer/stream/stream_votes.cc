#include "nccl_plugin/interposer/stream/stream_votes.h"

#include <algorithm>
#include <utility>

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
  std::unique_ptr<StreamVotes> votes(new StreamVotes(device));
  constexpr std::size_t bytes = kWords * sizeof(std::uint64_t);
  RINGPRESS_ASSIGN_OR_RETURN(void* const words, device.allocate(bytes));
  votes->on_device_ = static_cast<std::uint64_t*>(words);
  RINGPRESS_ASSIGN_OR_RETURN(void* const shared, device.allocate_host(2 * bytes));
  votes->sent_ = static_cast<std::uint64_t*>(shared);
  votes->received_ = votes->sent_ + kWords;
  std::fill_n(votes->sent_, 2 * kWords, 0);
  return votes;
}

StreamVotes::~StreamVotes() {
  if (on_device_ != nullptr) device_.free(on_device_);
  if (sent_ != nullptr) device_.free_host(sent_);
}

/// A stream reads what is sent when its turn comes: not before the last vote has been read.
Result<TravelingWords> StreamVotes::send(const ClassBallot& ballot, Stream stream,
                                         const Watch& watch) {
  RINGPRESS_RETURN_IF_ERROR(receive(stream, watch).status());
  for (std::size_t shape = 0; shape < ClassBallot::kShapes; ++shape) {
    sent_[shape] = static_cast<std::uint64_t>(ballot.of(shape));
  }
  sent_[ClassBallot::kShapes] = ++votes_;
  is_under_way_ = true;
  return TravelingWords{kWords, on_device_, sent_, received_, true};
}

Result<std::optional<ClassBallot>> StreamVotes::receive(Stream stream, const Watch& watch) {
  if (!is_under_way_) return std::optional<ClassBallot>();
  const volatile std::uint64_t* const number = received_ + ClassBallot::kShapes;
  RINGPRESS_RETURN_IF_ERROR(await_word(number, stream, watch,
                                       "what other ranks say that sums are has not come",
                                       [this](std::uint64_t seen) { return seen == votes_; })
                                .status());
  is_under_way_ = false;
  ClassBallot of_all;
  for (std::size_t shape = 0; shape < ClassBallot::kShapes; ++shape) {
    RINGPRESS_ASSIGN_OR_RETURN(const nccl_plugin::Verdict verdict, verdict_in(received_[shape]));
    of_all.add(shape, verdict);
  }
  return std::optional(of_all);
}

}  // namespace ringpress::nccl_plugin::interposer
