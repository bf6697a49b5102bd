#include "nccl_plugin/gossip/communicator_peers.h"

#include <array>

namespace ringpress::nccl_plugin::gossip {

Status CommunicatorPeers::exchange(int peer, std::span<const std::byte> sent,
                                   std::span<std::byte> received) {
  // A send only reads what a Transfer points to.
  void* const from = const_cast<std::byte*>(sent.data());
  const std::array<Transfer, 2> both = {
      {{true, from, sent.size(), DType::kInt8, peer},
       {false, received.data(), received.size(), DType::kInt8, peer}}};
  return communicator_.exchange(both);
}

Status CommunicatorPeers::gather(std::span<const std::byte> own, std::span<std::byte> all) {
  return communicator_.all_gather(own.data(), all.data(), own.size(), DType::kInt8);
}

Status CommunicatorPeers::exchange_memory(int peer, const void* sent, std::size_t sent_bytes,
                                          void* received, std::size_t received_bytes) {
  return exchange(peer, {static_cast<const std::byte*>(sent), sent_bytes},
                  {static_cast<std::byte*>(received), received_bytes});
}

Status CommunicatorPeers::broadcast(void* memory, std::size_t bytes) {
  return communicator_.broadcast(memory, memory, bytes, DType::kInt8, 0);
}

/// Of a type that is never compressed.
Status CommunicatorPeers::sum(double* values, std::size_t count) {
  return communicator_.all_reduce(values, values, count, DType::kFloat64,
                                  {ReduceOp::kSum, 1, false});
}

}  // namespace ringpress::nccl_plugin::gossip
