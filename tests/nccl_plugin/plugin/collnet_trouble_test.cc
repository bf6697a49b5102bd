// What all nodes hear when one of them cannot take part: the cause, where it is, and at once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

using Handles = std::vector<void*>;

/// A node's part, told apart from the others'.
struct Part {
  Environment environment;
  std::function<void()> before_connect = [] {};
  std::function<void(Handles*)> change_handles = [](Handles*) {};
};

constexpr int kNodes = 3;
constexpr int kNeeded = 8 * kNodes + 3;  // Open files.

/// Two calls, one a worker, and through every connection. True if the sums are right.
bool sums_are_right(const CollNetApi& api, void* coll_comm) {
  constexpr std::size_t kCount = 60000;
  std::vector<float> values(2 * kCount, 1.0F), sums(2 * kCount);
  void* none[2] = {nullptr, nullptr};
  std::array<void*, 2> requests{};
  for (std::size_t call = 0; call < 2; ++call) {
    const std::size_t first = call * kCount;
    if (api.iallreduce(coll_comm, &values[first], &sums[first], kCount, ncclFloat32, none,
                       &requests[call]) != ncclSuccess) {
      return false;
    }
  }
  for (void* const request : requests) {
    int done = 0;
    while (done == 0) {
      if (api.test(request, &done, nullptr) != ncclSuccess) return false;
    }
  }
  return sums == std::vector<float>(sums.size(), static_cast<float>(kNodes));
}

