// A socket on which the three hellos are under way. It ends ready or refused within
// kHandshakeTimeout, whatever the other side does.
#ifndef RING_TRANSPORT_COMMON_HANDSHAKE_SOCKET_H_
#define RING_TRANSPORT_COMMON_HANDSHAKE_SOCKET_H_

#include <optional>
#include <variant>

#include "ring/transport/common/hello.h"
#include "ring/transport/common/reactor.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::transport {

/// For a stranger who says nothing. A peer that is merely late connects again.
inline constexpr std::chrono::milliseconds kHandshakeTimeout{5000};

class HandshakeSocket final : public EventHandler {
 public:
  enum class State { kConnecting, kTalking, kReady, kRefused };

  /// Connector: `socket` comes from start_connect().
  HandshakeSocket(Reactor& reactor, Fd socket, ConnectorHandshake handshake);
  /// Acceptor: `socket` comes from accept_from().
  HandshakeSocket(Reactor& reactor, Fd socket, AcceptorHandshake handshake);
  ~HandshakeSocket() override;

  void on_events(std::uint32_t events) override;
  State state() const { return state_; }
  bool expired(Deadline now) const { return now >= expires_; }
  /// The peer's hello, once ready.
  const Hello& peer() const;
  /// Why it was refused, in words.
  const std::string& refusal() const { return refusal_; }
  /// Hands the socket on, once ready. It is no longer in the reactor.
  Fd take_socket();

 private:
  void refuse(const std::string& why);
  void send_hello(const HelloBytes& hello);
  void on_hello();

  Reactor& reactor_;
  Fd socket_;
  std::variant<ConnectorHandshake, AcceptorHandshake> handshake_;
  State state_;
  Deadline expires_;
  HelloBytes incoming_{};
  std::size_t incoming_bytes_ = 0;
  bool answered_ = false;  // The acceptor has sent the second hello.
  std::string refusal_;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_HANDSHAKE_SOCKET_H_
