// Connections that do not belong to the job: dropped, and the job goes on.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"
#include "ring/transport/shm/handover.h"
#include "ring/transport/tcp/factory.h"
#include "ring/transport/tcp/reception.h"
#include "ringpress/internal/log.h"
#include "tests/contract/transport_contract.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/strays.h"

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

/// One rank that listens, and others that connect to it in their own time.
class Lateness : public ::testing::Test {
 protected:
  void SetUp() override {
    identity_.world = 4;
    address_ = reception_.listen("127.0.0.1", identity_).value();
  }

  HandshakeSocket& connect() {
    Identity peer = identity_;
    peer.rank = static_cast<std::uint32_t>(connectors_.size()) + 1;
    connectors_.push_back(std::make_unique<HandshakeSocket>(
        far_reactor_, start_connect(parse_address(address_).value()).value(),
        ConnectorHandshake(make_hello(peer, HelloPurpose::kData), identity_.secret)));
    return *connectors_.back();
  }

  /// Until all connectors have said their last hello, which the listener has not read yet.
  void say_all_hellos() {
    const auto are_ready = [&] {
      return std::all_of(connectors_.begin(), connectors_.end(), [](const auto& socket) {
        return socket->state() == HandshakeSocket::State::kReady;
      });
    };
    while (!are_ready()) {
      far_reactor_.dispatch_until(Clock::now() + std::chrono::milliseconds(1));
      if (!are_ready()) near_reactor_.dispatch();
    }
  }

  Identity identity_;
  Reactor near_reactor_;
  Reactor far_reactor_;
  tcp::Reception reception_{near_reactor_, 4, "a test"};
  std::string address_;
  std::vector<std::unique_ptr<HandshakeSocket>> connectors_;
};

/// A process that was stopped, or computed, finds hellos that have waited longer than any patience.
TEST_F(Lateness, OfTheListenerCostsNobodyTheConnection) {
  for (int i = 0; i < 3; ++i) connect();
  say_all_hellos();
  const Deadline much_later = Clock::now() + std::chrono::hours(1);
  std::size_t let_in = 0;
  while (reception_.take(much_later) != nullptr) ++let_in;
  EXPECT_EQ(let_in, 3u);
}

