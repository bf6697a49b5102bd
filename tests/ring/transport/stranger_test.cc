// Connections that do not belong to the job: dropped, and the job goes on.
#include <gtest/gtest.h>
#include <poll.h>

#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"
#include "ring/transport/tcp/factory.h"
#include "tests/contract/transport_contract.h"

namespace ringpress::testing {
namespace {

using namespace ring::transport;

struct TcpMaker {
  static std::unique_ptr<Transport> make(Reactor& reactor) {
    return tcp::make_tcp_transport(reactor, {"127.0.0.1", 2});
  }
};

class Stranger : public ::testing::Test {
 protected:
  Fd visit(const std::string& says) {
    Fd socket = start_connect(parse_address(pair_.receiver_address()).value()).value();
    static_cast<void>(send_bytes(socket.get(), says.data(), says.size()));
    return socket;
  }

  /// True when the transport has closed the stranger's connection.
  bool is_dropped(const Fd& socket) {
    return pair_.drive([&] {
      static_cast<void>(pair_.receiver().accept());
      char byte = 0;
      const Transferred got = receive_bytes(socket.get(), &byte, 1);
      return got.closed || got.error != 0;
    });
  }

  void expect_traffic() {
    std::vector<std::byte> memory(5000);
    const std::vector<std::byte> sent = random_bytes(5000, 4);
    Request* receive = pair_.receive()->irecv(Buffer{memory.data(), 5000}, label_of(1)).value();
    pair_.send()->isend(ConstBuffer(sent.data(), 5000), label_of(1)).value();
    EXPECT_TRUE(pair_.drive_receive(receive).done);
    EXPECT_EQ(memory, sent);
  }

  TransportPair<TcpMaker> pair_;
};

TEST_F(Stranger, GarbageIsDroppedAtOnce) {
  const Fd before = visit(std::string(64, 'x'));
  pair_.connect();
  const Fd after =
      visit("GET / HTTP/1.1\r\nHost: here\r\nAccept: text/html, image/png, */*\r\n\r\n");
  EXPECT_TRUE(is_dropped(before));
  EXPECT_TRUE(is_dropped(after));
  expect_traffic();
}

TEST_F(Stranger, SilenceIsDroppedInTheEnd) {
  const Fd silent = visit("");
  const Fd halting = visit(std::string(63, 'x'));
  pair_.connect();
  expect_traffic();
  EXPECT_TRUE(is_dropped(silent));
  EXPECT_TRUE(is_dropped(halting));
}

TEST_F(Stranger, AScanDoesNotKeepPeersOut) {
  std::vector<Fd> crowd;
  for (int i = 0; i < 500; ++i) crowd.push_back(visit(i % 2 == 0 ? "" : "SSH-2.0-scan\r\n"));
  for (int i = 0; i < 200; ++i) visit("").reset();
  pair_.connect();
  expect_traffic();
}

TEST_F(Stranger, APeerOfAnotherJobOrWorldIsDropped) {
  Identity identity;
  identity.world = 2;
  identity.configuration_hash = 42;
  Secret ours;
  ours.fill(std::byte{7});
  const auto first_of = [&](const Identity& who, const Secret& secret) {
    const HelloBytes bytes =
        ConnectorHandshake(make_hello(who, HelloPurpose::kData), secret).first();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const Fd other_job = visit(first_of(identity, Secret{}));
  EXPECT_TRUE(is_dropped(other_job));
  // It knows the first hello of a peer, but not the secret: the challenge stops it.
  const Fd replay = visit(first_of(identity, ours) + first_of(identity, ours));
  EXPECT_TRUE(is_dropped(replay));
  pair_.connect();
  expect_traffic();
}

}  // namespace
}  // namespace ringpress::testing
