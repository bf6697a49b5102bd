// Ranks that meet, and ranks that should not.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "ring/bootstrap/host_identity.h"
#include "ring/bootstrap/join.h"
#include "ring/bootstrap/message.h"
#include "ring/bootstrap/unique_id.h"
#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"
#include "ringpress/version.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/peer_group.h"

namespace ringpress::testing {
namespace {

using std::chrono::milliseconds;

class Bootstrap : public ::testing::TestWithParam<PeerKind> {};

std::string fine(Mesh& mesh) {
  return std::to_string(mesh.rank()) + " of " + std::to_string(mesh.size());
}

TEST_P(Bootstrap, AllRanksMeet) {
  for (const int size : {1, 2, 5, 16}) {
    const auto reports = run_mesh_peers(
        GetParam(), size, [](ring::MeshOptions&) {}, fine);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(reports[static_cast<std::size_t>(rank)].text,
                std::to_string(rank) + " of " + std::to_string(size));
    }
  }
}

TEST_P(Bootstrap, AllRanksHearTheRootsWord) {
  for (const int size : {1, 3}) {
    const auto reports = run_mesh_peers(
        GetParam(), size,
        [](ring::MeshOptions& options) {
          options.word = 70 + static_cast<std::uint32_t>(options.rank);
        },
        [](Mesh& mesh) { return std::to_string(mesh.root_word()); });
    for (const auto& report : reports) EXPECT_EQ(report.text, "70");
  }
}

TEST_P(Bootstrap, EveryRankHearsWhichSettingDiffers) {
  const auto start = Clock::now();
  const auto reports = run_mesh_peers(
      GetParam(), 4,
      [](ring::MeshOptions& options) {
        options.agreement = {"RINGPRESS_BUDGET=1",
                             options.rank == 2 ? "RINGPRESS_CODEC=q8" : "RINGPRESS_CODEC=q4"};
      },
      fine);
  // Which of the other ranks is named with rank 2 depends on who came first.
  for (const PeerReport& report : reports) {
    EXPECT_EQ(report.text, reports[0].text);
    EXPECT_NE(report.text.find("mismatch between ranks: RINGPRESS_CODEC: rank"), std::string::npos)
        << report.text;
    EXPECT_NE(report.text.find("rank 2 has q8"), std::string::npos) << report.text;
    EXPECT_NE(report.text.find("has q4"), std::string::npos) << report.text;
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

TEST_P(Bootstrap, EveryRankHearsOfAnotherSize) {
  const auto reports = run_mesh_peers(
      GetParam(), 3, [](ring::MeshOptions& options) { options.size = options.rank == 1 ? 4 : 3; },
      fine);
  for (const PeerReport& report : reports) {
    EXPECT_NE(report.text.find("number of ranks: rank"), std::string::npos) << report.text;
    EXPECT_NE(report.text.find("rank 1 has 4"), std::string::npos) << report.text;
  }
}

TEST_P(Bootstrap, EveryRankHearsOfARankClaimedTwice) {
  const auto reports = run_mesh_peers(
      GetParam(), 3,
      [](ring::MeshOptions& options) { options.rank = options.rank == 2 ? 1 : options.rank; },
      fine);
  for (const PeerReport& report : reports) {
    EXPECT_EQ(report.text, "mismatch between ranks: two processes both claim to be rank 1");
  }
}

TEST_P(Bootstrap, NamesTheRanksThatNeverCame) {
  IdExchange exchange(4);
  const auto reports = run_peers(GetParam(), 4, [&](int rank) -> std::string {
    ring::MeshOptions options;
    options.rank = rank;
    options.size = 4;
    options.timeout = milliseconds(700);
    options.id = exchange.share(
        rank, [&] { return ring::open_rendezvous({"lo"}, "", options.timeout).value(); });
    if (rank % 2 == 1) return "absent";
    return to_text(ring::make_mesh(options).status());
  });
  EXPECT_EQ(reports[0].text, "timeout: ranks 1, 3 of 4 never came (waited 700 ms)");
  EXPECT_EQ(reports[2].text, reports[0].text);
}

TEST_P(Bootstrap, AnotherPassphraseIsRefused) {
  const auto reports = run_mesh_peers(
      GetParam(), 2,
      [](ring::MeshOptions& options) {
        options.extra_secret = options.rank == 0 ? "one" : "other";
        options.timeout = milliseconds(1500);
      },
      fine);
  EXPECT_NE(reports[1].text.find("RINGPRESS_SECRET"), std::string::npos) << reports[1].text;
  const std::string& text = reports[0].text;
  EXPECT_TRUE(text.starts_with("timeout: rank 1 of 2 never came (waited 1500 ms); 127.0.0.1:"))
      << text;
  EXPECT_TRUE(
      text.ends_with(" came with another secret: is RINGPRESS_SECRET the same on all "
                     "ranks, and is it this job's?"))
      << text;
}

INSTANTIATE_TEST_SUITE_P(Peers, Bootstrap,
                         ::testing::Values(PeerKind::kThreads, PeerKind::kProcesses),
                         [](const auto& instance) { return peer_kind_name(instance.param); });

TEST(BootstrapErrors, NothingListens) {
  ring::bootstrap::UniqueId id;
  id.address = "127.0.0.1:1";
  ring::MeshOptions options;
  options.id = ring::bootstrap::pack_id(id).value();
  options.timeout = milliseconds(300);
  const Status status = ring::make_mesh(options).status();
  EXPECT_NE(status.message().find("cannot reach the rendezvous at 127.0.0.1:1"), std::string::npos)
      << status.message();
}

/// How a rank fares whose rendezvous answers the first hello in this way and then closes.
Status join_at(const std::function<void(int socket)>& answer) {
  const ring::transport::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), generic, bytes), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), generic, &bytes), 0);
  std::thread rendezvous([&] {
    const ring::transport::Fd socket(accept(listener.get(), nullptr, nullptr));
    pollfd waited{socket.get(), POLLIN, 0};
    poll(&waited, 1, 10000);
    answer(socket.get());
  });
  ring::bootstrap::UniqueId id;
  id.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  ring::MeshOptions options;
  options.rank = 1;
  options.size = 2;
  options.id = ring::bootstrap::pack_id(id).value();
  options.timeout = milliseconds(5000);
  Status status = ring::make_mesh(options).status();
  rendezvous.join();
  return status;
}

