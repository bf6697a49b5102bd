// Whether a process that listens somewhere still does. A connection waits in its queue, and nobody
// need accept it: the system resets it when the listening socket closes, as it does when the
// process ends.
#ifndef RING_BOOTSTRAP_LISTENER_WATCH_H_
#define RING_BOOTSTRAP_LISTENER_WATCH_H_

#include <string>

#include "ring/transport/common/reactor.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::bootstrap {

class ListenerWatch final : public transport::EventHandler {
 public:
  /// An address that cannot be reached tells nothing: then it never closes.
  ListenerWatch(transport::Reactor& reactor, const std::string& address);
  ~ListenerWatch() override;
  ListenerWatch(const ListenerWatch&) = delete;
  ListenerWatch& operator=(const ListenerWatch&) = delete;

  bool has_closed() const { return has_closed_; }

 private:
  void on_events(std::uint32_t events) override;
  void stop();

  transport::Reactor& reactor_;
  transport::Fd socket_;
  bool has_closed_ = false;
};

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_LISTENER_WATCH_H_
