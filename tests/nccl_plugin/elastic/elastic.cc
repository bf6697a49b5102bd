// Ranks die, and the others go on: a job whose processes are killed at any moment, again and again.
//
//   elastic [--rounds N] [--ranks N] [--seed N] [--json FILE]
//
// A coordinator starts a process a rank. In each round all ranks make calls without end, until a
// rank is killed; the others find that out by their calls, revoke the communicator or not, shrink
// it, and may then take in a new process by ncclCommGrow. It knows nothing but NCCL's API: it runs
// on host memory, and on NCCL with the library preloaded. Prints how long the ranks took from their
// first error to the next sum, and what they held of the system's at the beginning and at the end.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl_plugin/elastic/messages.h"

namespace ringpress::testing {
namespace {

using std::chrono::milliseconds;

constexpr int kFewest = 2, kSettled = 20;  // Ranks; rounds after which nothing may grow any more.
constexpr int kPatienceMs = 120000;

struct Options {
  int rounds = 8;
  int ranks = 4;
  unsigned seed = 1;
  std::string json;
};

struct Process {
  pid_t pid = -1;
  int channel = -1;
  Held at_first;  // What it held when it had settled.
  int rounds = 0;
};

struct Totals {
  std::vector<double> recoveries, growths;  // Milliseconds.
  int killed_first = 0;                     // Rank 0.
  int revoked = 0;
  long grown_kilobytes = 0;  // Of any process, at most.
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "elastic: %s\n", text.c_str());
  std::fflush(nullptr);
  _exit(1);
}

Report hear(const Process& process) {
  pollfd waited{process.channel, POLLIN, 0};
  Report report;
  if (poll(&waited, 1, kPatienceMs) != 1)
    fail("a rank hangs: process " + std::to_string(process.pid));
  if (recv(process.channel, &report, sizeof report, 0) != sizeof report) {
    fail("a rank died that nobody killed: process " + std::to_string(process.pid));
  }
  if (!report.is_ok)
    fail(std::string("process ") + std::to_string(process.pid) + ": " + report.text);
  return report;
}

void tell(const Process& process, const Order& order) {
  if (send(process.channel, &order, sizeof order, MSG_NOSIGNAL) != sizeof order) {
    fail("cannot tell process " + std::to_string(process.pid));
  }
}

class Job {
 public:
  explicit Job(const Options& options) : options_(options), engine_(options.seed) {}

  void begin() {
    for (int rank = 0; rank < options_.ranks; ++rank) members_.push_back(start());
    Order order{Order::Kind::kMakeId};
    tell(members_[0], order);
    order = {Order::Kind::kJoin};
    order.id = hear(members_[0]).id;
    order.size = options_.ranks;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      order.rank = rank;
      tell(members_[static_cast<std::size_t>(rank)], order);
    }
    hear_all();
  }

  void play(int round) {
    tell_all({Order::Kind::kRun});
    std::this_thread::sleep_for(std::chrono::microseconds(below(40000)));
    const int victim = choose_victim(round);
    if (victim == 0) ++totals_.killed_first;
    end(victim);
    Order order{Order::Kind::kShrink};
    order.rank = victim;
    order.revokes = below(2) == 0;
    if (order.revokes) ++totals_.revoked;
    tell_all(order);
    for (const Report& report : hear_all()) totals_.recoveries.push_back(report.milliseconds);
    const int size = static_cast<int>(members_.size());
    if (size <= kFewest || (size < options_.ranks && below(3) > 0)) grow();
    note_held();
  }

  void finish() {
    tell_all({Order::Kind::kLeave});
    for (Process& process : members_) {
      int status = 0;
      if (waitpid(process.pid, &status, 0) != process.pid || status != 0) {
        fail("a rank ended with status " + std::to_string(status));
      }
      close(process.channel);
    }
  }

  const Totals& totals() const { return totals_; }

 private:
  int below(int limit) { return static_cast<int>(engine_() % static_cast<unsigned>(limit)); }

  /// One process lives through three quarters of the rounds, so that it shows what is lost in time.
  int choose_victim(int round) {
    const int size = static_cast<int>(members_.size());
    const bool spares = round < options_.rounds * 3 / 4;
    int victim = below(size);
    while (spares && members_[static_cast<std::size_t>(victim)].pid == spared_)
      victim = below(size);
    return victim;
  }

