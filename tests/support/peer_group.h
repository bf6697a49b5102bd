// Runs one function as the N ranks of a group, as threads of this process or as processes of their
// own, and collects what each returned. Nothing outlives its deadline: late processes are killed;
// late threads cannot be, so they end the test program with a message.
#ifndef TESTS_SUPPORT_PEER_GROUP_H_
#define TESTS_SUPPORT_PEER_GROUP_H_

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ring/factory.h"
#include "tests/support/child_leaks.h"
#include "tests/support/sanitizers.h"

#ifdef RINGPRESS_WITH_TSAN
/// Ranks that are processes start threads, and the rendezvous of an earlier test may still have
/// one.
extern "C" __attribute__((weak, used, visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif

namespace ringpress::testing {

enum class PeerKind { kThreads, kProcesses };
inline const char* peer_kind_name(PeerKind kind) {
  return kind == PeerKind::kThreads ? "threads" : "processes";
}

struct PeerReport {
  std::string text;  // What the function returned; "exception: ..." if it threw. Of a process that
                     // LeakSanitizer finds leaks in: and " with leaks".
  int signal = 0;    // That ended the process, if any.
  bool timed_out = false;
};

using PeerFunction = std::function<std::string(int rank)>;
using UniqueIdBytes = std::array<std::byte, 128>;

/// Passes the unique id from rank 0 to the others, whether they are threads or processes. Make it
/// before the ranks start.
class IdExchange {
 public:
  explicit IdExchange(int size) : size_(size) {
    if (pipe2(pipe_, O_CLOEXEC) != 0) std::abort();
  }
  ~IdExchange() {
    close(pipe_[0]);
    close(pipe_[1]);
  }
  IdExchange(const IdExchange&) = delete;
  IdExchange& operator=(const IdExchange&) = delete;

  /// Rank 0 calls `make` and gives the id to the others; they wait for it.
  UniqueIdBytes share(int rank, const std::function<UniqueIdBytes()>& make) {
    UniqueIdBytes id{};
    if (rank == 0) {
      id = make();
      for (int peer = 1; peer < size_; ++peer) {
        if (write(pipe_[1], id.data(), id.size()) != ssize_t(id.size())) std::abort();
      }
    } else if (read(pipe_[0], id.data(), id.size()) != ssize_t(id.size())) {
      std::abort();
    }
    return id;
  }

 private:
  int size_;
  int pipe_[2] = {-1, -1};
};

namespace internal {

inline std::string call_peer(const PeerFunction& function, int rank) {
  try {
    return function(rank);
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
}

inline std::vector<PeerReport> run_threads(int size, const PeerFunction& function,
                                           std::chrono::seconds deadline) {
  std::vector<PeerReport> reports(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  std::vector<std::future<std::string>> results;
  for (int rank = 0; rank < size; ++rank) {
    std::packaged_task<std::string()> task([&function, rank] { return call_peer(function, rank); });
    results.push_back(task.get_future());
    threads.emplace_back(std::move(task));
  }
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank].wait_until(until) != std::future_status::ready) {
      std::fprintf(stderr, "peer group: the thread of rank %zu hangs\n", rank);
      std::abort();
    }
    reports[rank].text = results[rank].get();
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

inline void write_all(int descriptor, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

/// Reads until the other end is closed. False at the deadline.
inline bool read_all(int descriptor, std::string& text,
                     std::chrono::steady_clock::time_point until) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waited{descriptor, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) <= 0) return false;
    char buffer[4096];
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got <= 0) return true;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

inline std::vector<PeerReport> run_processes(int size, const PeerFunction& function,
                                             std::chrono::seconds deadline) {
  std::vector<PeerReport> reports(static_cast<std::size_t>(size));
  std::vector<int> results;
  std::vector<pid_t> processes;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const pid_t process = fork();
    if (process == 0) {
      // Only this rank may hold its own end, or its death would not be seen.
      for (const int other : results) close(other);
      close(ends[0]);
      std::string text = call_peer(function, rank);
      if (has_leaks()) text += " with leaks";
      write_all(ends[1], text);
      _exit(0);
    }
    close(ends[1]);
    results.push_back(ends[0]);
    processes.push_back(process);
  }
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    reports[rank].timed_out = !read_all(results[rank], reports[rank].text, until);
    if (reports[rank].timed_out) kill(processes[rank], SIGKILL);
    close(results[rank]);
    int status = 0;
    waitpid(processes[rank], &status, 0);
    if (WIFSIGNALED(status)) reports[rank].signal = WTERMSIG(status);
  }
  return reports;
}

}  // namespace internal

inline std::vector<PeerReport> run_peers(
    PeerKind kind, int size, const PeerFunction& function,
    std::chrono::seconds deadline = std::chrono::seconds(250)) {
  return kind == PeerKind::kThreads ? internal::run_threads(size, function, deadline)
                                    : internal::run_processes(size, function, deadline);
}

/// What a rank gets from run_mesh_peers().
using MeshFunction = std::function<std::string(Mesh& mesh)>;
/// Changes the options of one rank, before it joins.
using OptionsFunction = std::function<void(ring::MeshOptions& options)>;

/// "CODE: message", how tests report a Status.
inline std::string to_text(const Status& status) {
  return std::string(code_name(status.code())) + ": " + status.message();
}

/// Runs `function` on every rank of a mesh over loopback. A rank that could not join returns the
/// Status as text.
inline std::vector<PeerReport> run_mesh_peers(
    PeerKind kind, int size, const OptionsFunction& adjust, const MeshFunction& function,
    std::chrono::seconds deadline = std::chrono::seconds(250)) {
  IdExchange exchange(size);
  const PeerFunction rank_function = [&](int rank) {
    ring::MeshOptions options;
    options.rank = rank;
    options.size = size;
    options.timeout = std::chrono::milliseconds(100000);
    adjust(options);
    options.id = exchange.share(rank, [&] {
      return ring::open_rendezvous({"lo"}, options.extra_secret, options.timeout).value();
    });
    Result<std::unique_ptr<Mesh>> mesh = ring::make_mesh(options);
    if (!mesh.is_ok()) return to_text(mesh.status());
    return function(*mesh.value());
  };
  return run_peers(kind, size, rank_function, deadline);
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_PEER_GROUP_H_
