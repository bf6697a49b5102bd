// A node that exits while one of its threads has a lock, as a handler of a signal does that calls
// exit(): it ends. This program stands in for the C library's unlocking, through which the plugin
// library goes, too.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

/// How often the plugin's threads unlock a mutex until one of them exits in place of it; negative:
/// none does.
std::atomic<long> unlocks_before_exit{-1};

void count_unlock() {
  if (unlocks_before_exit.load() < 0) return;
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (std::string_view(name) != "rp-collnet") return;
  if (unlocks_before_exit.fetch_sub(1) == 0) std::exit(0);
}

}  // namespace
}  // namespace ringpress::testing

extern "C" __attribute__((visibility("default"))) int pthread_mutex_unlock(
    pthread_mutex_t* mutex) noexcept {
  using Unlock = int(pthread_mutex_t*) noexcept;
  static auto* const original = reinterpret_cast<Unlock*>(dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
  ringpress::testing::count_unlock();
  return original(mutex);
}

namespace ringpress::testing {
namespace {

constexpr int kNothingLeft = 7;  // Exit status.
constexpr unsigned kHangs = 60;  // Seconds after which a node that has not ended never will.

/// Ends the process: at that unlocking of a step, or with kNothingLeft.
[[noreturn]] void run_node(NodeMeeting* meeting, int rank, long unlocks) {
  alarm(kHangs);
  ProxyOptions options;
  options.rank = rank;
  auto* const node = new ProxyNode(open_plugin(kLibrary), options, meeting, &NetLog::write);
  if (node->connect() != ncclSuccess) _exit(2);
  constexpr std::size_t kCount = 40000;
  const std::vector<std::byte> sent = gradient_of(kCount, 1, rank, ncclFloat32);
  std::vector<std::byte> sum(sent.size());
  meeting->wait();
  if (rank == 0) unlocks_before_exit.store(unlocks);
  node->run({{sent.data(), sum.data(), kCount, ncclFloat32, 2, 131072}});
  unlocks_before_exit.store(-1);
  _exit(kNothingLeft);
}

/// That of node 0; less than 0: a signal ended it.
int exit_status_with(long unlocks) {
  NodeMeeting meeting(2);
  std::fflush(nullptr);
  std::vector<pid_t> nodes;
  for (int rank = 0; rank < 2; ++rank) {
    nodes.push_back(fork());
    if (nodes.back() != 0) continue;
    set_environment({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", "/dev/null"}});
    run_node(&meeting, rank, unlocks);
  }
  int status = 0;
  EXPECT_EQ(waitpid(nodes[0], &status, 0), nodes[0]);
  kill(nodes[1], SIGKILL);  // It may be waiting for the other.
  EXPECT_EQ(waitpid(nodes[1], nullptr, 0), nodes[1]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(CollNetExit, WithALockHeldItEnds) {
  long exits = 0;
  for (int status = 0; status == 0; ++exits) {
    status = exit_status_with(exits);
    ASSERT_TRUE(status == 0 || status == kNothingLeft) << status << " at unlocking " << exits;
  }
  EXPECT_GT(exits, 2) << "no locks were seen";
}

}  // namespace
}  // namespace ringpress::testing
