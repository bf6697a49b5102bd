#include "perf/all_reduce/id_over_tcp.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "perf/all_reduce/descriptor.h"
#include "perf/all_reduce/error.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskAgainAfter{20};
// How long rank 0 tries to get one of its ports: a connection that has just ended may hold it.
constexpr std::chrono::seconds kListenPatience{10};

/// What both sides begin with.
struct Greeting {
  std::array<char, 8> magic = {'r', 'p', '-', 'i', 'd', '-', '1', 0};
  std::uint64_t job = 0;
  std::int32_t rank = 0;  // Who speaks.
  std::int32_t ranks = 0;

  bool is_of_job(const RankIdentity& identity) const {
    return magic == Greeting().magic && job == identity.job && ranks == identity.ranks &&
           rank >= 0 && rank < ranks;
  }
};

struct Answer {
  Greeting greeting;
  ncclUniqueId id;
};

constexpr char kReceived = 1;  // What a rank says at the end.

Greeting greeting_of(const RankIdentity& identity) {
  Greeting greeting;
  greeting.job = identity.job;
  greeting.rank = identity.rank;
  greeting.ranks = identity.ranks;
  return greeting;
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

/// False if the other side ends or time is up before all has come.
bool receive(int connection, void* data, std::size_t bytes, Clock::time_point deadline) {
  auto* const begin = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes;) {
    pollfd entry = {connection, POLLIN, 0};
    const int ready = poll(&entry, 1, milliseconds_until(deadline));
    if (ready == 0 || (ready < 0 && errno != EINTR)) return false;
    const ssize_t got = recv(connection, begin + done, bytes - done, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return false;
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return true;
}

/// Of so few bytes a new connection takes all at once.
bool send_all(int connection, const void* data, std::size_t bytes) {
  return send(connection, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

/// Where a port of rank 0 is.
class Address {
 public:
  Address(const RankIdentity& identity, int port) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    const int result =
        getaddrinfo(identity.root_address.c_str(), std::to_string(port).c_str(), &hints, &first_);
    if (result != 0) {
      throw PerfError(
          fmt::format("MASTER_ADDR={}: {}", identity.root_address, gai_strerror(result)));
    }
  }
  ~Address() { freeaddrinfo(first_); }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;

  Descriptor open() const {
    return Descriptor(socket(first_->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  bool listen_at(const Descriptor& listener) const {
    const int on = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(listener.get(), first_->ai_addr, first_->ai_addrlen) == 0 &&
           listen(listener.get(), SOMAXCONN) == 0;
  }
  bool connect_to(const Descriptor& connection) const {
    return connect(connection.get(), first_->ai_addr, first_->ai_addrlen) == 0;
  }

 private:
  addrinfo* first_ = nullptr;
};

/// Two ends that are one: where nobody listens yet, the system may give a connection the very port
/// that it is for, and TCP then connects it to itself.
bool is_connected_to_itself(const Descriptor& connection) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
  return getsockname(connection.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(connection.get(), reinterpret_cast<sockaddr*>(&other), &other_bytes) == 0 &&
         own_bytes == other_bytes && std::memcmp(&own, &other, own_bytes) == 0;
}

/// Closed as others are, it would hold the port for a minute.
void forget(const Descriptor& connection) {
  const linger at_once = {1, 0};
  setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

std::string name_of_root(const RankIdentity& identity) {
  return fmt::format("{}:{}", identity.root_address, fmt::join(identity.root_ports, ", "));
}

Descriptor listen_for_ranks(const RankIdentity& identity, Clock::time_point deadline) {
  const auto last = std::min(deadline, Clock::now() + kListenPatience);
  for (;;) {
    int error = 0;
    for (const int port : identity.root_ports) {
      const Address address(identity, port);
      Descriptor listener = address.open();
      if (address.listen_at(listener)) return listener;
      error = errno;
    }
    if (error != EADDRINUSE || Clock::now() >= last) {
      throw PerfError(fmt::format("listening at {} for the other ranks: {}", name_of_root(identity),
                                  std::strerror(error)));
    }
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

/// The rank that has the id now; none if it was no rank of this job, or has not said so.
std::optional<int> hand_out(const Descriptor& connection, const RankIdentity& identity,
                            const ExchangePatience& patience, const ncclUniqueId& id) {
  Greeting greeting;
  const auto soon = std::min(patience.deadline, Clock::now() + patience.answer / 4);
  if (!receive(connection.get(), &greeting, sizeof greeting, soon)) return std::nullopt;
  if (!greeting.is_of_job(identity)) return std::nullopt;
  const Answer answer = {greeting_of(identity), id};
  char received = 0;
  if (!send_all(connection.get(), &answer, sizeof answer) ||
      !receive(connection.get(), &received, sizeof received, patience.deadline)) {
    return std::nullopt;  // It comes again.
  }
  return greeting.rank;
}

void hand_out_to_all(const RankIdentity& identity, const ExchangePatience& patience,
                     const ncclUniqueId& id) {
  const Descriptor listener = listen_for_ranks(identity, patience.deadline);
  std::set<int> have_it = {identity.rank};
  while (have_it.size() < static_cast<std::size_t>(identity.ranks)) {
    pollfd entry = {listener.get(), POLLIN, 0};
    const int ready = poll(&entry, 1, milliseconds_until(patience.deadline));
    if (ready == 0) {
      throw PerfError(fmt::format("timed out: of {} ranks {} have come to {} for the unique id",
                                  identity.ranks, have_it.size(), name_of_root(identity)));
    }
    const Descriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) continue;  // It has gone again.
    if (const auto rank = hand_out(connection, identity, patience, id)) have_it.insert(*rank);
  }
}

/// The id, if rank 0 listens at that port and answers.
std::optional<ncclUniqueId> ask_at(int port, const RankIdentity& identity,
                                   const ExchangePatience& patience, std::string* problem) {
  const Address address(identity, port);
  const Descriptor connection = address.open();
  if (!address.connect_to(connection)) {
    *problem = std::strerror(errno);
    return std::nullopt;
  }
  const Greeting own = greeting_of(identity);
  Answer answer;
  const auto soon = std::min(patience.deadline, Clock::now() + patience.answer);
  if (is_connected_to_itself(connection)) {
    forget(connection);
    *problem = "nobody listens there";
    return std::nullopt;
  }
  *problem = "who listens there is not rank 0 of this job";
  if (!send_all(connection.get(), &own, sizeof own) ||
      !receive(connection.get(), &answer, sizeof answer, soon) ||
      !answer.greeting.is_of_job(identity) || answer.greeting.rank != 0 ||
      !send_all(connection.get(), &kReceived, sizeof kReceived)) {
    return std::nullopt;
  }
  return answer.id;
}

ncclUniqueId ask_rank_zero(const RankIdentity& identity, const ExchangePatience& patience) {
  for (;;) {
    std::string problem;
    for (const int port : identity.root_ports) {
      if (const auto id = ask_at(port, identity, patience, &problem)) return *id;
    }
    if (Clock::now() >= patience.deadline) {
      throw PerfError(fmt::format("timed out: asking rank 0 at {} for the unique id: {}",
                                  name_of_root(identity), problem));
    }
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

}  // namespace

ncclUniqueId exchange_id_by_tcp(const RankIdentity& identity, const ExchangePatience& patience,
                                const std::function<ncclUniqueId()>& make_id) {
  if (identity.rank != 0) return ask_rank_zero(identity, patience);
  const ncclUniqueId id = make_id();
  hand_out_to_all(identity, patience, id);
  return id;
}

}  // namespace ringpress::perf
