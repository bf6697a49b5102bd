// However one node fails while CollNet connects, all nodes end alike. This program stands in for
// some calls to the system, through which the plugin library goes, too: a node stops at one of
// them, or a thread of it cannot be started.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

/// Of the calls of one thread, while it connects. Negative: none.
struct Fault {
  long stop_at = -1;  // The process, for longer than the other nodes wait.
  long end_at = -1;   // The process.
  long no_thread_at = -1;
};

thread_local bool is_watched = false;
thread_local Fault fault;
thread_local long socket_calls = 0;
thread_local long threads_started = 0;
std::atomic<pid_t>* stopped = nullptr;  // Shared with the process that lets it go on.

void count_socket_call() {
  if (!is_watched) return;
  const long call = socket_calls++;
  if (call == fault.end_at) _exit(0);
  if (call != fault.stop_at) return;
  stopped->store(getpid());
  kill(getpid(), SIGSTOP);
}

/// Looking in vain does not count: how often depends on who is faster.
ssize_t count_received(ssize_t bytes) {
  if (bytes > 0) count_socket_call();
  return bytes;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace ringpress::testing

#define RINGPRESS_STAND_IN extern "C" __attribute__((visibility("default")))

RINGPRESS_STAND_IN ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const original = ringpress::testing::real<decltype(sendmsg)>("sendmsg");
  ringpress::testing::count_socket_call();
  return original(socket, message, flags);
}
RINGPRESS_STAND_IN ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static auto* const original = ringpress::testing::real<decltype(recvmsg)>("recvmsg");
  return ringpress::testing::count_received(original(socket, message, flags));
}
RINGPRESS_STAND_IN ssize_t send(int socket, const void* data, size_t bytes, int flags) {
  static auto* const original = ringpress::testing::real<decltype(send)>("send");
  ringpress::testing::count_socket_call();
  return original(socket, data, bytes, flags);
}
RINGPRESS_STAND_IN ssize_t recv(int socket, void* data, size_t bytes, int flags) {
  static auto* const original = ringpress::testing::real<decltype(recv)>("recv");
  return ringpress::testing::count_received(original(socket, data, bytes, flags));
}
RINGPRESS_STAND_IN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                      void* (*start)(void*), void* argument) {
  static auto* const original =
      ringpress::testing::real<decltype(pthread_create)>("pthread_create");
  using ringpress::testing::fault;
  if (ringpress::testing::is_watched &&
      ringpress::testing::threads_started++ == fault.no_thread_at) {
    return EAGAIN;
  }
  return original(thread, attributes, start, argument);
}

