#include "tests/examples/transport/local_transport.h"

#include <array>

namespace ringpress::examples {
namespace {

/// A name that nobody guesses, of this network namespace.
std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  common::fill_random(bytes.data(), bytes.size());
  std::string name = "ringpress-";
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte / 16];
    name += "0123456789abcdef"[byte % 16];
  }
  return name;
}

}  // namespace

Result<Request*> LocalSendChannel::isend(ConstBuffer payload, const FrameLabel& label) {
  if (!connection_->failure().is_ok()) return connection_->failure();
  common::SendOperation* const operation = operations_.take();
  operation->header = common::checked_data_header(label, {payload.data, payload.bytes});
  operation->payload = payload;
  operation->sent_bytes = 0;
  operation->done = false;
  connection_->send(operation);
  return static_cast<Request*>(operation);
}

Result<Completion> LocalSendChannel::test(Request* request) {
  const auto* const operation = static_cast<common::SendOperation*>(request);
  if (!operation->done) connection_->write();
  if (operation->done) return Completion{true, {}};
  if (!connection_->failure().is_ok()) return connection_->failure();
  return Completion{};
}

/// What is still queued stays with the connection.
void LocalSendChannel::release(Request* request) {
  auto* const operation = static_cast<common::SendOperation*>(request);
  if (operation->done) operations_.give(operation);
}

Result<Request*> LocalRecvChannel::irecv(std::byte* into, FrameLength length,
                                         const FrameLabel& label) {
  return start(into, nullptr, length, label);
}

Result<Request*> LocalRecvChannel::irecv_view(FrameLength length, const FrameLabel& label) {
  common::ViewMemory* const memory = views_.take(length.bytes);
  return start(memory->data(), memory, length, label);
}

Result<Request*> LocalRecvChannel::start(std::byte* into, common::ViewMemory* memory,
                                         FrameLength length, const FrameLabel& label) {
  if (!connection_->failure().is_ok()) {
    if (memory != nullptr) views_.give(memory);
    return connection_->failure();
  }
  common::ReceiveOperation* const operation = operations_.take();
  operation->expected = {label, length};
  operation->into = into;
  operation->memory = memory;
  operation->received_bytes = 0;
  operation->crc = 0;
  operation->done = false;
  connection_->receive(operation);
  return static_cast<Request*>(operation);
}

Result<Completion> LocalRecvChannel::test(Request* request) {
  const auto* const operation = static_cast<common::ReceiveOperation*>(request);
  if (!operation->done) connection_->read();
  if (operation->done) {
    return Completion{true, ConstBuffer(operation->into, operation->expected.length.bytes)};
  }
  if (!connection_->failure().is_ok()) return connection_->failure();
  return Completion{};
}

void LocalRecvChannel::release(Request* request) {
  auto* const operation = static_cast<common::ReceiveOperation*>(request);
  if (!operation->done) return;
  if (operation->memory != nullptr) views_.give(operation->memory);
  operations_.give(operation);
}

Result<std::string> LocalTransport::listen(const Identity& identity) {
  identity_ = identity;
  const std::string name = random_name();
  RINGPRESS_ASSIGN_OR_RETURN(const common::SocketAddress address, common::abstract_address(name));
  RINGPRESS_ASSIGN_OR_RETURN(common::Fd listener, common::listen_on(address));
  lobby_.emplace(reactor_, 2 * identity.world, [](const common::HandshakeSocket&) {});
  RINGPRESS_RETURN_IF_ERROR(lobby_->open(std::move(listener), identity, HelloPurpose::kData));
  return name;
}

Result<std::unique_ptr<SendChannel>> LocalTransport::connect(std::uint32_t peer,
                                                             const std::string& address) {
  std::unique_ptr<common::HandshakeSocket>& socket = connecting_[peer];
  if (socket == nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(const common::SocketAddress target,
                               common::abstract_address(address));
    RINGPRESS_ASSIGN_OR_RETURN(common::Fd connecting, common::start_connect(target));
    const Hello hello = common::make_hello(identity_, HelloPurpose::kData);
    socket = std::make_unique<common::HandshakeSocket>(
        reactor_, std::move(connecting), common::ConnectorHandshake(hello, identity_.secret));
  }
  if (socket->state() == common::HandshakeSocket::State::kRefused) {
    const Status refused(Code::kPeerLost, "rank " + std::to_string(peer) +
                                              " cannot be reached: " + socket->refusal());
    connecting_.erase(peer);
    return refused;
  }
  if (socket->state() != common::HandshakeSocket::State::kReady) {
    return std::unique_ptr<SendChannel>();
  }
  std::unique_ptr<SendChannel> channel =
      std::make_unique<LocalSendChannel>(make_connection(*socket, peer));
  connecting_.erase(peer);
  return channel;
}

Result<Transport::Accepted> LocalTransport::accept() {
  const std::unique_ptr<common::HandshakeSocket> socket = lobby_ ? lobby_->take() : nullptr;
  if (socket == nullptr) return Accepted{};
  const Hello& hello = socket->peer();
  const bool is_of_this_mesh = hello.protocol_version == kProtocolVersion &&
                               hello.world == identity_.world && hello.rank < identity_.world &&
                               hello.rank != identity_.rank &&
                               hello.configuration_hash == identity_.configuration_hash;
  if (!is_of_this_mesh) return Accepted{};
  return Accepted{hello.rank,
                  std::make_unique<LocalRecvChannel>(make_connection(*socket, hello.rank))};
}

Result<bool> LocalTransport::progress() {
  const TransportCounters before = counters();
  reactor_.dispatch();
  if (!events_.failure.is_ok()) return events_.failure;
  return counters() != before;
}

std::unique_ptr<common::Connection> LocalTransport::make_connection(common::HandshakeSocket& socket,
                                                                    std::uint32_t peer) {
  return std::make_unique<common::Connection>(reactor_, events_, socket.take_stream(),
                                              common::Ends{identity_.rank, peer});
}

Result<std::unique_ptr<Transport>> make_local_transport(common::Reactor& reactor) {
  RINGPRESS_RETURN_IF_ERROR(reactor.ready());
  return std::unique_ptr<Transport>(std::make_unique<LocalTransport>(reactor));
}

}  // namespace ringpress::examples
