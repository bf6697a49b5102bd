#include "perf/all_reduce/launch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/device_memory.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGraceAfterFailure{10};
constexpr int kTimeoutStatus = 124;

/// The names under which a launcher tells a process its place.
struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;
  const char* job;
};

constexpr LauncherVariables kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
     "SLURM_JOB_ID"},
};

int number_of(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) throw terminal::Error(fmt::format("{} is not set", name));
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < 0 || number > 1 << 20) {
    throw terminal::Error(fmt::format("{}={} is not a number of ranks", name, text));
  }
  return static_cast<int>(number);
}

/// FNV-1a, with its bits mixed once more: names of jobs differ little.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  }
  return (hash ^ (hash >> 32)) * 0x9E3779B97F4A7C15ULL;
}

/// Ports that all ranks of a job compute alike, outside the range of which the system takes the
/// ports of outgoing connections: there one may be taken at any moment, also by a rank that tries
/// to reach it before rank 0 listens, and then has connected to itself.
std::vector<int> ports_of_job(std::uint64_t job) {
  constexpr std::uint64_t kFirstPort = 20000;
  constexpr std::uint64_t kPorts = 12000;
  constexpr std::size_t kChoices = 8;
  std::vector<int> ports;
  for (; ports.size() < kChoices; job = hash_of(std::to_string(job))) {
    ports.push_back(static_cast<int>(kFirstPort + job % kPorts));
  }
  return ports;
}

std::string text_of(const Environment& environment, const char* name) {
  const char* const text = environment(name);
  return text == nullptr ? "" : text;
}

void set_root_address(const Environment& environment, const LauncherVariables& names,
                      RankIdentity& identity) {
  const std::string job = text_of(environment, names.job);
  if (environment("MASTER_ADDR") != nullptr) {
    const int port = number_of(environment, "MASTER_PORT");
    identity.root_address = environment("MASTER_ADDR");
    identity.job = hash_of(job + "," + std::to_string(port) + "," +
                           text_of(environment, "TORCHELASTIC_RESTART_COUNT"));
    identity.root_ports = {port};
    // torchrun's own store already listens on that port.
    if (environment("TORCHELASTIC_RUN_ID") != nullptr) {
      identity.root_ports = ports_of_job(identity.job);
    }
    return;
  }
  const char* local_ranks = environment(names.local_ranks);
  if (job.empty() || local_ranks == nullptr || std::atoi(local_ranks) != identity.ranks) return;
  identity.root_address = "127.0.0.1";
  identity.job = hash_of(job);
  identity.root_ports = ports_of_job(identity.job);
}

/// A rank that this process started.
struct Child {
  pid_t process = -1;
  bool running = false;
};

/// Gives each rank a core of its own where there are enough, as mpirun does: two ranks that share
/// one take turns in each exchange. Not for ranks whose library works in threads of its own. Left
/// as it is where the kernel refuses.
void bind_to_core(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  int cores_before = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || cores_before++ < rank) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

[[noreturn]] void become_rank(int rank, int id_descriptor, int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<std::string> words(argv, argv + argc);
  words.push_back(fmt::format("--local-rank={}", rank));
  words.push_back(fmt::format("--id-descriptor={}", id_descriptor));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  fmt::print(stderr, "all_reduce_perf: cannot start rank {}: {}\n", rank, std::strerror(errno));
  _exit(127);
}

void kill_running(const std::vector<Child>& children, int signal_number) {
  for (const Child& child : children) {
    if (child.running) kill(child.process, signal_number);
  }
}

/// Says why a rank failed, if it cannot have said so itself, and returns its exit status.
int status_of(int rank, int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  const int number = WTERMSIG(wait_status);
  fmt::print(stderr, "all_reduce_perf: rank {} was ended by signal {} ({})\n", rank, number,
             strsignal(number));
  return 128 + number;
}

/// Waits for children until all are gone, one fails for long enough, or time is up.
class Supervisor {
 public:
  Supervisor(std::vector<Child> children, const sigset_t& signals, std::chrono::seconds timeout)
      : children_(std::move(children)), signals_(signals), deadline_(Clock::now() + timeout) {}

