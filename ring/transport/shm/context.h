// The shared-memory transport of one mesh: this rank's segment, its local listening socket, and the
// connections that are being set up.
#ifndef RING_TRANSPORT_SHM_CONTEXT_H_
#define RING_TRANSPORT_SHM_CONTEXT_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ring/transport/common/handshake_socket.h"
#include "ring/transport/common/lobby.h"
#include "ring/transport/common/reactor_transport.h"
#include "ring/transport/shm/channel.h"
#include "ring/transport/shm/factory.h"
#include "ring/transport/shm/handover.h"

namespace ringpress::ring::transport::shm {

class ShmTransport final : public ReactorTransport, private SleepGuard {
 public:
  ShmTransport(Reactor& reactor, std::unique_ptr<Segment> segment,
               const SharedMemoryOptions& options);
  ~ShmTransport() override;

  TransportKind kind() const override { return TransportKind::kSharedMemory; }
  Result<std::string> listen(const Identity& identity) override;
  Result<std::unique_ptr<SendChannel>> connect(std::uint32_t peer,
                                               const std::string& address) override;
  Result<Accepted> accept() override;
  bool is_accepting() const override { return lobby_.is_busy() || !incoming_.empty(); }
  bool is_shaking_hands() const override { return is_accepting(); }
  void stop_listening() override { lobby_.stop_listening(); }
  Result<Buffer> allocate(std::size_t bytes) override;
  bool reads_in_place(std::size_t bytes) const override { return bytes > kEagerBytes; }
  Result<bool> progress() override;

 private:
  /// A connection that this rank opens: first the hellos, then the handover.
  struct Outgoing {
    std::unique_ptr<HandshakeSocket> hellos;
    std::unique_ptr<Handover> handover;
  };
  /// One that a peer opens, after the hellos.
  struct Incoming {
    std::unique_ptr<Handover> handover;
    std::uint32_t peer = 0;
  };

  bool enter_sleep() override;
  void leave_sleep() override;

  Status advance_outgoing(Outgoing& opening);
  void begin_handovers();
  bool is_peer(const Hello& hello) const;
  OwnMemory own_memory() const;
  ChannelHome home();

  const SharedMemoryOptions options_;
  std::unique_ptr<Segment> segment_;
  PumpList pumped_;
  std::uint32_t seen_doorbell_ = 0;
  std::uint64_t seen_endings_ = 0;
  Lobby lobby_;
  std::map<std::uint32_t, Outgoing> outgoing_;  // By peer.
  std::deque<Incoming> incoming_;               // Oldest first.
};

}  // namespace ringpress::ring::transport::shm

#endif  // RING_TRANSPORT_SHM_CONTEXT_H_
