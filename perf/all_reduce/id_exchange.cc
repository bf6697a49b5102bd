#include "perf/all_reduce/id_exchange.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/descriptor.h"
#include "perf/all_reduce/id_over_tcp.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryInterval{20};
// What a rank gives another process that it speaks to to answer.
constexpr std::chrono::milliseconds kPatience{2000};
// A file older than this when the program starts belongs to an earlier run.
constexpr std::time_t kStaleSeconds = 30;

[[noreturn]] void throw_errno(const std::string& what) {
  throw terminal::Error(what + ": " + std::strerror(errno));
}

void wait_ready(int descriptor, short events, Clock::time_point deadline, const char* what) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd entry = {descriptor, events, 0};
  if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) == 0) {
    throw terminal::Error(fmt::format("timed out: {}", what));
  }
}

void read_all(int descriptor, ncclUniqueId& id, Clock::time_point deadline) {
  auto* bytes = reinterpret_cast<char*>(&id);
  std::size_t done = 0;
  while (done < sizeof id) {
    wait_ready(descriptor, POLLIN, deadline, "waiting for the unique id of rank 0");
    const ssize_t got = read(descriptor, bytes + done, sizeof id - done);
    if (got < 0 && errno != EINTR) throw_errno("reading the unique id");
    if (got == 0) throw terminal::Error("rank 0 ended before it made a unique id");
    if (got > 0) done += static_cast<std::size_t>(got);
  }
}

/// Each id is written and read in one piece (128 bytes are below PIPE_BUF), so that readers that
/// share the pipe never get halves of two.
ncclUniqueId exchange_by_pipe(const Options& options, const RankIdentity& identity,
                              Clock::time_point deadline,
                              const std::function<ncclUniqueId()>& make_id) {
  const Descriptor pipe_end(options.launch.id_descriptor);
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
    write_id_file(options.launch.id_file, id);
    return id;
  }
  const std::time_t oldest = std::time(nullptr) - kStaleSeconds;
  while (true) {
    struct stat status = {};
    if (stat(options.launch.id_file.c_str(), &status) == 0 && status.st_mtime >= oldest) {
      const Descriptor file(open(options.launch.id_file.c_str(), O_RDONLY | O_CLOEXEC));
      if (file.get() < 0) throw_errno(options.launch.id_file);
      read_all(file.get(), id, deadline);
      return id;
    }
    if (Clock::now() >= deadline) {
      throw terminal::Error("timed out: rank 0 has not written " + options.launch.id_file);
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

}  // namespace

ncclUniqueId exchange_id(const Options& options, const RankIdentity& identity,
                         std::chrono::milliseconds timeout,
                         const std::function<ncclUniqueId()>& make_id) {
  const Clock::time_point deadline = Clock::now() + timeout;
  if (identity.ranks == 1) return make_id();
  if (options.launch.id_descriptor >= 0)
    return exchange_by_pipe(options, identity, deadline, make_id);
  if (!options.launch.id_file.empty())
    return exchange_by_file(options, identity, deadline, make_id);
  if (!identity.root_address.empty()) {
    return exchange_id_by_tcp(identity, {deadline, kPatience}, make_id);
  }
  throw terminal::Error(
      "rank " + std::to_string(identity.rank) + " of " + identity.launcher +
      " cannot learn the unique id: set MASTER_ADDR and MASTER_PORT, or --id-file");
}

}  // namespace ringpress::perf
