#include "perf/all_reduce/id_exchange.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

#include "perf/all_reduce/error.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryInterval{20};
// A file older than this when the program starts belongs to an earlier run.
constexpr std::time_t kStaleSeconds = 30;

[[noreturn]] void throw_errno(const std::string& what) {
  throw PerfError(what + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

void wait_ready(int descriptor, short events, Clock::time_point deadline, const char* what) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd entry = {descriptor, events, 0};
  if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) == 0) {
    throw PerfError(fmt::format("timed out: {}", what));
  }
}

void read_all(int descriptor, ncclUniqueId& id, Clock::time_point deadline) {
  auto* bytes = reinterpret_cast<char*>(&id);
  std::size_t done = 0;
  while (done < sizeof id) {
    wait_ready(descriptor, POLLIN, deadline, "waiting for the unique id of rank 0");
    const ssize_t got = read(descriptor, bytes + done, sizeof id - done);
    if (got < 0 && errno != EINTR) throw_errno("reading the unique id");
    if (got == 0) throw PerfError("rank 0 ended before it made a unique id");
    if (got > 0) done += static_cast<std::size_t>(got);
  }
}

/// Each id is written and read in one piece (128 bytes are below PIPE_BUF), so that readers that
/// share the pipe never get halves of two.
ncclUniqueId exchange_by_pipe(const Options& options, const RankIdentity& identity,
                              Clock::time_point deadline,
                              const std::function<ncclUniqueId()>& make_id) {
  const Descriptor pipe_end(options.id_descriptor);
  ncclUniqueId id;
  if (identity.rank != 0) {
    read_all(pipe_end.get(), id, deadline);
    return id;
  }
  id = make_id();
  for (int rank = 1; rank < identity.ranks; ++rank) {
    if (write(pipe_end.get(), &id, sizeof id) != static_cast<ssize_t>(sizeof id)) {
      throw_errno("handing out the unique id");
    }
  }
  return id;
}

void write_id_file(const std::string& path, const ncclUniqueId& id) {
  const std::string temporary = path + ".new";
  {
    const Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) throw_errno(temporary);
    if (write(file.get(), &id, sizeof id) != static_cast<ssize_t>(sizeof id))
      throw_errno(temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) throw_errno(path);
}

ncclUniqueId exchange_by_file(const Options& options, const RankIdentity& identity,
                              Clock::time_point deadline,
                              const std::function<ncclUniqueId()>& make_id) {
  ncclUniqueId id;
  if (identity.rank == 0) {
    id = make_id();
    write_id_file(options.id_file, id);
    return id;
  }
  const std::time_t oldest = std::time(nullptr) - kStaleSeconds;
  while (true) {
    struct stat status = {};
    if (stat(options.id_file.c_str(), &status) == 0 && status.st_mtime >= oldest) {
      const Descriptor file(open(options.id_file.c_str(), O_RDONLY | O_CLOEXEC));
      if (file.get() < 0) throw_errno(options.id_file);
      read_all(file.get(), id, deadline);
      return id;
    }
    if (Clock::now() >= deadline) {
      throw PerfError("timed out: rank 0 has not written " + options.id_file);
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

struct AddressList {
  explicit AddressList(const RankIdentity& identity) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    const int result = getaddrinfo(identity.root_address.c_str(),
                                   std::to_string(identity.root_port).c_str(), &hints, &first);
    if (result != 0) {
      throw PerfError(
          fmt::format("MASTER_ADDR={}: {}", identity.root_address, gai_strerror(result)));
    }
  }
  ~AddressList() { freeaddrinfo(first); }
  AddressList(const AddressList&) = delete;
  AddressList& operator=(const AddressList&) = delete;

  addrinfo* first = nullptr;
};

Descriptor listen_at(const RankIdentity& identity) {
  const AddressList addresses(identity);
  Descriptor listener(socket(addresses.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), addresses.first->ai_addr, addresses.first->ai_addrlen) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    throw_errno(fmt::format("listening at {}:{} for the other ranks", identity.root_address,
                            identity.root_port));
  }
  return listener;
}

Descriptor connect_to(const RankIdentity& identity, Clock::time_point deadline) {
  const AddressList addresses(identity);
  while (true) {
    Descriptor connection(socket(addresses.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(connection.get(), addresses.first->ai_addr, addresses.first->ai_addrlen) == 0) {
      return connection;
    }
    if (Clock::now() >= deadline) {
      throw_errno(
          fmt::format("connecting to rank 0 at {}:{}", identity.root_address, identity.root_port));
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

ncclUniqueId exchange_by_tcp(const RankIdentity& identity, Clock::time_point deadline,
                             const std::function<ncclUniqueId()>& make_id) {
  ncclUniqueId id;
  if (identity.rank != 0) {
    const Descriptor connection = connect_to(identity, deadline);
    read_all(connection.get(), id, deadline);
    return id;
  }
  const Descriptor listener = listen_at(identity);
  id = make_id();
  for (int served = 1; served < identity.ranks; ++served) {
    wait_ready(listener.get(), POLLIN, deadline, "waiting for the other ranks to ask for the id");
    const Descriptor connection(accept(listener.get(), nullptr, nullptr));
    if (connection.get() < 0) throw_errno("accepting a rank");
    if (send(connection.get(), &id, sizeof id, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof id)) {
      throw_errno("handing out the unique id");
    }
  }
  return id;
}

}  // namespace

ncclUniqueId exchange_id(const Options& options, const RankIdentity& identity,
                         std::chrono::milliseconds timeout,
                         const std::function<ncclUniqueId()>& make_id) {
  const Clock::time_point deadline = Clock::now() + timeout;
  if (identity.ranks == 1) return make_id();
  if (options.id_descriptor >= 0) return exchange_by_pipe(options, identity, deadline, make_id);
  if (!options.id_file.empty()) return exchange_by_file(options, identity, deadline, make_id);
  if (!identity.root_address.empty()) return exchange_by_tcp(identity, deadline, make_id);
  throw PerfError("rank " + std::to_string(identity.rank) + " of " + identity.launcher +
                  " cannot learn the unique id: set MASTER_ADDR and MASTER_PORT, or --id-file");
}

}  // namespace ringpress::perf