TEST(BootstrapErrors, ARendezvousThatClosesDuringTheHandshake) {
  ring::transport::HelloBytes hello;
  const auto places = [](const Status& status) {
    return std::pair(status.message().find("has ended"), status.message().find("RINGPRESS_SECRET"));
  };
  // Killed: the system resets what it has not read.
  const Status killed = join_at([](int) {});
  EXPECT_EQ(killed.code(), Code::kPeerLost) << killed.message();
  EXPECT_LT(places(killed).first, places(killed).second) << killed.message();
  EXPECT_NE(places(killed).second, std::string::npos) << killed.message();
  // It has read the hello, and did not like it.
  const Status refused = join_at([&](int socket) {
    EXPECT_EQ(recv(socket, hello.data(), hello.size(), MSG_WAITALL), ssize_t(hello.size()));
  });
  EXPECT_EQ(refused.code(), Code::kMismatch) << refused.message();
  EXPECT_LT(places(refused).second, places(refused).first) << refused.message();
  EXPECT_NE(places(refused).first, std::string::npos) << refused.message();
  // Its answer shows that it knows another secret.
  const Status another = join_at([&](int socket) {
    EXPECT_EQ(recv(socket, hello.data(), hello.size(), MSG_WAITALL), ssize_t(hello.size()));
    EXPECT_EQ(send(socket, hello.data(), hello.size(), MSG_NOSIGNAL), ssize_t(hello.size()));
  });
  EXPECT_EQ(another.code(), Code::kMismatch) << another.message();
  EXPECT_NE(places(another).second, std::string::npos) << another.message();
  EXPECT_EQ(places(another).first, std::string::npos) << another.message();
}

TEST(BootstrapErrors, RefusesWrongOptions) {
  ring::MeshOptions options;
  EXPECT_EQ(ring::make_mesh(options).status().code(), Code::kInvalidArgument);  // No id.
  options.rank = 2;
  options.size = 2;
  EXPECT_EQ(ring::make_mesh(options).status().code(), Code::kInvalidArgument);
  options.rank = 0;
  options.sockets_per_peer = 0;
  EXPECT_EQ(ring::make_mesh(options).status().code(), Code::kInvalidArgument);
  const Status nowhere = ring::open_rendezvous({"nonesuch0"}, "", milliseconds(10)).status();
  EXPECT_TRUE(nowhere.message().starts_with(
      "RINGPRESS_SOCKET_IFNAME=nonesuch0 matches no network interface; there are: "))
      << nowhere.message();
  EXPECT_NE(nowhere.message().find("lo"), std::string::npos) << nowhere.message();
}

/// What rank 2 does.
enum class Third { kComesLate, kEnds, kEndedBefore };

