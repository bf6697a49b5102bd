// A rank's side of the bootstrap.
#ifndef RING_BOOTSTRAP_JOIN_H_
#define RING_BOOTSTRAP_JOIN_H_

#include <chrono>
#include <string>
#include <vector>

#include "ring/bootstrap/message.h"
#include "ringpress/wire.h"

namespace ringpress::ring::bootstrap {

/// How long a rendezvous that listened before its id was known may seem not to be there.
inline constexpr std::chrono::milliseconds kRefusalPatience{5000};

/// Meets the other ranks at `address` and returns where each of them is. Blocks, but not longer
/// than the timeout and two seconds. Tries to connect for `refusal_patience` at most.
Result<std::vector<Place>> join_ranks(
    const std::string& address, const Secret& secret, const Join& join,
    std::chrono::milliseconds timeout,
    std::chrono::milliseconds refusal_patience = kRefusalPatience);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_JOIN_H_
