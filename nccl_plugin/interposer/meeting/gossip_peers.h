// The ranks of a communicator of the real NCCL, as gossip sees them: everything goes by its sends
// and receives, in the caller's stream, and is waited for: where a communicator is aborted, what a
// peer was to send is not there.
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_PEERS_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_PEERS_H_

#include <cstddef>
#include <memory>

#include "nccl_plugin/gossip/peers.h"
#include "nccl_plugin/interposer/meeting/gossip_comms.h"
#include "nccl_plugin/preload/engine.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

class GossipPeers final : public gossip::Peers {
 public:
  /// `real` outlives this.
  static Result<std::unique_ptr<GossipPeers>> make(const ringpressRealNccl& real, ncclComm_t comm,
                                                   std::shared_ptr<GossipComm> known,
                                                   std::shared_ptr<Device> device);

  /// kInvalidArgument: the communicator has ended.
  Status check() const;
  /// The stream of what comes next.
  void use(Stream stream) { stream_ = stream; }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Status exchange(int peer, std::span<const std::byte> sent,
                  std::span<std::byte> received) override;
  Status exchange_memory(int peer, const void* sent, std::size_t sent_bytes, void* received,
                         std::size_t received_bytes) override;
  Status gather(std::span<const std::byte> own, std::span<std::byte> all) override;
  Status broadcast(void* memory, std::size_t bytes) override;
  Status sum(double* values, std::size_t count) override;

 private:
  GossipPeers(const ringpressRealNccl& real, ncclComm_t comm, std::shared_ptr<GossipComm> known,
              std::shared_ptr<Device> device)
      : real_(real), comm_(comm), known_(std::move(known)), device_(std::move(device)) {}
  Status find_room(std::size_t bytes);
  /// What a function of the real library has answered, or will have: nonblocking communicators say
  /// later.
  Status settle(ncclResult_t result, const char* function) const;
  Status send(int peer, const void* memory, std::size_t bytes) const;
  Status receive(int peer, void* memory, std::size_t bytes) const;
  /// Begins to send and to receive.
  Status swap(int peer, const void* sent, std::size_t sent_bytes, void* received,
              std::size_t received_bytes) const;
  /// The sends and receives that body() asks for, at once.
  template <typename Body>
  Status in_group(Body&& body) const;
  /// Until all that was asked for is done.
  Status wait() const;

  const ringpressRealNccl& real_;
  const ncclComm_t comm_;
  const std::shared_ptr<GossipComm> known_;
  const std::shared_ptr<Device> device_;
  int rank_ = 0;
  int size_ = 0;
  Stream stream_ = nullptr;
  // What is small goes through these: what a rank sends, then what it gets of each.
  std::shared_ptr<std::byte> small_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_PEERS_H_
