// A lobby on a port, which says in the log whom it has dropped.
#ifndef RING_TRANSPORT_TCP_RECEPTION_H_
#define RING_TRANSPORT_TCP_RECEPTION_H_

#include <memory>
#include <string>
#include <utility>

#include "ring/transport/common/lobby.h"

namespace ringpress::ring::transport::tcp {

class Reception {
 public:
  /// `sockets` are those that peers are expected to open at the same time; `name` is for the log.
  Reception(Reactor& reactor, std::size_t sockets, std::string name);

  /// Returns the address.
  Result<std::string> listen(const std::string& host, const Identity& identity);
  /// The port stays this one's: ranks that outlive this mesh may meet there.
  void stop();
  bool is_listening() const { return lobby_.is_listening(); }
  /// As Lobby has it.
  bool is_busy() const { return lobby_.is_busy(); }
  /// A socket whose peer knows the secret, or null.
  std::unique_ptr<HandshakeSocket> take(Deadline now = Clock::now()) { return lobby_.take(now); }

 private:
  void tell_of_dropped(const HandshakeSocket& socket);

  const std::string name_;
  Lobby lobby_;
  Fd port_;  // Kept when nobody listens any more.
  // One line about each kind of strangers is enough.
  bool told_of_secret_ = false;
  bool told_of_program_ = false;
};

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_RECEPTION_H_
