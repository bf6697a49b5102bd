// What gossip needs of the other workers.
#ifndef NCCL_PLUGIN_GOSSIP_PEERS_H_
#define NCCL_PLUGIN_GOSSIP_PEERS_H_

#include <cstddef>
#include <span>

#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::gossip {

/// The ranks of a communicator. One thread at a time. Spans are host memory; pointers are to where
/// the models are, and what is asked of them is done in the stream of these peers, in order. What
/// is received is there when a function returns without an error.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends to one rank what that takes in the same call, and the other way round; either may be
  /// empty.
  virtual Status exchange(int peer, std::span<const std::byte> sent,
                          std::span<std::byte> received) = 0;
  /// As exchange(), of bytes beside or in the models.
  virtual Status exchange_memory(int peer, const void* sent, std::size_t sent_bytes, void* received,
                                 std::size_t received_bytes) = 0;
  /// Everybody's bytes to everybody, by rank. All call it.
  virtual Status gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  /// Rank 0's bytes to all, beside the models.
  virtual Status broadcast(void* memory, std::size_t bytes) = 0;
  /// The sum over all ranks, the same everywhere; beside the models.
  virtual Status sum(double* values, std::size_t count) = 0;
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_PEERS_H_
