#include "ring/transport/tcp/reception.h"

#include "ringpress/internal/log.h"

namespace ringpress::ring::transport::tcp {

Reception::Reception(Reactor& reactor, std::size_t sockets, std::string name)
    : name_(std::move(name)),
      lobby_(reactor, sockets, [this](const HandshakeSocket& socket) { tell_of_dropped(socket); }) {
}

Result<std::string> Reception::listen(const std::string& host, const Identity& identity) {
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress wanted, parse_address(host + ":0"));
  RINGPRESS_ASSIGN_OR_RETURN(Fd listener, listen_and_keep_port(wanted));
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress address, local_address(listener.get()));
  RINGPRESS_RETURN_IF_ERROR(
      lobby_.open(std::move(listener), identity, data_purpose(identity.is_encrypted)));
  return to_text(address);
}

void Reception::stop() {
  if (Fd stopped = lobby_.stop_listening(); stopped.valid()) port_ = std::move(stopped);
}

void Reception::tell_of_dropped(const HandshakeSocket& socket) {
  bool is_told = true;
  // Nobody listens any more: who came meanwhile may look for the next one, at the same port.
  const auto stranger = is_listening() ? socket.stranger() : HandshakeSocket::Stranger::kNotShown;
  switch (stranger) {
    case HandshakeSocket::Stranger::kNotShown:  // Maybe a peer that was late, and connects again.
      log_line(LogLevel::kInfo, "%s: dropped a connection: %s", name_.c_str(),
               socket.refusal().c_str());
      return;
    case HandshakeSocket::Stranger::kOtherSecret:
      is_told = std::exchange(told_of_secret_, true);
      break;
    case HandshakeSocket::Stranger::kOtherProgram:
      is_told = std::exchange(told_of_program_, true);
      break;
  }
  if (is_told) return;
  log_line(LogLevel::kWarn, "%s: dropped a connection that is not from this job: %s", name_.c_str(),
           socket.refusal().c_str());
}

}  // namespace ringpress::ring::transport::tcp
