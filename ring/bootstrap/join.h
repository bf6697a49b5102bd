// A rank's side of the bootstrap.
#ifndef RING_BOOTSTRAP_JOIN_H_
#define RING_BOOTSTRAP_JOIN_H_

#include <chrono>
#include <string>
#include <vector>

#include "ring/bootstrap/message.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::bootstrap {

/// How long a rank waits for a rendezvous.
struct JoinPatience {
  std::chrono::milliseconds answer{};  // For all ranks to come.
  /// For it to listen. One that listened before its id was known only seems not to be there.
  std::chrono::milliseconds refusal{5000};
  /// For one that closes connections during the handshake: a crowd was there, or it is that of the
  /// communicator before, at the same address.
  std::chrono::milliseconds closing{500};
  /// And for it to listen again after that.
  std::chrono::milliseconds refusal_again{500};
  /// For whoever listens there to say who it is; 0: as `answer`. Only a rendezvous that serves as
  /// soon as it listens lets nobody wait.
  std::chrono::milliseconds hello{0};
};

/// Meets the other ranks at `address` and returns where each of them is, and rank 0's word. Blocks,
/// but not longer than for the answer and two seconds.
Result<Answer> join_ranks(const std::string& address, const Secret& secret, const Join& join,
                          const JoinPatience& patience);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_JOIN_H_