  Process start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("no socket pair");
    const std::string channel = std::to_string(ends[1]);
    const pid_t child = fork();
    if (child < 0) fail("no process");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // A rank that waits would outlive a test that failed.
      fcntl(ends[1], F_SETFD, 0);
      execl("/proc/self/exe", "elastic", "--worker", channel.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    ++started_;
    if (started_ == 2) spared_ = child;
    Process process;
    process.pid = child;
    process.channel = ends[0];
    return process;
  }

  void end(int victim) {
    Process& process = members_[static_cast<std::size_t>(victim)];
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    close(process.channel);
    members_.erase(members_.begin() + victim);
  }

  void tell_all(const Order& order) {
    for (const Process& process : members_) tell(process, order);
  }

  std::vector<Report> hear_all() {
    std::vector<Report> reports;
    for (const Process& process : members_) reports.push_back(hear(process));
    for (const Report& report : reports) {
      if (report.hash != reports[0].hash) fail("ranks have different sums");
    }
    last_ = reports;
    return reports;
  }

  void grow() {
    const int maker = below(static_cast<int>(members_.size()));
    tell(members_[static_cast<std::size_t>(maker)], {Order::Kind::kMakeGrowId});
    Order order{Order::Kind::kGrow};
    order.id = hear(members_[static_cast<std::size_t>(maker)]).id;
    order.size = static_cast<int>(members_.size()) + 1;
    order.rank = -1;
    order.keeps_id = below(2) == 0;
    tell_all(order);
    order.rank = order.size - 1;
    members_.push_back(start());
    tell(members_.back(), order);
    const std::vector<Report> reports = hear_all();
    // The new one counts from when it began.
    totals_.growths.push_back(reports.back().milliseconds);
  }

  /// Processes that have lived long hold no more than they did.
  void note_held() {
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      Process& process = members_[rank];
      const Held& held = last_[rank].held;
      if (++process.rounds == kSettled) process.at_first = held;
      if (process.rounds < kSettled) continue;
      const auto is_more = [](int now, int before, int allowed) { return now > before + allowed; };
      // Connections come and go with the number of ranks.
      const int ranks = 4 * options_.ranks;
      if (is_more(held.descriptors, process.at_first.descriptors, 2 * ranks))
        fail("descriptors leak");
      if (is_more(held.threads, process.at_first.threads, 4)) fail("threads leak");
      totals_.grown_kilobytes =
          std::max(totals_.grown_kilobytes, held.kilobytes - process.at_first.kilobytes);
    }
  }

  const Options options_;
  std::mt19937 engine_;
  std::vector<Process> members_;  // By rank.
  std::vector<Report> last_;
  pid_t spared_ = -1;
  int started_ = 0;
  Totals totals_;
};

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::string summary(const Options& options, const Totals& totals) {
  char text[1024];
  std::snprintf(
      text, sizeof text,
      "{\"rounds\": %d, \"ranks\": %d, \"seed\": %u, \"rank_0_killed\": %d, \"revoked\": %d,\n"
      " \"recovery_ms\": {\"median\": %.0f, \"most\": %.0f},\n"
      " \"growths\": %zu, \"growth_ms\": {\"median\": %.0f, \"most\": %.0f},\n"
      " \"grown_kilobytes\": %ld}\n",
      options.rounds, options.ranks, options.seed, totals.killed_first, totals.revoked,
      quantile(totals.recoveries, 0.5), quantile(totals.recoveries, 1), totals.growths.size(),
      quantile(totals.growths, 0.5), quantile(totals.growths, 1), totals.grown_kilobytes);
  return text;
}

int coordinate(const Options& options) {
  Job job(options);
  job.begin();
  for (int round = 0; round < options.rounds; ++round) job.play(round);
  job.finish();
  const std::string text = summary(options, job.totals());
  std::fputs(text.c_str(), stdout);
  if (!options.json.empty()) std::ofstream(options.json) << text;
  return 0;
}

}  // namespace
}  // namespace ringpress::testing

int main(int argc, char** argv) {
  using namespace ringpress::testing;
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--worker") return work(std::atoi(argv[i + 1]));
    if (name == "--rounds") options.rounds = std::atoi(argv[i + 1]);
    if (name == "--ranks") options.ranks = std::atoi(argv[i + 1]);
    if (name == "--seed") options.seed = static_cast<unsigned>(std::atoi(argv[i + 1]));
    if (name == "--json") options.json = argv[i + 1];
  }
  return coordinate(options);
}
