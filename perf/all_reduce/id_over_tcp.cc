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
#include <list>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/descriptor.h"

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

constexpr char kReceived = 1;                // What a rank says at the end.
constexpr std::ptrdiff_t kMostSilent = 128;  // Who have connected to rank 0 and not greeted.

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
      throw terminal::Error(
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
      throw terminal::Error(fmt::format("listening at {} for the other ranks: {}",
                                        name_of_root(identity), std::strerror(error)));
    }
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

/// One that has connected to rank 0. It is a rank of the job once it has greeted as one.
struct Visitor {
  Descriptor connection;
  Clock::time_point gives_up;  // On one that does not greet.
  Greeting greeting = {};
  std::size_t received = 0;  // Bytes of its greeting.
  bool is_rank = false;      // It has been sent the id.
  bool is_over = false;
};

/// Rank 0 speaks with all visitors at a time: one that says nothing holds up nobody.
class Reception {
 public:
  Reception(const RankIdentity& identity, const ExchangePatience& patience, const ncclUniqueId& id)
      : identity_(identity),
        patience_(patience),
        answer_{greeting_of(identity), id},
        listener_(listen_for_ranks(identity, patience.deadline)) {}

  /// Until all ranks have the id.
  void serve() {
    while (have_it_.size() < static_cast<std::size_t>(identity_.ranks)) {
      wait();
      std::erase_if(visitors_, [](const Visitor& visitor) { return visitor.is_over; });
    }
  }

 private:
  void wait();
  void let_in();
  void read(Visitor* visitor);

  const RankIdentity& identity_;
  const ExchangePatience& patience_;
  const Answer answer_;
  const Descriptor listener_;
  std::set<int> have_it_ = {identity_.rank};
  std::list<Visitor> visitors_;  // Oldest first.
};

/// For the first of them to say something, or to be given up.
void Reception::wait() {
  std::vector<pollfd> entries = {{listener_.get(), POLLIN, 0}};
  Clock::time_point until = patience_.deadline;
  for (const Visitor& visitor : visitors_) {
    entries.push_back({visitor.connection.get(), POLLIN, 0});
    if (!visitor.is_rank) until = std::min(until, visitor.gives_up);
  }
  poll(entries.data(), entries.size(), milliseconds_until(until));
  const auto now = Clock::now();
  if (now >= patience_.deadline) {
    throw terminal::Error(fmt::format("timed out: of {} ranks {} have come to {} for the unique id",
                                      identity_.ranks, have_it_.size(), name_of_root(identity_)));
  }
  auto entry = entries.begin() + 1;
  for (Visitor& visitor : visitors_) {
    if ((entry++)->revents != 0) read(&visitor);
    if (!visitor.is_rank && now >= visitor.gives_up) visitor.is_over = true;
  }
  if (entries[0].revents != 0) let_in();
}

/// One more. If there are too many who have not greeted, the oldest of them gives way; a rank comes
/// again.
void Reception::let_in() {
  const auto is_silent = [](const Visitor& visitor) { return !visitor.is_rank; };
  const auto oldest = std::find_if(visitors_.begin(), visitors_.end(), is_silent);
  if (std::count_if(visitors_.begin(), visitors_.end(), is_silent) >= kMostSilent) {
    visitors_.erase(oldest);
  }
  Descriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.get() < 0) return;  // It has gone again.
  visitors_.push_back({std::move(connection), Clock::now() + patience_.answer});
}

/// It has said something, or has gone.
void Reception::read(Visitor* visitor) {
  auto* const place = reinterpret_cast<char*>(&visitor->greeting) + visitor->received;
  char last = 0;
  const std::size_t bytes = visitor->is_rank ? 1 : sizeof(Greeting) - visitor->received;
  const ssize_t got =
      recv(visitor->connection.get(), visitor->is_rank ? &last : place, bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  visitor->is_over = got <= 0 || visitor->is_rank;
  if (visitor->is_over) {
    if (got > 0 && last == kReceived) have_it_.insert(visitor->greeting.rank);
    return;  // If it has not said so, it comes again.
  }
  visitor->received += static_cast<std::size_t>(got);
  if (visitor->received < sizeof(Greeting)) return;
  visitor->is_rank = visitor->greeting.is_of_job(identity_) &&
                     send_all(visitor->connection.get(), &answer_, sizeof answer_);
  visitor->is_over = !visitor->is_rank;
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
      throw terminal::Error(fmt::format("timed out: asking rank 0 at {} for the unique id: {}",
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
  Reception(identity, patience, id).serve();
  return id;
}

}  // namespace ringpress::perf
