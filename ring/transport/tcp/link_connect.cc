#include "ring/transport/tcp/link_connect.h"

#include <algorithm>
#include <utility>

#include "ring/transport/tcp/factory.h"

namespace ringpress::ring::transport::tcp {
namespace {

constexpr int kMaxAttempts = 40;
constexpr std::chrono::milliseconds kRetryPause{50};
constexpr std::size_t kMaxIncoming = 64;
constexpr char kLetIn = 'R';

/// The connector is rank 1 of 2, the listener rank 0.
Identity identity_of(std::uint32_t rank, const Secret& secret, const LinkOptions& options) {
  Identity identity;
  identity.rank = rank;
  identity.world = 2;
  identity.secret = mix_secret(secret, options.extra_secret);
  identity.is_encrypted = options.is_encrypted;
  return identity;
}

}  // namespace

Result<std::unique_ptr<LinkListener>> make_link_listener(const std::string& host,
                                                         const LinkOptions& options) {
  auto listener = std::make_unique<TcpLinkListener>(options);
  RINGPRESS_RETURN_IF_ERROR(listener->listen(host));
  return std::unique_ptr<LinkListener>(std::move(listener));
}

Result<std::unique_ptr<LinkConnector>> make_link_connector(const LinkHandle& handle,
                                                           const LinkOptions& options) {
  RINGPRESS_ASSIGN_OR_RETURN(LinkEndpoint endpoint, unpack_handle(handle));
  if (endpoint.is_encrypted != options.is_encrypted) {
    return Status(Code::kMismatch, endpoint.is_encrypted
                                       ? "the other side encrypts its links, and this side does not"
                                       : "this side encrypts its links, and the other does not");
  }
  auto connector = std::make_unique<TcpLinkConnector>(std::move(endpoint), options);
  RINGPRESS_RETURN_IF_ERROR(connector->ready());
  return std::unique_ptr<LinkConnector>(std::move(connector));
}

// --- connecting ---

TcpLinkConnector::TcpLinkConnector(LinkEndpoint endpoint, const LinkOptions& options)
    : endpoint_(std::move(endpoint)),
      congestion_(options.congestion),
      timeout_(options.timeout),
      deadline_(Clock::now() + options.timeout),
      identity_(identity_of(1, endpoint_.secret, options)),
      reactor_(std::make_unique<Reactor>()) {}

Status TcpLinkConnector::start() {
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress target, parse_address(endpoint_.address));
  std::uint32_t connection = 0;
  fill_random(&connection, sizeof connection);
  for (int i = 0; i < endpoint_.sockets; ++i) {
    RINGPRESS_ASSIGN_OR_RETURN(Fd socket, start_connect(target));
    set_no_delay(socket.get());
    set_congestion_control(socket.get(), congestion_);
    keep_alive(socket.get());
    Hello hello = make_hello(identity_, data_purpose(identity_.is_encrypted));
    hello.channel = static_cast<std::uint8_t>(i);
    hello.connection = connection;
    handshakes_.push_back(std::make_unique<HandshakeSocket>(
        *reactor_, std::move(socket), ConnectorHandshake(hello, identity_.secret)));
  }
  return Status::ok();
}

Status TcpLinkConnector::retry_later(const Status& why) {
  handshakes_.clear();
  sockets_.clear();
  let_in_ = 0;
  if (++attempts_ >= kMaxAttempts) {
    return Status(Code::kPeerLost, endpoint_.address + " cannot be reached: " + why.message());
  }
  retry_at_ = Clock::now() + kRetryPause;
  return Status::ok();
}

Result<bool> TcpLinkConnector::all_shook_hands() {
  for (const auto& handshake : handshakes_) {
    if (handshake->state() == HandshakeSocket::State::kRefused) {
      return Status(Code::kPeerLost, handshake->refusal());
    }
    if (handshake->state() != HandshakeSocket::State::kReady) return false;
  }
  for (const auto& handshake : handshakes_) sockets_.push_back(handshake->take_stream());
  handshakes_.clear();
  return true;
}

Result<bool> TcpLinkConnector::all_let_in() {
  while (let_in_ < sockets_.size()) {
    char byte = 0;
    const Transferred got = receive_bytes(sockets_[let_in_].descriptor(), &byte, 1);
    if (got.closed || got.error != 0) {
      return Status(Code::kPeerLost, "the other side did not take the connection");
    }
    if (got.bytes == 0) return false;
    if (byte != kLetIn) return Status(Code::kCorrupt, "the other side speaks another protocol");
    ++let_in_;
  }
  return true;
}

Result<bool> TcpLinkConnector::advance() {
  if (sockets_.empty()) {
    reactor_->dispatch();
    RINGPRESS_ASSIGN_OR_RETURN(const bool shaken, all_shook_hands());
    if (!shaken) return false;
  }
  return all_let_in();
}

