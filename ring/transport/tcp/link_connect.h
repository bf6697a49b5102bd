// How links come about (link.h says in which steps).
#ifndef RING_TRANSPORT_TCP_LINK_CONNECT_H_
#define RING_TRANSPORT_TCP_LINK_CONNECT_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ring/transport/common/handshake_socket.h"
#include "ring/transport/tcp/link.h"
#include "ring/transport/tcp/link_handle.h"
#include "ring/transport/tcp/reception.h"

namespace ringpress::ring::transport::tcp {

class TcpLinkConnector final : public LinkConnector {
 public:
  TcpLinkConnector(LinkEndpoint endpoint, const LinkOptions& options);
  /// kSystem when the process has no descriptors left.
  Status ready() const { return reactor_->ready(); }
  Result<std::unique_ptr<SendLink>> connect() override;

 private:
  Status start();
  Result<bool> all_shook_hands();
  Result<bool> all_let_in();
  Result<bool> advance();
  Status retry_later(const Status& why);

  const LinkEndpoint endpoint_;
  const std::string congestion_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  Identity identity_;
  std::unique_ptr<Reactor> reactor_;
  std::vector<std::unique_ptr<HandshakeSocket>> handshakes_;
  std::vector<Stream> sockets_;  // After the handshakes.
  std::size_t let_in_ = 0;       // The first so many of sockets_.
  int attempts_ = 0;
  Deadline retry_at_{};
};

class TcpLinkListener final : public LinkListener {
 public:
  explicit TcpLinkListener(const LinkOptions& options);
  /// Once, before the rest.
  Status listen(const std::string& host);
  const LinkHandle& handle() const override { return handle_; }
  Result<std::unique_ptr<ReceiveLink>> accept() override;

 private:
  /// The sockets, so far, of a link that somebody opens.
  struct Incoming {
    std::uint32_t connection = 0;
    Deadline expires{};
    std::size_t missing = 0;
    std::vector<std::unique_ptr<HandshakeSocket>> sockets;
  };

  Result<std::unique_ptr<ReceiveLink>> adopt(std::unique_ptr<HandshakeSocket> socket);
  Incoming& incoming_of(std::uint32_t connection);
  Result<std::unique_ptr<ReceiveLink>> let_in(
      const std::vector<std::unique_ptr<HandshakeSocket>>& sockets);

  const LinkOptions options_;
  LinkHandle handle_{};
  Reactor reactor_;
  Reception reception_;
  std::deque<Incoming> incoming_;  // Oldest first.
  Deadline deadline_{};            // For the next one; set by the first accept() that waits for it.
};

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_LINK_CONNECT_H_