/// How three ranks fare, each with a rendezvous of its own.
std::vector<std::string> meet_with_own_rendezvous(Third third) {
  std::vector<std::unique_ptr<Rendezvous>> own;
  std::vector<UniqueIdBytes> ids;
  for (int rank = 0; rank < 3; ++rank) {
    own.push_back(ring::prepare_rendezvous({"lo"}, "").value());
    ids.push_back(own.back()->id());
  }
  if (third == Third::kEndedBefore) own[2].reset();
  EXPECT_TRUE(own[0]->serve({milliseconds(50000), milliseconds(50000), ids}).is_ok());
  const auto reports = run_peers(PeerKind::kThreads, 3, [&](int rank) -> std::string {
    if (rank == 2) {
      std::this_thread::sleep_for(milliseconds(300));  // The others are there by then, or not.
      if (third != Third::kComesLate) own[2].reset();
      if (third != Third::kComesLate) return "";
    }
    ring::MeshOptions options;
    options.id = ids[0];
    options.rank = rank;
    options.size = 3;
    options.timeout = milliseconds(50000);
    return to_text(ring::make_mesh(options).status());
  });
  return {reports[0].text, reports[1].text, reports[2].text};
}

TEST(BootstrapErrors, ARankThatEndsInsteadOfComingIsNotWaitedFor) {
  for (const Third third : {Third::kEnds, Third::kEndedBefore}) {
    const std::vector<std::string> texts = meet_with_own_rendezvous(third);
    EXPECT_EQ(texts[0], "peer lost: rank 2 ended, or gave up, before it came");
    EXPECT_EQ(texts[1], texts[0]);
  }
}

TEST(BootstrapErrors, ARankThatIsLateIsWaitedFor) {
  for (const std::string& text : meet_with_own_rendezvous(Third::kComesLate))
    EXPECT_EQ(text, "ok: ");
}

/// A connection by which a rank has joined, and on which it waits for no answer.
ring::transport::Fd join_by_hand(const UniqueIdBytes& id, std::uint32_t rank, std::uint32_t size,
                                 bool says_all, std::uint32_t version = kProtocolVersion) {
  const ring::bootstrap::UniqueId place = ring::bootstrap::unpack_id(id).value();
  const auto address = ring::transport::parse_address(place.address).value();
  ring::transport::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.get(), address.get(), address.length), 0);
  Identity identity;
  identity.rank = rank;
  identity.world = size;
  ring::transport::ConnectorHandshake handshake(
      ring::transport::make_hello(identity, HelloPurpose::kRendezvous),
      ring::transport::mix_secret(place.secret, ""));
  const auto say = [&](const void* data, std::size_t bytes) {
    EXPECT_EQ(send(socket.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  };
  const ring::transport::HelloBytes first = handshake.first();
  ring::transport::HelloBytes second;
  say(first.data(), first.size());
  EXPECT_EQ(recv(socket.get(), second.data(), second.size(), MSG_WAITALL), ssize_t(second.size()));
  const auto third = handshake.answer(second);
  EXPECT_TRUE(third);
  if (third) say(third->data(), third->size());
  ring::bootstrap::Join join;
  join.protocol_version = version;
  join.library_version = kLibraryVersion;
  join.rank = rank;
  join.size = size;
  const std::string message = ring::bootstrap::pack_join(join).value();
  say(message.data(), says_all ? message.size() : message.size() / 2);
  return socket;
}

/// How ranks 0 and 1 fare where rank 2 comes and ends. They would wait long for the rest of `size`.
enum class RankEnds { kFirst, kLater, kBeforeItHasSaidAll };
std::vector<std::string> meet_with_one_that_ends(std::uint32_t size, RankEnds ends) {
  const auto place = ring::prepare_rendezvous({"lo"}, "").value();
  EXPECT_TRUE(place->serve({milliseconds(30000), milliseconds(30000)}).is_ok());
  ring::transport::Fd third =
      join_by_hand(place->id(), 2, size, ends != RankEnds::kBeforeItHasSaidAll);
  if (ends != RankEnds::kLater) third.reset();
  const auto reports = run_peers(PeerKind::kThreads, 3, [&](int rank) -> std::string {
    if (rank == 2) {
      std::this_thread::sleep_for(milliseconds(300));  // The others are there by then, or not.
      third.reset();
      return "";
    }
    ring::MeshOptions options;
    options.id = place->id();
    options.rank = rank;
    options.size = static_cast<int>(size);
    options.timeout = milliseconds(30000);
    return to_text(ring::meet(options).status());
  });
  return {reports[0].text, reports[1].text};
}

TEST(BootstrapErrors, ARankOfAnotherVersionOfTheProtocolIsNamedToAll) {
  const auto place = ring::prepare_rendezvous({"lo"}, "").value();
  EXPECT_TRUE(place->serve({milliseconds(30000), milliseconds(30000)}).is_ok());
  const ring::transport::Fd other = join_by_hand(place->id(), 2, 3, true, 3);
  const auto reports = run_peers(PeerKind::kThreads, 2, [&](int rank) {
    ring::MeshOptions options;
    options.id = place->id();
    options.rank = rank;
    options.size = 3;
    options.timeout = milliseconds(30000);
    return to_text(ring::meet(options).status());
  });
  for (const auto& report : reports) {
    EXPECT_EQ(report.text,
              "mismatch between ranks: protocol version: rank 2 has 3, the rank where "
              "all meet has " +
                  std::to_string(kProtocolVersion));
  }
}

// It would be waited for as long as for all ranks, ten minutes.
TEST(BootstrapErrors, APlaceWhereAnotherProgramListensAndSaysNothing) {
  const auto another = ring::prepare_rendezvous({"lo"}, "").value();
  ring::bootstrap::Join join;
  join.protocol_version = kProtocolVersion;
  join.rank = 1;
  join.size = 2;
  ring::bootstrap::JoinPatience patience;
  patience.answer = milliseconds(600000);
  patience.hello = milliseconds(50);
  const std::string address = ring::bootstrap::unpack_id(another->id()).value().address;
  const Status status = ring::bootstrap::join_ranks(address, Secret{}, join, patience).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.message(),
            "whoever listens at " + address +
                " has said nothing for 50 ms: does another program have that port?");
}

