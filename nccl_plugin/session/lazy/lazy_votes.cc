#include "nccl_plugin/session/lazy/lazy_votes.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringpress::nccl_plugin {

LazyVotes::LazyVotes(Mesh& mesh, std::uint64_t& sequence) : mesh_(mesh), sequence_(sequence) {
  for (int peer = 0; peer < mesh_.size(); ++peer) {
    if (peer != mesh_.rank()) ballots_.push_back({peer, {}, nullptr, nullptr});
  }
}

/// Posts all frames before anything of the call itself: what a peer sends next is the call's.
Status LazyVotes::open(const TensorCall& call) {
  FrameLabel label;
  label.call.sequence = sequence_++;
  label.call.count = call.count;
  label.call.kind = call.kind;
  label.call.dtype = call.dtype;
  label.call.op = call.op;
  for (Ballot& ballot : ballots_) {
    RINGPRESS_ASSIGN_OR_RETURN(ballot.receive,
                               mesh_.irecv(ballot.peer, Buffer{&ballot.vote, 1}, label));
  }
  for (Ballot& ballot : ballots_) {
    RINGPRESS_ASSIGN_OR_RETURN(ballot.send, mesh_.isend(ballot.peer, ConstBuffer{&own_, 1}, label));
  }
  return Status::ok();
}

Status LazyVotes::receive(Ballot* ballot) {
  if (ballot->receive == nullptr) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(mesh_.wait(ballot->receive).status());
  mesh_.release(std::exchange(ballot->receive, nullptr));
  const auto vote = std::to_integer<std::uint8_t>(ballot->vote);
  if (vote > static_cast<std::uint8_t>(LazyVote::kNotFinite)) {
    return {Code::kMismatch, "rank " + std::to_string(ballot->peer) + " voted " +
                                 std::to_string(vote) + " on a call that may be put off"};
  }
  largest_ = std::max(largest_, static_cast<LazyVote>(vote));
  return Status::ok();
}

Result<LazyVote> LazyVotes::cast(const TensorCall& call, LazyVote own) {
  own_ = static_cast<std::byte>(own);
  largest_ = own;
  RINGPRESS_RETURN_IF_ERROR(open(call));
  for (Ballot& ballot : ballots_) {
    if (largest_ != LazyVote::kPutOff) return largest_;
    RINGPRESS_RETURN_IF_ERROR(receive(&ballot));
  }
  return largest_ == LazyVote::kPutOff ? conclude() : largest_;
}

Result<LazyVote> LazyVotes::conclude() {
  for (Ballot& ballot : ballots_) {
    RINGPRESS_RETURN_IF_ERROR(receive(&ballot));
    RINGPRESS_RETURN_IF_ERROR(mesh_.wait(ballot.send).status());
    mesh_.release(std::exchange(ballot.send, nullptr));
  }
  return largest_;
}

}  // namespace ringpress::nccl_plugin
