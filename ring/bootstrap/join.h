// A rank's side of the bootstrap.
#ifndef RING_BOOTSTRAP_JOIN_H_
#define RING_BOOTSTRAP_JOIN_H_

#include <chrono>
#include <string>
#include <vector>

#include "ring/bootstrap/message.h"
#include "ringpress/wire.h"

namespace ringpress::ring::bootstrap {

/// Meets the other ranks at `address` and returns where each of them is. Blocks, but not longer
/// than the timeout and two seconds.
Result<std::vector<Place>> join_ranks(const std::string& address, const Secret& secret,
                                      const Join& join, std::chrono::milliseconds timeout);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_JOIN_H_