/// "connected", "wrong sums", or "declined:" and the warnings.
std::string connect_node(NodeMeeting* meeting, int rank, const Part& part) {
  set_environment({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_TIMEOUT_MS", "50000"}});
  set_environment(part.environment);
  const CollNetApi api = collnet_api_of(open_plugin(RINGPRESS_PLUGIN), 12);
  void* ctx = nullptr;
  void* listen_comm = nullptr;
  void* coll_comm = nullptr;
  Meeting::Bytes handle;
  if (api.init(&ctx, 1, &NetLog::write) != ncclSuccess) return "init";
  if (api.listen(ctx, 0, handle.data(), &listen_comm) != ncclSuccess) return "listen";
  auto handles = meeting->gather(rank, handle.data());
  Handles pointers;
  for (auto& other : handles) pointers.push_back(other.data());
  part.change_handles(&pointers);
  part.before_connect();
  const bool is_connected =
      api.connect(pointers.data(), meeting->size(), rank, listen_comm, &coll_comm) == ncclSuccess;
  std::string text = "declined:";
  if (is_connected) text = sums_are_right(api, coll_comm) ? "connected" : "wrong sums";
  meeting->wait();
  for (const std::string& warning : NetLog::take_warnings()) text += " " + warning;
  if (is_connected) {
    api.close_listen(listen_comm);
    api.close_coll(coll_comm);
  }
  api.finalize(ctx);
  return text;
}

/// By node.
std::vector<std::string> connect_all(const std::function<Part(int rank)>& part_of) {
  NodeMeeting meeting(kNodes);
  std::vector<std::string> texts;
  for (const auto& report : run_peers(PeerKind::kProcesses, kNodes, [&](int rank) {
         return connect_node(&meeting, rank, part_of(rank));
       })) {
    texts.push_back(report.text);
  }
  return texts;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// All have declined, and none because it has waited for long.
void expect_declined_at_once(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    EXPECT_TRUE(text.starts_with("declined:")) << text;
    EXPECT_FALSE(has(text, "timeout")) << text;
  }
}

/// This process can open so many files more.
void leave_open_files(int more) {
  int last = 1000;
  while (fcntl(last, F_GETFD) < 0) --last;
  while (dup(0) < last) continue;  // No number is free below.
  const auto most = static_cast<rlim_t>(last + 2 + more);
  const rlimit limit{most, most};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Part with_open_files(int more, const std::string& shared_memory) {
  Part part;
  part.environment = {{"RINGPRESS_SHM", shared_memory}};
  part.before_connect = [more] { leave_open_files(more); };
  return part;
}

TEST(CollNetTrouble, TooFewOpenFilesAreNamed) {
  for (const int victim : {0, 1}) {
    for (const int more : {0, 3, 5, kNeeded - 1}) {
      const auto texts = connect_all(
          [&](int rank) { return rank == victim ? with_open_files(more, "1") : Part{}; });
      SCOPED_TRACE(std::to_string(more) + " left on node " + std::to_string(victim));
      expect_declined_at_once(texts);
      const std::string& own = texts[static_cast<std::size_t>(victim)];
      EXPECT_TRUE(has(own, "needs 27 open files, and this process has ")) << own;
      EXPECT_TRUE(has(own, " at most (ulimit -n), ")) << own;
      for (int rank = 0; victim != 0 && rank < kNodes; ++rank) {
        if (rank == victim) continue;
        EXPECT_TRUE(has(texts[static_cast<std::size_t>(rank)], "rank 1 ended, or gave up"));
      }
    }
  }
}

TEST(CollNetTrouble, ThatManyOpenFilesSuffice) {
  for (const int victim : {0, 1}) {
    for (const char* const shared_memory : {"0", "1"}) {
      const auto texts = connect_all([&](int rank) {
        return with_open_files(rank == victim ? kNeeded : 1000, shared_memory);
      });
      for (const std::string& text : texts) EXPECT_EQ(text, "connected") << victim << shared_memory;
    }
  }
}

TEST(CollNetTrouble, MoreSocketsNeedMoreOpenFiles) {
  constexpr int kWithFive = kNeeded + 4 * 3 * (kNodes - 1);  // 5 sockets, 3 more than by default.
  for (const int left : {kWithFive, kWithFive - 1}) {
    const auto texts = connect_all([&](int) {
      Part part = with_open_files(left, "0");
      part.environment.push_back({"RINGPRESS_SOCKETS", "5"});
      return part;
    });
    for (const std::string& text : texts) {
      const bool is_right =
          left == kWithFive ? text == "connected" : has(text, "needs 51 open files");
      EXPECT_TRUE(is_right) << left << " left: " << text;
    }
  }
}

TEST(CollNetTrouble, AnotherSecretIsNamedOnAllNodes) {
  for (int odd = 0; odd < kNodes; ++odd) {
    const auto texts = connect_all([&](int rank) {
      Part part;
      part.environment = {{"RINGPRESS_SECRET", rank == odd ? "" : "a secret"}};
      return part;
    });
    expect_declined_at_once(texts);
    for (int rank = 0; rank < kNodes; ++rank) {
      const std::string& text = texts[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(has(text, "RINGPRESS_SECRET")) << "node " << rank << " of odd " << odd << text;
      EXPECT_FALSE(has(text, "a secret")) << text;
      // Who was let in hears who was not, and where that came from.
      const bool is_with_root = (rank == odd) == (odd == 0);
      EXPECT_EQ(has(text, "127.0.0.1:") && has(text, " came with another secret"), is_with_root)
          << "node " << rank << " of odd " << odd << text;
    }
  }
}

Part with_swapped_handles(std::size_t one, std::size_t other) {
  Part part;
  part.change_handles = [=](Handles* handles) { std::swap((*handles)[one], (*handles)[other]); };
  return part;
}

TEST(CollNetTrouble, HandlesInAnotherOrderAreRefused) {
  const std::string order = "handles in another order than that of the ranks: its own stands at ";
  for (const auto& [one, other] : {std::pair(0, 1), {0, 2}, {1, 2}}) {
    const auto texts = connect_all([one = one, other = other](int) {
      return with_swapped_handles(static_cast<std::size_t>(one), static_cast<std::size_t>(other));
    });
    SCOPED_TRACE(std::to_string(one) + " and " + std::to_string(other));
    expect_declined_at_once(texts);
    EXPECT_TRUE(has(texts[static_cast<std::size_t>(one)], order + "place " + std::to_string(other)))
        << texts[static_cast<std::size_t>(one)];
    EXPECT_TRUE(has(texts[static_cast<std::size_t>(other)], order + "place " + std::to_string(one)))
        << texts[static_cast<std::size_t>(other)];
  }
  // Only one node was given them so.
  const auto texts =
      connect_all([](int rank) { return rank == 1 ? with_swapped_handles(1, 2) : Part{}; });
  expect_declined_at_once(texts);
  EXPECT_TRUE(has(texts[1], order + "place 2")) << texts[1];
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(has(texts[static_cast<std::size_t>(rank)], "rank 1 ended, or gave up"));
  }
}

}  // namespace
}  // namespace ringpress::testing