TEST_F(Lateness, OfAPeerIsForgivenOnceItHasShownThatItKnowsTheSecret) {
  connect();
  while (!reception_.is_busy()) near_reactor_.dispatch();
  // Over loopback it is connected at once, or soon, and says hello.
  far_reactor_.dispatch_until(Clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(reception_.take(Clock::now() + kHandshakeTimeout), nullptr);  // Which is read here.
  EXPECT_TRUE(reception_.is_busy());
  EXPECT_EQ(reception_.take(Clock::now() + kHandshakeTimeout), nullptr);
  EXPECT_TRUE(reception_.is_busy());
  EXPECT_EQ(reception_.take(Clock::now() + kConfirmTimeout), nullptr);
  EXPECT_FALSE(reception_.is_busy());
}

/// What is said on standard error meanwhile, at the level of warnings.
template <typename Body>
std::string warnings_of(Body&& body) {
  set_log_level(LogLevel::kWarn);
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Lateness, IsNotTakenForStrangeness) {
  const Deadline much_later = Clock::now() + std::chrono::hours(1);
  EXPECT_EQ(warnings_of([&] {
              // One that says nothing, and one that goes again.
              const Fd silent = start_connect(parse_address(address_).value()).value();
              while (!reception_.is_busy()) near_reactor_.dispatch();
              start_connect(parse_address(address_).value()).value().reset();
              while (reception_.is_busy()) {
                near_reactor_.dispatch();
                EXPECT_EQ(reception_.take(much_later), nullptr);
              }
            }),
            "");
  const Fd stranger = start_connect(parse_address(address_).value()).value();
  while (!reception_.is_busy()) near_reactor_.dispatch();
  const std::string text = warnings_of([&] {
    const std::string garbage(64, 'x');
    while (send_bytes(stranger.get(), garbage.data(), garbage.size()).bytes == 0) continue;
    while (reception_.is_busy()) {
      near_reactor_.dispatch();
      EXPECT_EQ(reception_.take(), nullptr);
    }
  });
  EXPECT_NE(text.find("a test: dropped a connection that is not from this job"), std::string::npos)
      << text;
}

/// What connects and has nothing to say, or nothing that a peer would.
std::vector<Fd> send_crowd(const std::string& address, int count) {
  raise_file_limit();
  std::vector<Fd> crowd;
  for (int i = 0; i < count; ++i) {
    crowd.push_back(start_connect(parse_address(address).value()).value());
    const std::string says(static_cast<std::size_t>(i % 5 * 15), 'x');
    static_cast<void>(send_bytes(crowd.back().get(), says.data(), says.size()));
  }
  return crowd;
}

/// Who has said its last hello believes that it is connected: to close it would be a lost peer.
TEST_F(Lateness, OfTheListenerInACrowdCostsNobodyTheConnection) {
  for (int i = 0; i < 3; ++i) connect();
  say_all_hellos();
  const std::vector<Fd> crowd = send_crowd(address_, 1000);
  std::size_t let_in = 0;
  for (int i = 0; i < 40; ++i) {
    near_reactor_.dispatch();
    while (reception_.take() != nullptr) ++let_in;
  }
  EXPECT_EQ(let_in, 3u);
}

/// A crowd that stays takes no more files than there is room for, and peers behind it come in.
TEST_F(Lateness, OfACrowdHoldsUpNobodyBehindIt) {
  const std::vector<Fd> crowd = send_crowd(address_, 1000);
  HandshakeSocket& peer = connect();
  std::unique_ptr<HandshakeSocket> let_in;
  const Deadline before_their_time = Clock::now() + kHandshakeTimeout - std::chrono::seconds(1);
  while (let_in == nullptr && Clock::now() < before_their_time) {
    far_reactor_.dispatch_until(Clock::now() + std::chrono::milliseconds(1));
    near_reactor_.dispatch();
    let_in = reception_.take();
  }
  EXPECT_NE(let_in, nullptr);
  EXPECT_EQ(peer.state(), HandshakeSocket::State::kReady);
}

/// Nothing wakes the listener when there are files again.
TEST_F(Lateness, OfPeersWhomNoFileWasLeftForEndsWhenThereIsOne) {
  connect();
  connect();
  {
    const NoDescriptors none;
    near_reactor_.dispatch();
    EXPECT_EQ(reception_.take(), nullptr);
  }
  std::size_t let_in = 0;
  for (int i = 0; i < 1000 && let_in < 2; ++i) {
    far_reactor_.dispatch_until(Clock::now() + std::chrono::milliseconds(1));
    near_reactor_.dispatch();
    while (reception_.take() != nullptr) ++let_in;
  }
  EXPECT_EQ(let_in, 2u);
}

/// Its process was away from before it was connected until after the listener had given it up.
TEST_F(Lateness, OfAConnectorEndsInARefusal) {
  const SocketAddress address = abstract_address("ringpress-lateness-" + address_).value();
  const Fd listener = listen_on(address).value();
  HandshakeSocket connector(
      far_reactor_, start_connect(address).value(),
      ConnectorHandshake(make_hello(identity_, HelloPurpose::kData), identity_.secret));
  accept_from(listener.get()).socket.reset();
  far_reactor_.dispatch();
  EXPECT_EQ(connector.state(), HandshakeSocket::State::kRefused);
}

TEST_F(Lateness, OfTheListenerDoesNotSpoilAHandoverOfMemory) {
  const std::unique_ptr<shm::Segment> segment = shm::Segment::create(2).value();
  const shm::OwnMemory memory{segment.get(), near_reactor_.wake_descriptor(), 2, true};
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  shm::Handover connector(far_reactor_, memory, Fd(ends[0]), true);
  shm::Handover acceptor(near_reactor_, memory, Fd(ends[1]), false);
  near_reactor_.dispatch();
  far_reactor_.dispatch();
  ASSERT_EQ(connector.state(), shm::Handover::State::kReady);
  EXPECT_FALSE(acceptor.is_over(Clock::now() + std::chrono::hours(1)));
  EXPECT_EQ(acceptor.state(), shm::Handover::State::kReady);
}

/// Ranks that outlive a mesh meet at its port, so no other program may get it meanwhile. On a busy
/// machine one did.
TEST(Reception, KeepsItsPortWhenItHasStopped) {
  Reactor reactor;
  Identity identity;
  identity.world = 2;
  tcp::Reception reception(reactor, 2, "a reception");
  const std::string text = reception.listen("127.0.0.1", identity).value();
  const SocketAddress address = parse_address(text).value();
  reception.stop();
  EXPECT_FALSE(reception.is_listening());
  EXPECT_FALSE(bind_to(address).is_ok());
  const Fd late = start_connect(address).value();
  pollfd waited{late.get(), POLLOUT, 0};
  ASSERT_EQ(poll(&waited, 1, 5000), 1);
  EXPECT_FALSE(connect_result(late.get()).is_ok());
  EXPECT_TRUE(listen_again_on(address).is_ok());
}

}  // namespace
}  // namespace ringpress::testing
