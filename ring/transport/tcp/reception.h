// A listening socket and who knocks there. Strangers (wrong or no hello) are dropped after
// kHandshakeTimeout at most; there is room for a bounded number of them, and the oldest gives way
// when it is full, so they cannot keep peers out.
#ifndef RING_TRANSPORT_TCP_RECEPTION_H_
#define RING_TRANSPORT_TCP_RECEPTION_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "ring/transport/common/handshake_socket.h"

namespace ringpress::ring::transport::tcp {

class Reception final : private EventHandler {
 public:
  /// `sockets` are those that peers are expected to open at the same time; `name` is for the log.
  Reception(Reactor& reactor, std::size_t sockets, std::string name)
      : reactor_(reactor), expected_(sockets), name_(std::move(name)) {}
  ~Reception() override;

  /// Returns the address.
  Result<std::string> listen(const std::string& host, const Identity& identity);
  void stop();
  bool is_listening() const { return listener_.valid(); }
  /// True while somebody is being let in.
  bool is_busy() const { return !strangers_.empty(); }
  /// A socket whose peer knows the secret, or null.
  std::unique_ptr<HandshakeSocket> take(Deadline now = Clock::now());

 private:
  void on_events(std::uint32_t events) override;
  void tell_of_dropped(const HandshakeSocket& socket);

  Reactor& reactor_;
  const std::size_t expected_;
  const std::string name_;
  Identity identity_;
  Fd listener_;
  std::deque<std::unique_ptr<HandshakeSocket>> strangers_;  // Not yet authenticated, oldest first.
  // One line about each kind of strangers is enough.
  bool told_of_secret_ = false;
  bool told_of_program_ = false;
};

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_RECEPTION_H_
