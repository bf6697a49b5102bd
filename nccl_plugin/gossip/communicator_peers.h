// The ranks of a communicator on host memory, as gossip sees them.
#ifndef NCCL_PLUGIN_GOSSIP_COMMUNICATOR_PEERS_H_
#define NCCL_PLUGIN_GOSSIP_COMMUNICATOR_PEERS_H_

#include "nccl_plugin/gossip/peers.h"
#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin::gossip {

class CommunicatorPeers final : public Peers {
 public:
  /// The communicator outlives this.
  explicit CommunicatorPeers(Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  Status exchange(int peer, std::span<const std::byte> sent,
                  std::span<std::byte> received) override;
  Status exchange_memory(int peer, const void* sent, std::size_t sent_bytes, void* received,
                         std::size_t received_bytes) override;
  Status gather(std::span<const std::byte> own, std::span<std::byte> all) override;
  Status broadcast(void* memory, std::size_t bytes) override;
  Status sum(double* values, std::size_t count) override;

 private:
  Communicator& communicator_;
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_COMMUNICATOR_PEERS_H_
