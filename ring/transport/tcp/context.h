// The TCP transport of one mesh: its listening socket, the handshakes under way, and the counters.
#ifndef RING_TRANSPORT_TCP_CONTEXT_H_
#define RING_TRANSPORT_TCP_CONTEXT_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/transport/common/handshake_socket.h"
#include "ring/transport/common/reactor_transport.h"
#include "ring/transport/tcp/channel.h"
#include "ring/transport/tcp/factory.h"
#include "ring/transport/tcp/reception.h"

namespace ringpress::ring::transport::tcp {

class TcpTransport final : public ReactorTransport {
 public:
  TcpTransport(Reactor& reactor, TcpOptions options);

  TransportKind kind() const override { return TransportKind::kTcp; }
  Result<std::string> listen(const Identity& identity) override;
  Result<std::unique_ptr<SendChannel>> connect(std::uint32_t peer,
                                               const std::string& address) override;
  Result<Accepted> accept() override;
  bool is_accepting() const override { return is_shaking_hands() || !incoming_.empty(); }
  bool is_shaking_hands() const override {
    return (reception_ && reception_->is_busy()) || !accepted_.empty();
  }
  void stop_listening() override;
  Result<bool> progress() override;

 private:
  using Handshakes = std::vector<std::unique_ptr<HandshakeSocket>>;
  struct Outgoing {  // A connection that this rank opens.
    Handshakes sockets;
    int attempts = 0;
    Deadline retry_at{};
  };
  struct Incoming {  // The sockets, so far, of a connection that a peer opens.
    std::uint32_t connection = 0;
    Handshakes sockets;
  };

  Status start_handshakes(Outgoing& outgoing, const std::string& address);
  Result<std::unique_ptr<SendChannel>> retry_later(Outgoing& outgoing, const Status& why);
  Status no_connection(std::uint32_t peer, const std::string& address, const Status& why) const;
  void adopt(std::unique_ptr<HandshakeSocket> socket);
  Connections make_connections(Handshakes sockets, std::uint32_t peer);

  const TcpOptions options_;
  std::optional<Reception> reception_;
  std::uint32_t next_connection_ = 1;
  std::map<std::uint32_t, Outgoing> outgoing_;  // By peer.
  std::map<std::uint32_t, Incoming> incoming_;  // By peer.
  std::deque<Accepted> accepted_;
};

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_CONTEXT_H_
