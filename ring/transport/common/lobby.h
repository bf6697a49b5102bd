// A listening socket and who knocks there, until it has shown that it knows the secret. Strangers
// (no hello, or a wrong one) are dropped after kHandshakeTimeout at most. There is room for a
// bounded number of them, and never for more than a part of the files that this process may open.
// When it is full, the oldest who has said nothing gives way; a peer among them comes again. Who
// has shown that it knows the secret is never dropped for others, so strangers cannot keep peers
// out, nor put them out.
#ifndef RING_TRANSPORT_COMMON_LOBBY_H_
#define RING_TRANSPORT_COMMON_LOBBY_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "ring/transport/common/handshake_socket.h"

namespace ringpress::ring::transport {

class Lobby final : private EventHandler {
 public:
  /// Hears of each connection that is dropped.
  using Dropped = std::function<void(const HandshakeSocket& socket)>;

  /// `expected` are the connections that peers may open at the same time.
  Lobby(Reactor& reactor, std::size_t expected, Dropped on_dropped)
      : reactor_(reactor), expected_(expected), on_dropped_(std::move(on_dropped)) {}
  ~Lobby() override { stop_listening(); }
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;

  /// Once. `listener` listens.
  Status open(Fd listener, const Identity& identity, HelloPurpose purpose);
  /// Who is being let in stays. Returns the socket, which refuses connections now: it may still
  /// keep its port. In a process that was forked since, nothing.
  Fd stop_listening();
  /// Nobody stays.
  void close();
  bool is_listening() const { return listener_.valid(); }
  /// True while somebody is being let in who may be a peer: who has been silent for long is none.
  bool is_busy(Deadline now = Clock::now()) const;
  /// True while somebody may wait outside, for want of files or time. take() tries again.
  bool is_full() const { return waits_outside_; }
  /// A socket whose peer knows the secret, or null.
  std::unique_ptr<HandshakeSocket> take(Deadline now = Clock::now());

 private:
  void on_events(std::uint32_t) override { let_in(); }
  void let_in();
  std::size_t room() const;
  std::size_t count_silent() const;
  void drop_silent(Deadline moment, std::size_t most);

  Reactor& reactor_;
  const std::size_t expected_;
  const Dropped on_dropped_;
  Identity identity_;
  HelloPurpose purpose_ = HelloPurpose::kData;
  Fd listener_;
  bool waits_outside_ = false;
  std::deque<std::unique_ptr<HandshakeSocket>> inside_;  // Oldest first.
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_LOBBY_H_
