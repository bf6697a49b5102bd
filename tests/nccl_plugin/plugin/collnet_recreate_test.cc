// Communicators made, used and destroyed over and over in one process per node: nothing of one may
// stay. COLLNET_TEST_COMMUNICATORS=1000 makes it long.
#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <fstream>

#include "tests/support/collnet_nodes.h"
#include "tests/support/net_pairs.h"

namespace ringpress::testing {
namespace {

using Net = NetDriver<abi::NetV12>;

constexpr std::size_t kCount = 65536;  // Elements of a sum.
constexpr long kMostGrowthKib = 4096;  // Of memory, after the first tenth of the communicators.

/// What this process holds.
struct Held {
  long descriptors = 0;
  long threads = 0;
  long memory_kib = 0;

  bool exceeds(const Held& base) const {
    return descriptors > base.descriptors || threads > base.threads;
  }
  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(threads) + " threads, " +
           std::to_string(memory_kib) + " KiB resident";
  }
};

long entries_of(const char* folder) {
  return static_cast<long>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

Held held() {
  long pages = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  // The folder that is being listed is a descriptor, too.
  return {entries_of("/proc/self/fd") - 1, entries_of("/proc/self/task"),
          resident * sysconf(_SC_PAGESIZE) / 1024};
}

void ignore_log(abi::LogLevel, unsigned long, const char*, int, const char*, ...) {}

/// A message to the next node and one from the node before.
std::string use_network(Net* net, NodeMeeting* meeting, int rank) {
  Net::Handle handle{};
  void* listen_comm = nullptr;
  if (net->listen(0, handle.data(), &listen_comm) != ncclSuccess) return "listen";
  auto handles = meeting->gather(rank, handle.data());
  auto& next = handles[static_cast<std::size_t>((rank + 1) % meeting->size())];
  NetPair pair;
  const bool met = poll_until([&] {
    if (pair.send == nullptr) net->connect(0, next.data(), &pair.send);
    if (pair.receive == nullptr) net->accept(listen_comm, &pair.receive);
    return pair.send != nullptr && pair.receive != nullptr;
  });
  if (!met) return "connect";
  std::vector<char> sent = random_message(50000, 1);
  std::vector<char> received(sent.size());
  void* send_request = nullptr;
  void* receive_request = nullptr;
  const bool began = poll_until([&] {
    if (send_request == nullptr) net->isend(pair.send, sent.data(), sent.size(), &send_request);
    if (receive_request == nullptr) {
      net->irecv(pair.receive, received.data(), received.size(), &receive_request);
    }
    return send_request != nullptr && receive_request != nullptr;
  });
  if (!began) return "isend";
  finish(*net, receive_request);
  finish(*net, send_request);
  close_pair(*net, pair);
  net->table().close_listen(listen_comm);
  return sent == received ? "ok" : "another message";
}

std::string use_collnet(void* library, NodeMeeting* meeting, int rank) {
  ProxyOptions options;
  options.rank = rank;
  options.slot_bytes = 65536;
  options.sleeps = true;
  ProxyNode node(library, options, meeting, &ignore_log);
  if (node.connect() != ncclSuccess) return "connect";
  const auto send = gradient_of(kCount, 1, rank, ncclFloat32);
  std::vector<std::byte> receive(send.size());
  const ProxyOperation operation{send.data(), receive.data(), kCount, ncclFloat32, 2, 32768};
  if (node.run({operation, operation}) != ncclSuccess) return "run";
  const double error = relative_error(receive, ncclFloat32, exact_sum(kCount, 1, meeting->size()));
  return error < 0.7 ? "ok" : "a wrong sum";
}

std::string make_and_destroy(void* library, NodeMeeting* meeting, int rank) {
  Net net(library);
  if (net.init() != ncclSuccess) return "init";
  const std::string carried = use_network(&net, meeting, rank);
  if (carried != "ok") return "network: " + carried;
  const std::string summed = use_collnet(library, meeting, rank);
  if (summed != "ok") return "CollNet: " + summed;
  return net.finalize() == ncclSuccess ? "ok" : "finalize";
}

class CollNetRecreate : public ::testing::TestWithParam<int> {};

TEST_P(CollNetRecreate, KeepsNothing) {
  const char* const wanted = std::getenv("COLLNET_TEST_COMMUNICATORS");
  const int communicators = wanted != nullptr ? std::atoi(wanted) : 20;
  const int nodes = GetParam();
  NodeMeeting meeting(nodes);
  const auto reports = run_peers(
      PeerKind::kProcesses, nodes,
      [&](int rank) -> std::string {
        set_environment({{"RINGPRESS_CODEC", "q4"}});
        void* const library = open_plugin(RINGPRESS_PLUGIN);
        Held base;
        Held settled;
        std::string story;
        for (int made = 1; made <= communicators; ++made) {
          const std::string used = make_and_destroy(library, &meeting, rank);
          if (used != "ok") return used + ", communicator " + std::to_string(made);
          if (made == 1) base = held();
          // What a closed communicator still does in its own threads ends by itself.
          Held now;
          const bool is_free = poll_until([&] {
            now = held();
            return !now.exceeds(base);
          });
          if (!is_free) return "after " + std::to_string(made) + ": " + now.text();
          if (made == std::max(communicators / 10, 1)) settled = now;
          if (made % std::max(communicators / 10, 1) == 0) {
            story += "node " + std::to_string(rank) + " of " + std::to_string(nodes) + ", after " +
                     std::to_string(made) + ": " + now.text() + "\n";
          }
#ifndef RINGPRESS_SANITIZED  // Those keep what is freed for a while.
          if (settled.memory_kib > 0 && now.memory_kib > settled.memory_kib + kMostGrowthKib) {
            return "memory grows: " + story;
          }
#endif
        }
        if (wanted != nullptr) std::fputs(story.c_str(), stdout);
        std::fflush(stdout);
        return "ok";
      },
      std::chrono::seconds(3600));
  expect_reports(reports, "ok");
}

#ifdef RINGPRESS_SANITIZED
INSTANTIATE_TEST_SUITE_P(Nodes, CollNetRecreate, ::testing::Values(2));  // All is slower.
#else
INSTANTIATE_TEST_SUITE_P(Nodes, CollNetRecreate, ::testing::Values(2, 4));
#endif

}  // namespace
}  // namespace ringpress::testing
