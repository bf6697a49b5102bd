#include "ring/transport/tcp/context.h"

namespace ringpress::ring::transport::tcp {
namespace {

constexpr int kMaxAttempts = 40;
constexpr std::chrono::milliseconds kRetryPause{50};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(Reactor& reactor, const TcpOptions& options) {
  return std::make_unique<TcpTransport>(reactor, options);
}

TcpTransport::TcpTransport(Reactor& reactor, TcpOptions options)
    : ReactorTransport(reactor), options_(std::move(options)) {}

void TcpTransport::stop_listening() {
  if (reception_) reception_->stop();
}

Result<std::string> TcpTransport::listen(const Identity& identity) {
  identity_ = identity;
  reception_.emplace(reactor_,
                     2 * identity.world * static_cast<std::size_t>(options_.sockets_per_peer),
                     end_name(identity.rank));
  return reception_->listen(options_.host, identity);
}

Status TcpTransport::start_handshakes(Outgoing& outgoing, const std::string& address) {
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress target, parse_address(address));
  const std::uint32_t connection = next_connection_++;
  for (int i = 0; i < options_.sockets_per_peer; ++i) {
    RINGPRESS_ASSIGN_OR_RETURN(Fd socket, open_socket(target));
    set_congestion_control(socket.get(), options_.congestion);
    const Status begun = begin_connect(socket.get(), target);
    if (!begun.is_ok()) return Status(Code::kPeerLost, begun.message());
    set_no_delay(socket.get());
    Hello hello = make_hello(identity_, data_purpose(identity_.is_encrypted));
    hello.channel = static_cast<std::uint8_t>(i);
    hello.connection = connection;
    outgoing.sockets.push_back(std::make_unique<HandshakeSocket>(
        reactor_, std::move(socket), ConnectorHandshake(hello, identity_.secret)));
  }
  return Status::ok();
}

Result<std::unique_ptr<SendChannel>> TcpTransport::retry_later(Outgoing& outgoing,
                                                               const Status& why) {
  outgoing.sockets.clear();
  const bool listening = reception_ && reception_->is_listening();
  if (++outgoing.attempts >= kMaxAttempts || !listening) {
    return why;
  }
  outgoing.retry_at = Clock::now() + kRetryPause;
  return std::unique_ptr<SendChannel>();
}

/// In words that all ranks may hear: who lacks a socket is named, not who waits for it.
Status TcpTransport::no_connection(std::uint32_t peer, const std::string& address,
                                   const Status& why) const {
  const std::string to = "rank " + std::to_string(peer);
  const std::string text = address + ": " + why.message();
  if (why.code() != Code::kSystem) {
    return Status(Code::kPeerLost, to + " cannot be reached: " + text);
  }
  return Status(Code::kSystem, "rank " + std::to_string(identity_.rank) +
                                   " cannot open a connection to " + to + " at " + text);
}

Result<std::unique_ptr<SendChannel>> TcpTransport::connect(std::uint32_t peer,
                                                           const std::string& address) {
  Outgoing& outgoing = outgoing_[peer];
  if (outgoing.sockets.empty()) {
    if (Clock::now() < outgoing.retry_at) return std::unique_ptr<SendChannel>();
    const Status started = start_handshakes(outgoing, address);
    if (!started.is_ok()) return retry_later(outgoing, no_connection(peer, address, started));
  }
  bool ready = true;
  for (const auto& socket : outgoing.sockets) {
    if (socket->state() == HandshakeSocket::State::kRefused) {
      const Status refused(Code::kPeerLost, socket->refusal());
      return retry_later(outgoing, no_connection(peer, address, refused));
    }
    if (socket->state() != HandshakeSocket::State::kReady) ready = false;
  }
  if (!ready) return std::unique_ptr<SendChannel>();
  Handshakes sockets = std::move(outgoing.sockets);
  outgoing_.erase(peer);
  return std::unique_ptr<SendChannel>(
      std::make_unique<TcpSendChannel>(make_connections(std::move(sockets), peer)));
}

Connections TcpTransport::make_connections(Handshakes sockets, std::uint32_t peer) {
  Connections connections;
  for (const auto& socket : sockets) {
    connections.push_back(std::make_unique<Connection>(reactor_, events_, socket->take_stream(),
                                                       Ends{identity_.rank, peer}));
  }
  return connections;
}

void TcpTransport::adopt(std::unique_ptr<HandshakeSocket> socket) {
  const Hello& hello = socket->peer();
  const bool ours = is_data(hello, identity_.is_encrypted) &&
                    hello.protocol_version == kProtocolVersion && hello.world == identity_.world &&
                    hello.rank < identity_.world && hello.rank != identity_.rank &&
                    hello.configuration_hash == identity_.configuration_hash &&
                    hello.channel < options_.sockets_per_peer;
  if (!ours) return;
  const std::uint32_t peer = hello.rank;
  Incoming& incoming = incoming_[peer];
  if (incoming.connection != hello.connection) {  // A new attempt replaces one that never finished.
    incoming.connection = hello.connection;
    incoming.sockets.clear();
    incoming.sockets.resize(static_cast<std::size_t>(options_.sockets_per_peer));
  }
  const std::uint8_t channel = hello.channel;
  incoming.sockets[channel] = std::move(socket);
  for (const auto& part : incoming.sockets) {
    if (part == nullptr) return;
  }
  Accepted accepted;
  accepted.peer = peer;
  accepted.channel =
      std::make_unique<TcpRecvChannel>(make_connections(std::move(incoming.sockets), peer));
  incoming_.erase(peer);
  accepted_.push_back(std::move(accepted));
}

Result<Transport::Accepted> TcpTransport::accept() {
  while (reception_) {
    std::unique_ptr<HandshakeSocket> socket = reception_->take();
    if (socket == nullptr) break;
    adopt(std::move(socket));
  }
  if (accepted_.empty()) return Accepted{};
  Accepted accepted = std::move(accepted_.front());
  accepted_.pop_front();
  return accepted;
}

Result<bool> TcpTransport::progress() {
  const TransportCounters before = counters();
  reactor_.dispatch();
  if (!events_.failure.is_ok()) return events_.failure;
  return counters() != before;
}

}  // namespace ringpress::ring::transport::tcp
