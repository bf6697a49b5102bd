#include "ring/transport/tcp/reception.h"

#include <algorithm>

#include "ringpress/log.h"

namespace ringpress::ring::transport::tcp {
namespace {

constexpr std::size_t kSpareHandshakes = 64;  // Beyond those that peers need.

}  // namespace

Reception::~Reception() {
  stop();
}

void Reception::stop() {
  if (!listener_.valid()) return;
  reactor_.remove(listener_.get(), this);
  listener_ = Fd();
}

Result<std::string> Reception::listen(const std::string& host, const Identity& identity) {
  identity_ = identity;
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress wanted, parse_address(host + ":0"));
  RINGPRESS_ASSIGN_OR_RETURN(listener_, listen_on(wanted));
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress address, local_address(listener_.get()));
  RINGPRESS_RETURN_IF_ERROR(reactor_.add(listener_.get(), this));
  return to_text(address);
}

void Reception::on_events(std::uint32_t) {
  while (true) {
    Fd socket = accept_from(listener_.get());
    if (!socket.valid()) return;
    set_no_delay(socket.get());
    if (strangers_.size() >= kSpareHandshakes + expected_) strangers_.pop_front();
    strangers_.push_back(std::make_unique<HandshakeSocket>(
        reactor_, std::move(socket),
        AcceptorHandshake(make_hello(identity_, HelloPurpose::kData), identity_.secret)));
  }
}

void Reception::tell_of_dropped(const HandshakeSocket& socket) {
  bool is_told = true;
  switch (socket.stranger()) {
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

std::unique_ptr<HandshakeSocket> Reception::take(Deadline now) {
  std::unique_ptr<HandshakeSocket> found;
  for (auto& socket : strangers_) {
    const bool is_over = socket->is_over(now);
    if (found == nullptr && socket->state() == HandshakeSocket::State::kReady) {
      found = std::move(socket);
    } else if (is_over) {
      tell_of_dropped(*socket);
      socket.reset();
    }
  }
  std::erase(strangers_, nullptr);
  return found;
}

}  // namespace ringpress::ring::transport::tcp
