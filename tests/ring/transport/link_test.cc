// Links: how they open, what they carry, how they end. Both ends live in one thread, which polls
// them in turn.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ring/factory.h"
#include "tests/contract/transport_contract.h"

namespace ringpress::testing {
namespace {

struct Ends {
  std::unique_ptr<SendLink> send;
  std::unique_ptr<ReceiveLink> receive;
};

LinkOptions loopback(int sockets = 2) {
  LinkOptions options;
  options.address.interfaces = "=lo";
  options.timeout = std::chrono::milliseconds(100000);
  options.sockets = sockets;
  return options;
}

template <typename Done>
bool poll_until(Done&& done) {
  const Deadline until = Clock::now() + std::chrono::seconds(250);
  while (!done()) {
    if (Clock::now() >= until) return false;
    std::this_thread::yield();
  }
  return true;
}

Ends open(LinkListener& listener, const LinkOptions& options) {
  Ends ends;
  const auto connector = ring::open_link(listener.handle(), options).value();
  EXPECT_TRUE(poll_until([&] {
    if (ends.send == nullptr) ends.send = connector->connect().value();
    if (ends.receive == nullptr) ends.receive = listener.accept().value();
    return ends.send != nullptr && ends.receive != nullptr;
  }));
  return ends;
}

template <typename Link>
ConstBuffer finish(Link& link, Request* request) {
  Completion completion;
  EXPECT_TRUE(poll_until([&] {
    completion = link.test(request).value();
    return completion.done;
  }));
  return completion.view;
}

/// What a poll fails with.
template <typename Poll>
Status failure_of(Poll&& poll) {
  Status status;
  EXPECT_TRUE(poll_until([&] {
    status = poll();
    return !status.is_ok();
  }));
  return status;
}

/// Of this process's TCP connections, those that are paced so.
int count_paced(const std::string& congestion) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    char name[16] = {};
    socklen_t length = sizeof name;
    sockaddr_storage peer{};
    socklen_t peer_length = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) continue;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) continue;
    if (name == congestion) ++found;
  }
  return found;
}

TEST(Link, ConnectorIsPacedAsItAsksFor) {
  std::ifstream allowed("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  for (std::string name; allowed >> name;) {
    LinkOptions options = loopback(3);
    const auto listener = ring::listen_for_links(options).value();
    const int before = count_paced(name);
    const Ends plain = open(*listener, options);
    const int by_default = count_paced(name) - before;
    EXPECT_TRUE(by_default == 0 || by_default == 6) << name;
    options.congestion = name;
    const Ends paced = open(*listener, options);
    EXPECT_EQ(count_paced(name) - before - by_default, by_default == 0 ? 3 : 6) << name;
  }
}

TEST(Link, OpensWhereTheSystemDoesNotKnowThePacing) {
  LinkOptions options = loopback();
  options.congestion = "no such";
  const auto listener = ring::listen_for_links(options).value();
  const Ends ends = open(*listener, options);
  EXPECT_NE(ends.send, nullptr);
}

TEST(Link, TheListenerDecidesHowManySocketsItHas) {
  for (const int sockets : {1, 2, 5, 16}) {
    const auto listener = ring::listen_for_links(loopback(sockets)).value();
    Ends ends = open(*listener, loopback(3));
    for (std::size_t i = 0; i < 40; ++i) {
      const std::vector<std::byte> sent = random_bytes(i * 5003, static_cast<unsigned>(i));
      std::vector<std::byte> memory(250000);
      Request* receive = ends.receive->irecv({memory.data(), memory.size()}).value();
      Request* send = ends.send->isend({sent.data(), sent.size()}).value();
      const ConstBuffer came = finish(*ends.receive, receive);
      finish(*ends.send, send);
      ASSERT_EQ(came.bytes, sent.size());
      ASSERT_EQ(came.data, memory.data());
      if (!sent.empty()) {
        ASSERT_EQ(std::memcmp(came.data, sent.data(), sent.size()), 0);
      }
    }
  }
}

TEST(Link, MayBeEncrypted) {
  for (const int sockets : {1, 3}) {
    LinkOptions options = loopback(sockets);
    options.is_encrypted = true;
    const auto listener = ring::listen_for_links(options).value();
    Ends ends = open(*listener, options);
    for (std::size_t i = 0; i < 40; ++i) {
      const std::vector<std::byte> sent = random_bytes(i * 5003, static_cast<unsigned>(i));
      std::vector<std::byte> memory(250000);
      Request* receive = ends.receive->irecv({memory.data(), memory.size()}).value();
      Request* send = ends.send->isend({sent.data(), sent.size()}).value();
      ASSERT_EQ(finish(*ends.receive, receive).bytes, sent.size());
      finish(*ends.send, send);
      ASSERT_TRUE(std::equal(sent.begin(), sent.end(), memory.begin()));
    }
    // Both sides are, or neither.
    const auto connector = ring::open_link(listener->handle(), loopback());
    EXPECT_EQ(connector.status().code(), Code::kMismatch);
    const auto plain = ring::listen_for_links(loopback()).value();
    EXPECT_EQ(ring::open_link(plain->handle(), options).status().code(), Code::kMismatch);
  }
}

