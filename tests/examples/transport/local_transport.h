// A transport in small: ranks of one host, joined by the system's local sockets. Frames, handshakes
// and the secret are those of ring/transport/common/; what is left is who connects where, and the
// two ends of a connection.
//
// In ringpress itself kLocal would be a value of TransportKind (transport.h), these files a folder
// of ring/transport/ whose factory.h declares make_local_transport() alone, and kLocalEntry a row
// of the list in ring/transports.cc.
#ifndef TESTS_EXAMPLES_TRANSPORT_LOCAL_TRANSPORT_H_
#define TESTS_EXAMPLES_TRANSPORT_LOCAL_TRANSPORT_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ring/transport/common/connection.h"
#include "ring/transport/common/lobby.h"
#include "ring/transport/common/reactor_transport.h"
#include "ring/transports.h"
#include "ringpress/internal/transport.h"

namespace ringpress::examples {

namespace common = ring::transport;

inline constexpr auto kLocal = static_cast<TransportKind>(100);

class LocalSendChannel final : public SendChannel {
 public:
  explicit LocalSendChannel(std::unique_ptr<common::Connection> connection)
      : connection_(std::move(connection)) {}
  Result<Request*> isend(ConstBuffer payload, const FrameLabel& label) override;
  Result<Completion> test(Request* request) override;
  void release(Request* request) override;
  void close(const Status& reason) override { connection_->close(reason); }
  bool flushed() const override { return connection_->flushed(); }
  Status ending() const override { return connection_->failure(); }

 private:
  const std::unique_ptr<common::Connection> connection_;
  common::Pool<common::SendOperation> operations_;
};

class LocalRecvChannel final : public RecvChannel {
 public:
  explicit LocalRecvChannel(std::unique_ptr<common::Connection> connection)
      : connection_(std::move(connection)) {}
  using RecvChannel::irecv;
  Result<Request*> irecv(std::byte* into, FrameLength length, const FrameLabel& label) override;
  Result<Request*> irecv_view(FrameLength length, const FrameLabel& label) override;
  Result<Completion> test(Request* request) override;
  void release(Request* request) override;
  void close(const Status& reason) override { connection_->close(reason); }
  void drain() override { connection_->drain(); }
  bool flushed() const override { return connection_->flushed(); }

 private:
  Result<Request*> start(std::byte* into, common::ViewMemory* memory, FrameLength length,
                         const FrameLabel& label);

  const std::unique_ptr<common::Connection> connection_;
  common::Pool<common::ReceiveOperation> operations_;
  common::ViewPool views_;
};

class LocalTransport final : public common::ReactorTransport {
 public:
  explicit LocalTransport(common::Reactor& reactor) : ReactorTransport(reactor) {}

  TransportKind kind() const override { return kLocal; }
  Result<std::string> listen(const Identity& identity) override;
  Result<std::unique_ptr<SendChannel>> connect(std::uint32_t peer,
                                               const std::string& address) override;
  Result<Accepted> accept() override;
  bool is_accepting() const override { return is_shaking_hands(); }
  bool is_shaking_hands() const override { return lobby_ && lobby_->is_busy(); }
  void stop_listening() override { lobby_->stop_listening(); }
  Result<bool> progress() override;

 private:
  std::unique_ptr<common::Connection> make_connection(common::HandshakeSocket& socket,
                                                      std::uint32_t peer);

  std::optional<common::Lobby> lobby_;
  std::map<std::uint32_t, std::unique_ptr<common::HandshakeSocket>> connecting_;  // By peer.
};

Result<std::unique_ptr<Transport>> make_local_transport(common::Reactor& reactor);

/// Ranks on other hosts go by the next one of the list.
inline constexpr ring::TransportEntry kLocalEntry = {
    .kind = kLocal,
    .is_optional = true,
    .is_within_host = true,
    .is_wanted = [](const ring::MeshOptions&) { return true; },
    .make = [](common::Reactor& reactor, const ring::MeshOptions&,
               const std::string&) { return make_local_transport(reactor); }};

}  // namespace ringpress::examples

#endif  // TESTS_EXAMPLES_TRANSPORT_LOCAL_TRANSPORT_H_