TEST(BootstrapErrors, ARankThatComesAndEndsIsNotWaitedFor) {
  for (const RankEnds ends : {RankEnds::kFirst, RankEnds::kLater, RankEnds::kBeforeItHasSaidAll}) {
    for (const std::string& text : meet_with_one_that_ends(4, ends))
      EXPECT_EQ(text, "peer lost: rank 2 ended, or gave up, before all had come");
  }
}

// They would go on to call it, and wait for ever.
TEST(BootstrapErrors, ARankThatEndedIsNotCountedAmongThoseWhoCame) {
  for (const std::string& text : meet_with_one_that_ends(3, RankEnds::kFirst))
    EXPECT_EQ(text, "peer lost: rank 2 ended, or gave up, before all had come");
}

TEST(BootstrapErrors, RanksThatWaitHearThatItIsCalledOff) {
  const auto place = ring::prepare_rendezvous({"lo"}, "").value();
  EXPECT_TRUE(place->serve({milliseconds(30000), milliseconds(30000)}).is_ok());
  const auto reports = run_peers(PeerKind::kThreads, 3, [&](int rank) -> std::string {
    if (rank == 2) {
      std::this_thread::sleep_for(milliseconds(300));  // The others are there by then, or not.
      place->call_off(Status(Code::kUnsupported, "it rains"));
      return "";
    }
    ring::MeshOptions options;
    options.id = place->id();
    options.rank = rank;
    options.size = 3;
    options.timeout = milliseconds(30000);
    return ring::meet(options).status().message();
  });
  EXPECT_EQ(reports[0].text, "it rains");
  EXPECT_EQ(reports[1].text, "it rains");
}

/// A process where nobody can be let in for a while; says when that begins.
[[noreturn]] void serve_without_descriptors(Rendezvous& place, int to_tell) {
  EXPECT_TRUE(place.serve({milliseconds(30000), milliseconds(30000)}).is_ok());
  {
    const NoDescriptors none;
    EXPECT_EQ(write(to_tell, "", 1), 1);
    std::this_thread::sleep_for(milliseconds(500));
  }
  std::this_thread::sleep_for(std::chrono::minutes(1));  // Until it is killed.
  _exit(1);
}

TEST(BootstrapErrors, RanksThatCameWhenNoFileCouldBeOpenedAreLetInLater) {
  const auto place = ring::prepare_rendezvous({"lo"}, "").value();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t server = fork();  // The limit is that of a process.
  if (server == 0) serve_without_descriptors(*place, ends[1]);
  place->give_back_port();
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  const auto reports = run_peers(PeerKind::kThreads, 2, [&](int rank) -> std::string {
    ring::MeshOptions options;
    options.id = place->id();
    options.rank = rank;
    options.size = 2;
    options.timeout = milliseconds(4000);
    return to_text(ring::meet(options).status());
  });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, to_text(Status::ok()));
  kill(server, SIGKILL);
  EXPECT_EQ(waitpid(server, nullptr, 0), server);
  close(ends[0]);
  close(ends[1]);
}