namespace ringpress::testing {
namespace {

constexpr auto kStopTime = std::chrono::seconds(7);  // They wait a second and a few.

/// Listens, connects and, when all have, closes. What came of it, and the warnings if nothing.
std::string connect_node(NodeMeeting* meeting, int rank, bool is_victim, const Fault& own_fault) {
  set_environment(
      {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_SHM", "0"}, {"RINGPRESS_TIMEOUT_MS", "1000"}});
  const CollNetApi api = collnet_api_of(open_plugin(RINGPRESS_PLUGIN), 12);
  void* ctx = nullptr;
  void* listen_comm = nullptr;
  void* coll_comm = nullptr;
  Meeting::Bytes handle;
  if (api.init(&ctx, 1, &NetLog::write) != ncclSuccess) return "init";
  if (api.listen(ctx, 0, handle.data(), &listen_comm) != ncclSuccess) return "listen";
  auto handles = meeting->gather(rank, handle.data());
  std::vector<void*> pointers;
  for (auto& other : handles) pointers.push_back(other.data());
  fault = own_fault;
  is_watched = is_victim;
  const ncclResult_t connected =
      api.connect(pointers.data(), meeting->size(), rank, listen_comm, &coll_comm);
  is_watched = false;
  meeting->wait();  // Nobody closes before all have an answer.
  std::string text = connected == ncclSuccess ? "connected" : "declined:";
  for (const std::string& warning : NetLog::take_warnings()) text += " " + warning;
  if (connected == ncclSuccess) {
    api.close_listen(listen_comm);
    api.close_coll(coll_comm);
  }
  api.finalize(ctx);
  if (is_victim) {
    text +=
        "\ncalls " + std::to_string(socket_calls) + " threads " + std::to_string(threads_started);
  }
  return text;
}

struct Ends {
  std::vector<std::string> texts;  // By node.
  long socket_calls = 0;           // Of the victim.
  long threads = 0;
  bool was_stopped = false;

  std::string summary() const {
    std::string all;
    for (const std::string& text : texts) all += "\n  " + text;
    return all;
  }
  bool are_alike() const {
    const auto connected = [](const std::string& text) { return text.starts_with("connected"); };
    return std::all_of(texts.begin(), texts.end(), connected) ||
           std::none_of(texts.begin(), texts.end(), connected);
  }
};

/// Wakes the process that has stopped, when it is time.
pid_t start_waker() {
  const pid_t waker = fork();
  if (waker != 0) return waker;
  while (stopped->load() == 0) usleep(10000);
  usleep(static_cast<useconds_t>(std::chrono::microseconds(kStopTime).count()));
  kill(stopped->load(), SIGCONT);
  _exit(0);
}

Ends connect_all(int size, int victim, const Fault& own_fault) {
  stopped = static_cast<std::atomic<pid_t>*>(
      mmap(nullptr, sizeof *stopped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t waker = start_waker();
  NodeMeeting meeting(size);
  const auto reports = run_peers(PeerKind::kProcesses, size, [&](int rank) {
    return connect_node(&meeting, rank, rank == victim, own_fault);
  });
  kill(waker, SIGKILL);
  waitpid(waker, nullptr, 0);
  Ends ends;
  ends.was_stopped = stopped->load() != 0;
  munmap(stopped, sizeof *stopped);
  for (const PeerReport& report : reports) ends.texts.push_back(report.text);
  const std::string& counted = ends.texts[static_cast<std::size_t>(victim)];
  std::sscanf(counted.c_str() + std::min(counted.find('\n'), counted.size()),
              "\ncalls %ld threads %ld", &ends.socket_calls, &ends.threads);
  return ends;
}

struct Case {
  int size;
  int victim;
};
class CollNetConnect : public ::testing::TestWithParam<Case> {};

TEST_P(CollNetConnect, AThreadThatCannotBeStartedDeclinesEverywhere) {
  const auto [size, victim] = GetParam();
  const Ends all_is_well = connect_all(size, victim, {});
  for (const std::string& text : all_is_well.texts) EXPECT_TRUE(text.starts_with("connected"));
  ASSERT_GE(all_is_well.threads, 2);
  for (long thread = 0; thread < all_is_well.threads; ++thread) {
    Fault own_fault;
    own_fault.no_thread_at = thread;
    const Ends ends = connect_all(size, victim, own_fault);
    for (const std::string& text : ends.texts) {
      EXPECT_TRUE(text.starts_with("declined")) << "thread " << thread << ends.summary();
    }
  }
}

// At each of the last calls: those of the votes. The nodes are idle most of the time, so that all
// of this goes on at once.
TEST_P(CollNetConnect, ANodeThatStopsDuringTheVotesEndsAsTheOthers) {
  const auto [size, victim] = GetParam();
  const long calls = connect_all(size, victim, {}).socket_calls;
  constexpr long kPoints = 24;
  ASSERT_GT(calls, kPoints);
  const auto reports = run_peers(PeerKind::kProcesses, kPoints, [&](int point) -> std::string {
    Fault own_fault;
    own_fault.stop_at = calls - kPoints + point;
    const Ends ends = connect_all(size, victim, own_fault);
    if (!ends.are_alike()) return ends.summary();
    return ends.was_stopped ? "alike" : "not stopped";
  });
  long stops = 0;
  for (std::size_t point = 0; point < reports.size(); ++point) {
    const std::string& text = reports[point].text;
    if (text == "alike") ++stops;
    EXPECT_TRUE(text == "alike" || text == "not stopped")
        << "call " << calls - kPoints + static_cast<long>(point) << ": " << text;
  }
  EXPECT_GE(stops, kPoints / 2);  // How many calls there are varies a little.
}

/// How the victim ends.
struct End {
  bool comes = false;  // It connects, and ends at a call while it does.
  Fault fault;
  const char* shared_memory = "1";
};

/// Listens, and connects if it is not a victim that ends before. What came of it, with the warnings
/// and, of a victim that is still there, its socket calls.
std::string connect_survivor(NodeMeeting* meeting, int rank, int victim, const End& end) {
  set_environment({{"RINGPRESS_CODEC", "q4"},
                   {"RINGPRESS_TIMEOUT_MS", "50000"},
                   {"RINGPRESS_SHM", end.shared_memory}});
  const CollNetApi api = collnet_api_of(open_plugin(RINGPRESS_PLUGIN), 12);
  void* listen_comm = nullptr;
  void* coll_comm = nullptr;
  Meeting::Bytes handle;
  void* ctx = nullptr;
  if (api.init(&ctx, 1, &NetLog::write) != ncclSuccess) return "init";
  if (api.listen(ctx, 0, handle.data(), &listen_comm) != ncclSuccess) return "listen";
  auto handles = meeting->gather(rank, handle.data());
  if (rank == victim && !end.comes) _exit(0);
  std::vector<void*> pointers;
  for (auto& other : handles) pointers.push_back(other.data());
  fault = end.fault;
  is_watched = rank == victim;
  const ncclResult_t connected =
      api.connect(pointers.data(), meeting->size(), rank, listen_comm, &coll_comm);
  is_watched = false;
  if (connected == ncclSuccess) return "connected " + std::to_string(socket_calls);
  std::string text = "declined:";
  for (const std::string& warning : NetLog::take_warnings()) text += " " + warning;
  api.finalize(ctx);
  return text;
}

// Nobody waits for it as long as for one that may still come.
TEST_P(CollNetConnect, ANodeThatEndsBeforeItComesIsNotWaitedFor) {
  const auto [size, victim] = GetParam();
  NodeMeeting meeting(size);
  const auto reports = run_peers(PeerKind::kProcesses, size, [&, victim = victim](int rank) {
    return connect_survivor(&meeting, rank, victim, {});
  });
  const std::string cause =
      victim == 0 ? "the rendezvous at"
                  : "rank " + std::to_string(victim) + " ended, or gave up, before it came";
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const std::string& text = reports[static_cast<std::size_t>(rank)].text;
    EXPECT_TRUE(text.starts_with("declined:")) << text;
    EXPECT_NE(text.find(cause), std::string::npos) << text;
    EXPECT_EQ(text.find("timeout"), std::string::npos) << text;
  }
}

/// Of a victim that does not end.
long socket_calls_of(int size, int victim, const char* shared_memory) {
  NodeMeeting meeting(size);
  const auto reports = run_peers(PeerKind::kProcesses, size, [&](int rank) {
    return connect_survivor(&meeting, rank, victim, {true, {}, shared_memory});
  });
  long calls = 0;
  std::sscanf(reports[static_cast<std::size_t>(victim)].text.c_str(), "connected %ld", &calls);
  return calls;
}

// At each of the last calls. Nobody waits for it until the time-out.
TEST_P(CollNetConnect, ANodeThatEndsWhileItConnectsIsNotWaitedFor) {
  const auto [size, victim] = GetParam();
  constexpr long kPoints = 40;
  for (const char* const shared_memory : {"0", "1"}) {
    const long calls = socket_calls_of(size, victim, shared_memory);
    ASSERT_GT(calls, 0);
    const auto reports =
        run_peers(PeerKind::kProcesses, kPoints, [&, size = size, victim = victim](int point) {
          NodeMeeting meeting(size);
          End end{true, {}, shared_memory};
          end.fault.end_at = calls - kPoints + point;
          std::string late;
          for (const auto& report : run_peers(PeerKind::kProcesses, size, [&](int rank) {
                 return connect_survivor(&meeting, rank, victim, end);
               })) {
            if (report.text.find("timeout") != std::string::npos) late += report.text + "\n";
          }
          return late;
        });
    for (std::size_t point = 0; point < reports.size(); ++point) {
      EXPECT_EQ(reports[point].text, "") << "call " << point << " of the last, " << shared_memory;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, CollNetConnect,
                         ::testing::Values(Case{2, 0}, Case{2, 1}, Case{3, 1}),
                         [](const auto& instance) {
                           return "Node" + std::to_string(instance.param.victim) + "Of" +
                                  std::to_string(instance.param.size);
                         });

}  // namespace
}  // namespace ringpress::testing
