// A socket on which the three hellos are under way, and how long it waits for them.
#ifndef RING_TRANSPORT_COMMON_HANDSHAKE_SOCKET_H_
#define RING_TRANSPORT_COMMON_HANDSHAKE_SOCKET_H_

#include <optional>
#include <variant>

#include "ring/transport/common/hello.h"
#include "ring/transport/common/reactor.h"
#include "ring/transport/common/stream.h"

namespace ringpress::ring::transport {

/// For a stranger who says nothing. A peer that is merely late connects again.
inline constexpr std::chrono::milliseconds kHandshakeTimeout{5000};
/// For one who has shown that it knows the secret. It may have said its last hello and believe the
/// connection to be open, so that closing it would be the loss of a peer.
inline constexpr std::chrono::milliseconds kConfirmTimeout{60000};

/// How long the other side may take: kHandshakeTimeout to say who it is, and kConfirmTimeout more
/// for the last hello of one that an acceptor has answered.
class HandshakePatience {
 public:
  /// When the connection was taken, or begun.
  Deadline since() const { return since_; }
  bool is_over(Deadline now) const { return now >= expires_; }
  /// The acceptor has sent the second hello.
  bool has_answered() const { return answered_; }
  void answer();
  /// What the other side is late with, in words.
  std::string complaint() const;

 private:
  const Deadline since_ = Clock::now();
  Deadline expires_ = since_ + kHandshakeTimeout;
  bool answered_ = false;
};

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
  /// True if it will not become ready: it was refused, or the other side took too long. What has
  /// arrived by now is in time, however long ago this process last looked.
  bool is_over(Deadline now);
  /// Acceptor: the other side has not shown yet that it knows the secret, nor that it does not.
  bool is_silent() const { return state_ == State::kTalking && !patience_.has_answered(); }
  Deadline since() const { return patience_.since(); }
  /// Refuses one that has been silent since before `moment`, for others who wait. False: it has
  /// not. What has arrived by now is in time.
  bool give_way(Deadline moment);
  /// The peer's hello, once ready.
  const Hello& peer() const;
  /// Why it was refused, or what it is late with, in words.
  const std::string& refusal() const { return refusal_; }
  /// What the other side has shown itself to be. One that is merely late, or gone, has shown
  /// nothing.
  enum class Stranger { kNotShown, kOtherSecret, kOtherProgram };
  Stranger stranger() const { return stranger_; }
  /// Hands the socket on, once ready. It is no longer in the reactor.
  Fd take_socket();
  /// The same, as a stream: encrypted where both sides have said so.
  Stream take_stream();

 private:
  void refuse(const std::string& why);
  void refuse_stranger(const HelloBytes& hello);
  void begin_talking();
  void send_hello(const HelloBytes& hello);
  void on_hello();

  Reactor& reactor_;
  Fd socket_;
  std::variant<ConnectorHandshake, AcceptorHandshake> handshake_;
  State state_;
  HandshakePatience patience_;
  HelloBytes incoming_{};
  std::size_t incoming_bytes_ = 0;
  std::string refusal_;
  Stranger stranger_ = Stranger::kNotShown;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_HANDSHAKE_SOCKET_H_
