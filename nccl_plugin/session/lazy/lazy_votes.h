// The votes on a call that may be put off (lazy_calls.h), where a mesh joins the ranks. Each rank
// sends one byte to every other one, and receives one:
//
//   kPutOff      it waits until somebody has said more, or all have said this
//   kSend        it begins with the all-reduce at once: its first frames follow its vote
//   kNotFinite   the same
//
// So votes travel beside what a call sends: a call that all ranks want sent waits for none, a rank
// that did not want it waits for one frame, and a call that is put off costs one frame to and from
// each rank. Frames of a pair arrive in order, so votes need no round of their own; those that were
// not waited for are collected when the all-reduce has ended, and are there by then. That saves the
// latency of a round; of N ranks each sends N - 1 frames, which is more processor's time than an
// all-reduce of votes by doubling where N is 4, 8, or 16 and more (using.md has figures of N = 4).
#ifndef NCCL_PLUGIN_SESSION_LAZY_LAZY_VOTES_H_
#define NCCL_PLUGIN_SESSION_LAZY_LAZY_VOTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "ringpress/internal/mesh.h"

namespace ringpress::nccl_plugin {

/// Of one communicator. One thread at a time. After an error the mesh is of no more use.
class LazyVotes {
 public:
  /// Both outlive this. `sequence`: of the communicator's calls, of which each vote takes one.
  LazyVotes(Mesh& mesh, std::uint64_t& sequence);

  /// Says `own`. Gives the largest vote known: kPutOff if it is that of all ranks; else the call is
  /// to be sent, and then conclude() called. Ranks that are at another call are found out.
  Result<LazyVote> cast(const TensorCall& call, LazyVote own);
  /// The largest vote of all ranks.
  Result<LazyVote> conclude();

 private:
  struct Ballot {
    int peer = 0;
    std::byte vote{};
    Request* send = nullptr;
    Request* receive = nullptr;
  };

  Status open(const TensorCall& call);
  Status receive(Ballot* ballot);

  Mesh& mesh_;
  std::uint64_t& sequence_;
  std::byte own_{};
  LazyVote largest_ = LazyVote::kPutOff;  // Known so far.
  std::vector<Ballot> ballots_;           // By peer: of the others.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LAZY_LAZY_VOTES_H_
