// Compares what the ranks of a communicator say of themselves. Pure: no sockets.
#ifndef RING_BOOTSTRAP_AGREEMENT_H_
#define RING_BOOTSTRAP_AGREEMENT_H_

#include <map>

#include "ring/bootstrap/message.h"

namespace ringpress::ring::bootstrap {

/// Ok if `join` fits those who came before, by rank; else kMismatch or kInvalidArgument with both
/// ranks and both values, or kRefused with its refusal.
Status compare_join(const std::map<std::uint32_t, Join>& joined, const Join& join);

/// "ranks 1, 3 of 4 never came (waited 5000 ms)", and how many connections were refused,
/// if any: strangers, or ranks that do not know the job's secret.
Status missing_ranks(const std::map<std::uint32_t, Join>& joined, std::uint32_t size,
                     long long waited_ms, std::size_t refused);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_AGREEMENT_H_