TEST(Link, HasRoomForAFixedNumberOfRequests) {
  const auto listener = ring::listen_for_links(loopback()).value();
  Ends ends = open(*listener, loopback());
  std::vector<Request*> sends;
  std::vector<Request*> receives;
  std::vector<std::byte> memory(kMaxLinkRequests);
  for (std::size_t i = 0; i < kMaxLinkRequests; ++i) {
    receives.push_back(ends.receive->irecv({&memory[i], 1}).value());
    ASSERT_NE(receives.back(), nullptr);
  }
  EXPECT_EQ(ends.receive->irecv({memory.data(), 1}).value(), nullptr);
  std::byte value{7};
  for (std::size_t i = 0; i < kMaxLinkRequests; ++i) {
    sends.push_back(ends.send->isend({&value, 1}).value());
    ASSERT_NE(sends.back(), nullptr);
  }
  EXPECT_EQ(ends.send->isend({&value, 1}).value(), nullptr);
  finish(*ends.send, sends[0]);
  EXPECT_NE(ends.send->isend({&value, 1}).value(), nullptr);
  for (Request* receive : receives) EXPECT_EQ(finish(*ends.receive, receive).bytes, 1u);
}

TEST(Link, WhoHasAnotherPassphraseStaysOutside) {
  LinkOptions with = loopback();
  with.extra_secret = "open sesame";
  const auto listener = ring::listen_for_links(with).value();
  const auto stranger = ring::open_link(listener->handle(), loopback()).value();
  const Status refused = failure_of([&] {
    EXPECT_EQ(listener->accept().value(), nullptr);
    return stranger->connect().status();
  });
  EXPECT_EQ(refused.code(), Code::kPeerLost);
  EXPECT_NE(refused.message().find("cannot be reached"), std::string::npos) << refused.message();
  const Ends ends = open(*listener, with);
  EXPECT_NE(ends.receive, nullptr);
}

TEST(Link, AConnectorThatGivesUpLeavesTheListenerAsItWas) {
  const auto listener = ring::listen_for_links(loopback(5)).value();
  for (int i = 0; i < 100; ++i) {
    const auto connector = ring::open_link(listener->handle(), loopback()).value();
    for (int polls = 0; polls < i % 10; ++polls) {
      const std::unique_ptr<SendLink> link = connector->connect().value();
      EXPECT_TRUE(listener->accept().is_ok());
      if (link == nullptr) continue;
      EXPECT_EQ(connector->connect().status().code(), Code::kInvalidUsage) << "it is open";
      break;
    }
  }
  const Ends ends = open(*listener, loopback());
  EXPECT_NE(ends.receive, nullptr);
}

TEST(Link, EachSideHearsHowTheOtherEnded) {
  const auto listener = ring::listen_for_links(loopback()).value();
  std::byte value{7};
  {
    Ends ends = open(*listener, loopback());
    ends.send.reset();
    Request* receive = ends.receive->irecv({&value, 1}).value();
    const Status left = failure_of([&] { return ends.receive->test(receive).status(); });
    EXPECT_EQ(left.code(), Code::kPeerLost);
    EXPECT_EQ(left.message(), "the other side closed the link");
  }
  Ends ends = open(*listener, loopback());
  ASSERT_NE(ends.receive->irecv({&value, 1}).value(), nullptr);
  ASSERT_NE(ends.receive->irecv({&value, 1}).value(), nullptr);
  ends.receive.reset();
  const Status gone = failure_of([&]() -> Status {
    Result<Request*> send = ends.send->isend({&value, 1});
    if (!send.is_ok()) return send.status();
    return ends.send->test(send.value()).status();
  });
  EXPECT_EQ(gone.code(), Code::kAborted) << gone.message();
  EXPECT_EQ(gone.message(), "the other side closed the link with 2 transfers under way");
  // Over its other socket, too.
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(ends.send->isend({&value, 1}).status().code(), Code::kAborted);
  }
}

TEST(Link, ConnectingEndsAtItsDeadline) {
  LinkOptions hasty = loopback();
  hasty.timeout = std::chrono::milliseconds(100);
  const auto listener = ring::listen_for_links(hasty).value();
  const auto connector = ring::open_link(listener->handle(), hasty).value();
  EXPECT_EQ(failure_of([&] { return connector->connect().status(); }).code(), Code::kTimeout);
  const auto lonely = ring::listen_for_links(hasty).value();
  EXPECT_EQ(failure_of([&] { return lonely->accept().status(); }).code(), Code::kTimeout);
}

}  // namespace
}  // namespace ringpress::testing