  int run() {
    while (reap()) {
      const int caught = wait_for_signal();
      if (caught == SIGINT || caught == SIGTERM) fail(128 + caught);
      if (Clock::now() >= deadline_) {
        if (status_ == 0) {
          fmt::print(stderr, "all_reduce_perf: time is up (-T), ending all ranks\n");
          status_ = kTimeoutStatus;
        }
        ended_by_us_ = true;
        kill_running(children_, SIGKILL);
      }
    }
    return status_;
  }

 private:
  void fail(int status) {
    if (status_ == 0) {
      status_ = status;
      deadline_ = std::min(deadline_, Clock::now() + kGraceAfterFailure);
    }
    if (status > 128 && status != 128 + SIGKILL) kill_running(children_, SIGTERM);
  }

  /// Collects the children that have ended. Returns whether any is left.
  bool reap() {
    bool any_left = false;
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = children_[rank];
      int wait_status = 0;
      if (child.running && waitpid(child.process, &wait_status, WNOHANG) == child.process) {
        child.running = false;
        const bool expected_end = ended_by_us_ && WIFSIGNALED(wait_status);
        const int status = expected_end ? status_ : status_of(static_cast<int>(rank), wait_status);
        if (status != 0 && status_ == 0) fail(status);
      }
      any_left = any_left || child.running;
    }
    return any_left;
  }

  int wait_for_signal() const {
    const timespec half_second = {0, 500000000};
    return sigtimedwait(&signals_, nullptr, &half_second);
  }

  std::vector<Child> children_;
  sigset_t signals_;
  Clock::time_point deadline_;
  int status_ = 0;
  bool ended_by_us_ = false;
};

}  // namespace

RankIdentity rank_from_environment(const Environment& environment) {
  for (const LauncherVariables& names : kLaunchers) {
    if (environment(names.rank) == nullptr || environment(names.ranks) == nullptr) continue;
    RankIdentity identity;
    identity.launcher = names.launcher;
    identity.rank = number_of(environment, names.rank);
    identity.ranks = number_of(environment, names.ranks);
    if (environment(names.local_rank) != nullptr) {
      identity.local_rank = number_of(environment, names.local_rank);
    }
    if (identity.rank >= identity.ranks) {
      throw terminal::Error(fmt::format("{}={} is not below {}={}", names.rank, identity.rank,
                                        names.ranks, identity.ranks));
    }
    set_root_address(environment, names, identity);
    return identity;
  }
  RankIdentity alone;
  alone.launcher = "alone";
  return alone;
}

void tell_launcher(const Environment& environment, const std::string& message) {
  const std::string path = text_of(environment, "TORCHELASTIC_ERROR_FILE");
  if (path.empty()) return;
  const nlohmann::json report = {{"message", message}, {"timestamp", std::time(nullptr)}};
  // Whatever cannot be written is on standard error all the same.
  std::ofstream(path) << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankIdentity identity_of(const LaunchOptions& options) {
  if (options.local_rank < 0) {
    return rank_from_environment([](const char* name) { return std::getenv(name); });
  }
  RankIdentity identity;
  identity.rank = identity.local_rank = options.local_rank;
  identity.ranks = options.local_ranks;
  identity.launcher = "--ranks";
  return identity;
}

int run_local_ranks(const LaunchOptions& options, int argc, char** argv) {
  require_device();
  int id_pipe[2];
  if (pipe(id_pipe) != 0) throw terminal::Error(fmt::format("pipe: {}", std::strerror(errno)));
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  std::vector<Child> children(static_cast<std::size_t>(options.local_ranks));
  for (int rank = 0; rank < options.local_ranks; ++rank) {
    const pid_t process = fork();
    if (process < 0) {
      kill_running(children, SIGKILL);
      throw terminal::Error(fmt::format("fork: {}", std::strerror(errno)));
    }
    if (process == 0) {
      // Rank 0 writes the id and the others read it, so that one that dies is seen as end of file.
      const int mine = rank == 0 ? 1 : 0;
      close(id_pipe[1 - mine]);
      if (!device_is_asynchronous()) bind_to_core(rank, options.local_ranks);
      become_rank(rank, id_pipe[mine], argc, argv);
    }
    children[static_cast<std::size_t>(rank)] = {process, true};
  }
  close(id_pipe[0]);
  close(id_pipe[1]);
  Supervisor supervisor(std::move(children), signals,
                        std::chrono::seconds(options.timeout_seconds));
  return supervisor.run();
}

}  // namespace ringpress::perf
