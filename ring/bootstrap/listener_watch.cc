#include "ring/bootstrap/listener_watch.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace ringpress::ring::bootstrap {

ListenerWatch::ListenerWatch(transport::Reactor& reactor, const std::string& address)
    : reactor_(reactor) {
  const Result<transport::SocketAddress> target = transport::parse_address(address);
  if (!target.is_ok()) return;
  Result<transport::Fd> socket = transport::start_connect(target.value());
  if (!socket.is_ok()) return;
  socket_ = std::move(socket).value();
  if (!reactor_.add(socket_.get(), this).is_ok()) socket_.reset();
}

ListenerWatch::~ListenerWatch() {
  stop();
}

void ListenerWatch::stop() {
  if (socket_.valid()) reactor_.remove(socket_.get(), this);
  socket_.reset();
}

void ListenerWatch::on_events(std::uint32_t events) {
  if ((events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) == 0) return;
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  // Any other error is one of the way there.
  has_closed_ = error == 0 || error == ECONNREFUSED || error == ECONNRESET || error == EPIPE;
  stop();
}

}  // namespace ringpress::ring::bootstrap
