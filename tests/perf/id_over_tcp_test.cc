// Ranks that learn the unique id over TCP: who comes late, who is a stranger, what port is taken.
#include "perf/all_reduce/id_over_tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/descriptor.h"
#include "tests/support/unused_port.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

sockaddr_in local(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Listens at a port, and never answers.
class Stranger {
 public:
  Stranger() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = local(0);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(listen(socket_.get(), 100), 0);
    getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  Descriptor socket_;
  int port_ = 0;
};

RankIdentity identity_of(int rank, int ranks, std::vector<int> ports) {
  RankIdentity identity;
  identity.rank = rank;
  identity.ranks = ranks;
  identity.root_address = "127.0.0.1";
  identity.root_ports = std::move(ports);
  identity.job = 42;
  return identity;
}

ncclUniqueId some_id() {
  ncclUniqueId id;
  for (std::size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = static_cast<char>(3 * i);
  return id;
}

/// What each rank got; an exception ends the test.
std::vector<ncclUniqueId> exchange(int ranks, const std::vector<int>& ports,
                                   const std::vector<std::chrono::milliseconds>& late,
                                   std::chrono::milliseconds answer = 200ms) {
  std::vector<std::future<ncclUniqueId>> asked;
  for (int rank = 0; rank < ranks; ++rank) {
    asked.push_back(std::async(std::launch::async, [=] {
      std::this_thread::sleep_for(late[static_cast<std::size_t>(rank)]);
      return exchange_id_by_tcp(identity_of(rank, ranks, ports), {Clock::now() + 60s, answer},
                                some_id);
    }));
  }
  std::vector<ncclUniqueId> got;
  for (auto& one : asked) got.push_back(one.get());
  return got;
}

void expect_same(const std::vector<ncclUniqueId>& got) {
  const ncclUniqueId wanted = some_id();
  for (const ncclUniqueId& id : got) EXPECT_EQ(std::memcmp(&id, &wanted, sizeof id), 0);
}

TEST(IdOverTcp, RanksMayComeInAnyOrder) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<std::chrono::milliseconds> late;
    for (int rank = 0; rank < 8; ++rank) late.emplace_back(random() % 150);
    expect_same(exchange(8, {testing::unused_port()}, late));
  }
}

TEST(IdOverTcp, APortThatIsTakenIsPassedOver) {
  const Stranger first, second;
  expect_same(
      exchange(4, {first.port(), second.port(), testing::unused_port()}, {100ms, 0ms, 0ms, 300ms}));
}

TEST(IdOverTcp, APortThatIsTakenForAMomentIsWaitedFor) {
  auto stranger = std::make_unique<Stranger>();
  const int port = stranger->port();
  std::thread ends([&stranger] {
    std::this_thread::sleep_for(400ms);
    stranger.reset();
  });
  expect_same(exchange(3, {port}, {0ms, 0ms, 0ms}));
  ends.join();
}

void send_something(int port, const std::string& bytes) {
  const Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = local(port);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return;
  }
  send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (bytes.empty()) std::this_thread::sleep_for(20ms);
}

TEST(IdOverTcp, StrangersGetNothingAndHinderNobody) {
  const int port = testing::unused_port();
  std::atomic<bool> is_over = false;
  std::thread strangers([&] {
    std::mt19937 random(2);
    while (!is_over) {
      const std::size_t bytes = std::vector<std::size_t>{0, 1, 7, 24, 5000}[random() % 5];
      send_something(port, std::string(bytes, 'x'));
      std::this_thread::sleep_for(2ms);
    }
  });
  expect_same(exchange(4, {port}, {100ms, 0ms, 0ms, 400ms}));
  is_over = true;
  strangers.join();
}

/// Each of them says so many bytes and stays. Without a limit to patience, one alone would hold up
/// all ranks behind it.
TEST(IdOverTcp, StrangersThatStayHinderNobody) {
  const int port = testing::unused_port();
  std::future<std::vector<ncclUniqueId>> got = std::async(std::launch::async, [port] {
    return exchange(4, {port}, {0ms, 1000ms, 1000ms, 1000ms}, 600s);
  });
  const sockaddr_in address = local(port);
  std::vector<Descriptor> crowd;
  while (crowd.size() < 1000) {
    Descriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (connect(stranger.get(), generic, sizeof address) != 0) {
      std::this_thread::sleep_for(5ms);  // Nobody listens yet.
      continue;
    }
    const std::string says("rp-id-1\0and then nothing", crowd.size() % 20);
    send(stranger.get(), says.data(), says.size(), MSG_NOSIGNAL);
    crowd.push_back(std::move(stranger));
  }
  expect_same(got.get());
}

TEST(IdOverTcp, AnotherJobsRankIsAStranger) {
  const std::vector<int> ports = {testing::unused_port(), testing::unused_port()};
  std::vector<std::future<ncclUniqueId>> asked;
  for (const std::uint64_t job : {1, 2}) {
    for (int rank = 0; rank < 3; ++rank) {
      asked.push_back(std::async(std::launch::async, [=] {
        RankIdentity identity = identity_of(rank, 3, ports);
        identity.job = job;
        return exchange_id_by_tcp(identity, {Clock::now() + 60s, 2000ms}, [job] {
          ncclUniqueId id = {};
          id.internal[0] = static_cast<char>(job);
          return id;
        });
      }));
    }
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i].get().internal[0], i < 3 ? 1 : 2);
  }
}

std::string why(const RankIdentity& identity) {
  try {
    exchange_id_by_tcp(identity, {Clock::now() + 200ms, 50ms}, some_id);
  } catch (const terminal::Error& error) {
    return error.what();
  }
  return "";
}

TEST(IdOverTcp, SaysWhatItWaitedFor) {
  const Stranger stranger;
  const std::string port = std::to_string(stranger.port());
  EXPECT_EQ(why(identity_of(0, 2, {stranger.port()})),
            "listening at 127.0.0.1:" + port + " for the other ranks: Address already in use");
  EXPECT_EQ(why(identity_of(1, 2, {stranger.port()})),
            "timed out: asking rank 0 at 127.0.0.1:" + port +
                " for the unique id: who listens there is not rank 0 of this job");
  const int nobody = testing::unused_port();
  EXPECT_EQ(why(identity_of(1, 2, {nobody})),
            "timed out: asking rank 0 at 127.0.0.1:" + std::to_string(nobody) +
                " for the unique id: Connection refused");
  const std::string alone = why(identity_of(0, 3, {nobody}));
  EXPECT_TRUE(alone.starts_with("timed out: of 3 ranks 1 have come to 127.0.0.1:")) << alone;
}

}  // namespace
}  // namespace ringpress::perf