/// Two ranks of three, who come at the same time, at a place where the first one is waited for
/// long.
std::vector<std::string> meet_without_the_third() {
  const auto place = ring::prepare_rendezvous({"lo"}, "").value();
  EXPECT_TRUE(place->serve({milliseconds(1000), milliseconds(100000)}).is_ok());
  const auto reports = run_peers(PeerKind::kThreads, 2, [&](int rank) {
    ring::MeshOptions options;
    options.id = place->id();
    options.rank = rank;
    options.size = 3;
    options.timeout = milliseconds(1000);
    return ring::meet(options).status().message();
  });
  return {reports[0].text, reports[1].text};
}

// Many pairs together: the rendezvous must hear both of some pair at once.
TEST(BootstrapErrors, RanksThatComeAtTheSameTimeHearWhoDidNot) {
  constexpr int kPairs = 32;
  std::vector<std::string> texts[kPairs];
  std::vector<std::jthread> threads;
  for (auto& pair : texts) threads.emplace_back([&pair] { pair = meet_without_the_third(); });
  threads.clear();
  for (const auto& pair : texts) {
    for (const std::string& text : pair)
      EXPECT_NE(text.find("2 of 3 never came"), std::string::npos) << text;
  }
}

TEST(BootstrapErrors, StrangersDoNotDisturbTheRendezvous) {
  const UniqueIdBytes id = ring::open_rendezvous({"lo"}, "", milliseconds(100000)).value();
  const auto address =
      ring::transport::parse_address(ring::bootstrap::unpack_id(id).value().address).value();
  std::vector<ring::transport::Fd> strangers;
  for (int i = 0; i < 50; ++i) {
    ring::transport::Fd socket = ring::transport::start_connect(address).value();
    if (i % 2 == 0) {
      const std::string garbage(static_cast<std::size_t>(20 + 10 * i), 'G');
      static_cast<void>(ring::transport::send_bytes(socket.get(), garbage.data(), garbage.size()));
    }
    if (i % 3 != 0) strangers.push_back(std::move(socket));
  }
  const auto reports = run_peers(PeerKind::kThreads, 2, [&](int rank) {
    ring::MeshOptions options;
    options.id = id;
    options.rank = rank;
    options.size = 2;
    options.timeout = milliseconds(100000);
    return to_text(ring::make_mesh(options).status());
  });
  EXPECT_EQ(reports[0].text, "ok: ");
  EXPECT_EQ(reports[1].text, "ok: ");
}

TEST(Interfaces, AreChosenByName) {
  EXPECT_EQ(ring::bootstrap::interface_address({"lo"}).value(), "127.0.0.1");
  EXPECT_EQ(ring::bootstrap::interface_address({"=lo"}).value(), "127.0.0.1");
  EXPECT_EQ(ring::bootstrap::interface_address({"nonesuch,lo"}).value(), "127.0.0.1");
  EXPECT_FALSE(ring::bootstrap::interface_address({"=l"}).is_ok());
  EXPECT_EQ(ring::bootstrap::route_address("127.0.0.1:5").value(), "127.0.0.1");
}

TEST(Interfaces, AreSelectedByPrefixNameOrExclusion) {
  const std::vector<std::string> all = {"eth0", "eth1", "ib0", "lo"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(ring::select_interfaces(all, "eth"), (Names{"eth0", "eth1"}));
  EXPECT_EQ(ring::select_interfaces(all, "=eth1,lo"), (Names{"eth1", "lo"}));
  EXPECT_EQ(ring::select_interfaces(all, "^eth"), (Names{"ib0", "lo"}));
  EXPECT_EQ(ring::select_interfaces(all, "=eth"), Names{});
  EXPECT_EQ(ring::select_interfaces(all, "^=eth0,eth1,ib0,lo"), Names{});
  const Names here = ring::interface_names(AddressFamily::kIpv4).value();
  ASSERT_FALSE(here.empty());
  EXPECT_EQ(here.back(), "lo");
}

/// Whether an interface that is up, but not the loopback, has an address of IPv4.
bool has_address_beside_loopback() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool counts = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    found |= counts && entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET;
  }
  freeifaddrs(list);
  return found;
}

// As NCCL_SOCKET_IFNAME=^docker, which names the loopback as little as the network.
TEST(Interfaces, TheLoopbackIsTheLastOfThoseThatAreNotExcluded) {
  const std::string left = ring::bootstrap::interface_address({"^nonesuch"}).value();
  EXPECT_EQ(left == "127.0.0.1", !has_address_beside_loopback()) << left;
  EXPECT_FALSE(ring::bootstrap::interface_address({"^e,v,d,i,l,w,t,b,n"}).is_ok());
}

}  // namespace
}  // namespace ringpress::testing