Result<std::unique_ptr<SendLink>> TcpLinkConnector::connect() {
  if (reactor_ == nullptr) return Status(Code::kInvalidUsage, "the link is open already");
  const Deadline now = Clock::now();
  if (now >= retry_at_) {
    const bool idle = handshakes_.empty() && sockets_.empty();
    const Status started = idle ? start() : Status::ok();
    const Result<bool> advanced = started.is_ok() ? advance() : Result<bool>(started);
    if (!advanced.is_ok()) {
      RINGPRESS_RETURN_IF_ERROR(retry_later(advanced.status()));
    } else if (advanced.value()) {
      return std::unique_ptr<SendLink>(
          std::make_unique<TcpSendLink>(std::move(reactor_), std::move(sockets_)));
    }
  }
  if (now >= deadline_) {
    return Status(Code::kTimeout, endpoint_.address + " did not accept a connection within " +
                                      std::to_string(timeout_.count()) + " ms");
  }
  return std::unique_ptr<SendLink>();
}

// --- accepting ---

TcpLinkListener::TcpLinkListener(const LinkOptions& options)
    : options_(options),
      reception_(reactor_, static_cast<std::size_t>(options.sockets), "a listener of links") {}

Status TcpLinkListener::listen(const std::string& host) {
  RINGPRESS_RETURN_IF_ERROR(reactor_.ready());
  LinkEndpoint endpoint;
  fill_random(endpoint.secret.data(), endpoint.secret.size());
  endpoint.is_encrypted = options_.is_encrypted;
  endpoint.sockets = options_.sockets;
  RINGPRESS_ASSIGN_OR_RETURN(endpoint.address,
                             reception_.listen(host, identity_of(0, endpoint.secret, options_)));
  RINGPRESS_ASSIGN_OR_RETURN(handle_, pack_handle(endpoint));
  return Status::ok();
}

TcpLinkListener::Incoming& TcpLinkListener::incoming_of(std::uint32_t connection) {
  for (Incoming& incoming : incoming_) {
    if (incoming.connection == connection) return incoming;
  }
  if (incoming_.size() >= kMaxIncoming) incoming_.pop_front();
  Incoming& incoming = incoming_.emplace_back();
  incoming.connection = connection;
  incoming.expires = Clock::now() + kHandshakeTimeout;
  incoming.missing = static_cast<std::size_t>(options_.sockets);
  incoming.sockets.resize(incoming.missing);
  return incoming;
}

Result<std::unique_ptr<ReceiveLink>> TcpLinkListener::let_in(
    const std::vector<std::unique_ptr<HandshakeSocket>>& sockets) {
  auto reactor = std::make_unique<Reactor>();
  RINGPRESS_RETURN_IF_ERROR(reactor->ready());
  std::vector<Stream> streams;
  for (const auto& socket : sockets) {
    const Stream& stream = streams.emplace_back(socket->take_stream());
    keep_alive(stream.descriptor());
    // Nothing was sent since the hello: there is room. If the connector has gone, the link tells.
    static_cast<void>(send_bytes(stream.descriptor(), &kLetIn, 1));
  }
  return std::unique_ptr<ReceiveLink>(
      std::make_unique<TcpReceiveLink>(std::move(reactor), std::move(streams)));
}

Result<std::unique_ptr<ReceiveLink>> TcpLinkListener::adopt(
    std::unique_ptr<HandshakeSocket> socket) {
  const Hello& hello = socket->peer();
  const bool ours = is_data(hello, options_.is_encrypted) &&
                    hello.protocol_version == kProtocolVersion && hello.world == 2 &&
                    hello.rank == 1 && hello.channel < options_.sockets;
  if (!ours) return std::unique_ptr<ReceiveLink>();
  const std::uint32_t connection = hello.connection;
  Incoming& incoming = incoming_of(connection);
  std::unique_ptr<HandshakeSocket>& socket_of_channel = incoming.sockets[hello.channel];
  if (socket_of_channel == nullptr) --incoming.missing;
  socket_of_channel = std::move(socket);
  if (incoming.missing > 0) return std::unique_ptr<ReceiveLink>();
  const auto sockets = std::move(incoming.sockets);
  std::erase_if(incoming_, [&](const Incoming& other) { return other.connection == connection; });
  return let_in(sockets);
}

Result<std::unique_ptr<ReceiveLink>> TcpLinkListener::accept() {
  const Deadline now = Clock::now();
  if (deadline_ == Deadline{}) deadline_ = now + options_.timeout;
  reactor_.dispatch();
  while (std::unique_ptr<HandshakeSocket> socket = reception_.take()) {
    RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<ReceiveLink> link, adopt(std::move(socket)));
    if (link == nullptr) continue;
    deadline_ = Deadline{};
    return link;
  }
  std::erase_if(incoming_, [&](const Incoming& incoming) { return now >= incoming.expires; });
  if (now >= deadline_) {
    return Status(Code::kTimeout, "nobody has connected within " +
                                      std::to_string(options_.timeout.count()) + " ms");
  }
  return std::unique_ptr<ReceiveLink>();
}

}  // namespace ringpress::ring::transport::tcp
