#include "ring/transport/common/handshake_socket.h"

#include <cerrno>

namespace ringpress::ring::transport {

void HandshakePatience::answer() {
  answered_ = true;
  expires_ = Clock::now() + kConfirmTimeout;
}

std::string HandshakePatience::complaint() const {
  const auto limit = answered_ ? kConfirmTimeout : kHandshakeTimeout;
  return std::string(answered_ ? "it did not finish the handshake" : "it did not say who it is") +
         " within " + std::to_string(limit.count()) + " ms";
}

HandshakeSocket::HandshakeSocket(Reactor& reactor, Fd socket, ConnectorHandshake handshake)
    : reactor_(reactor),
      socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      state_(State::kConnecting) {
  const Status added = reactor_.add(socket_.get(), this);
  // Local sockets are connected at once: the acceptor need not wait until this process looks again.
  if (!added.is_ok()) {
    refuse(added.message());
  } else if (is_connected(socket_.get())) {
    begin_talking();
  }
}

HandshakeSocket::HandshakeSocket(Reactor& reactor, Fd socket, AcceptorHandshake handshake)
    : reactor_(reactor),
      socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      state_(State::kTalking) {
  const Status added = reactor_.add(socket_.get(), this);
  if (!added.is_ok()) refuse(added.message());
}

HandshakeSocket::~HandshakeSocket() {
  if (socket_.valid()) reactor_.remove(socket_.get(), this);
}

bool HandshakeSocket::is_over(Deadline now) {
  if (state_ == State::kTalking && patience_.is_over(now)) on_events(EPOLLIN);
  switch (state_) {
    case State::kReady:
      return false;
    case State::kRefused:
      return true;
    case State::kConnecting:
    case State::kTalking:
      break;
  }
  if (!patience_.is_over(now)) return false;
  refusal_ = patience_.complaint();
  return true;
}

bool HandshakeSocket::give_way(Deadline moment) {
  if (!is_silent() || since() > moment) return false;
  on_events(EPOLLIN);
  if (!is_silent()) return false;
  refuse("it had not said who it is, and others were waiting");
  return true;
}

const Hello& HandshakeSocket::peer() const {
  return std::visit([](const auto& side) -> const Hello& { return side.peer(); }, handshake_);
}

Fd HandshakeSocket::take_socket() {
  reactor_.remove(socket_.get(), this);
  return std::move(socket_);
}

Stream HandshakeSocket::take_stream() {
  return std::visit([this](const auto& side) { return Stream(take_socket(), side.keys()); },
                    handshake_);
}

void HandshakeSocket::refuse(const std::string& why) {
  state_ = State::kRefused;
  refusal_ = why;
  if (socket_.valid()) reactor_.remove(socket_.get(), this);
  socket_.reset();
}

/// In words that tell a job with a wrong setting from a scanner of ports.
void HandshakeSocket::refuse_stranger(const HelloBytes& hello) {
  const std::string from = remote_address(socket_.get());
  if (is_hello(hello)) {
    stranger_ = Stranger::kOtherSecret;
    return refuse(from +
                  " came with another secret: is RINGPRESS_SECRET the same on all ranks, and is it "
                  "this job's?");
  }
  stranger_ = Stranger::kOtherProgram;
  refuse(from + " is not ringpress");
}

void HandshakeSocket::send_hello(const HelloBytes& hello) {
  // The socket's buffer is empty: 64 bytes go in one piece or the connection is useless.
  const Transferred sent = send_bytes(socket_.get(), hello.data(), hello.size());
  if (sent.bytes != hello.size()) refuse("the connection closed during the handshake");
}

void HandshakeSocket::begin_talking() {
  state_ = State::kTalking;
  send_hello(std::get<ConnectorHandshake>(handshake_).first());
}

void HandshakeSocket::on_events(std::uint32_t events) {
  if (state_ == State::kConnecting) {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return;
    const Status connected = connect_result(socket_.get());
    if (!connected.is_ok()) return refuse(connected.message());
    begin_talking();
  }
  while (state_ == State::kTalking) {
    const Transferred got = receive_bytes(socket_.get(), incoming_.data() + incoming_bytes_,
                                          incoming_.size() - incoming_bytes_);
    if (got.closed || got.error != 0) {
      return refuse("the other side closed the connection during the handshake");
    }
    incoming_bytes_ += got.bytes;
    if (got.bytes == 0) return;
    if (incoming_bytes_ == incoming_.size()) on_hello();
  }
}

void HandshakeSocket::on_hello() {
  incoming_bytes_ = 0;
  if (auto* connector = std::get_if<ConnectorHandshake>(&handshake_)) {
    const std::optional<HelloBytes> third = connector->answer(incoming_);
    if (!third) return refuse("the other side does not know this job's secret");
    send_hello(*third);
    if (state_ == State::kTalking) state_ = State::kReady;
    return;
  }
  auto& acceptor = std::get<AcceptorHandshake>(handshake_);
  if (patience_.has_answered()) {
    if (!acceptor.confirm(incoming_)) {
      return refuse_stranger(incoming_);
    }
    state_ = State::kReady;
    return;
  }
  const std::optional<HelloBytes> second = acceptor.answer(incoming_);
  if (!second) return refuse_stranger(incoming_);
  patience_.answer();
  send_hello(*second);
}

}  // namespace ringpress::ring::transport
