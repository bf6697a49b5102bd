// What nodes leave in the file of RINGPRESS_STATS that exit and close nothing, as programs do that
// never call ncclCommDestroy().
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/collnet_nodes.h"

namespace {
// A process that closes nothing leaves what its threads had.
bool closes_nothing = false;
}  // namespace

/// LeakSanitizer asks it at the end of a process.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
int __lsan_is_turned_off() {
  return closes_nothing ? 1 : 0;
}

namespace ringpress::testing {
namespace {

constexpr std::size_t kExitCounts[] = {70001, 16000};

enum class NodeEnding { kClosed, kLeft, kLeftUnderWay, kForked };

/// Ends the process.
[[noreturn]] void run_exiting_node(NodeMeeting* meeting, int rank, NodeEnding ending) {
  ProxyOptions options;
  options.rank = rank;
  static ProxyNode* node;  // For LeakSanitizer.
  node = new ProxyNode(open_plugin(kLibrary), options, meeting, &NetLog::write);
  if (node->connect() != ncclSuccess) _exit(2);
  std::vector<std::vector<std::byte>> sent, sums;
  std::vector<ProxyOperation> operations;
  for (const std::size_t count : kExitCounts) {
    sent.push_back(gradient_of(count, count, rank, ncclFloat32));
    sums.emplace_back(sent.back().size());
    operations.push_back({sent.back().data(), sums.back().data(), count, ncclFloat32, 2, 65536});
  }
  for (int step = 0; step < 3; ++step) {
    if (node->run(operations) != ncclSuccess) _exit(3);
  }
  meeting->wait();
  closes_nothing = ending != NodeEnding::kClosed;
  switch (ending) {
    case NodeEnding::kClosed:
      delete node;
      break;
    case NodeEnding::kLeft:
      break;
    case NodeEnding::kLeftUnderWay:
      node->run(operations, 1);
      break;
    case NodeEnding::kForked: {
      const pid_t child = fork();
      if (child == 0) std::exit(0);
      int status = 1;
      if (waitpid(child, &status, 0) != child || status != 0) _exit(4);
      break;
    }
  }
  std::exit(0);
}

/// The lines of two nodes, without what differs from run to run, sorted.
std::vector<std::string> lines_of(NodeEnding ending) {
  const std::string statistics =
      ::testing::TempDir() + "collnet_exit_" + std::to_string(getpid()) + ".json";
  unlink(statistics.c_str());
  NodeMeeting meeting(2);
  std::fflush(nullptr);
  std::vector<pid_t> nodes;
  for (int rank = 0; rank < 2; ++rank) {
    nodes.push_back(fork());
    if (nodes.back() != 0) continue;
    set_environment({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}});
    run_exiting_node(&meeting, rank, ending);
  }
  for (const pid_t node : nodes) {
    int status = 1;
    EXPECT_EQ(waitpid(node, &status, 0), node);
    EXPECT_EQ(status, 0);
  }
  std::istringstream text(read_file(statistics));
  unlink(statistics.c_str());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(std::regex_replace(line, std::regex("\"(pid|nanoseconds)\": [0-9]+, "), ""));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(CollNetExit, LeavesWhatClosingDoes) {
  const std::vector<std::string> closed = lines_of(NodeEnding::kClosed);
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_NE(closed[0].find("{\"rank\": 0, \"ranks\": 2, \"calls\": "), std::string::npos);
  EXPECT_EQ(closed[0].find("\"calls\": 0,"), std::string::npos) << closed[0];
  EXPECT_EQ(lines_of(NodeEnding::kLeft), closed);
  EXPECT_EQ(lines_of(NodeEnding::kForked), closed) << "the child is not the node";
}

TEST(CollNetExit, WithCallsUnderWayLeavesALineOfEachNode) {
  const std::vector<std::string> lines = lines_of(NodeEnding::kLeftUnderWay);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) EXPECT_EQ(line.back(), '}') << line;
  EXPECT_EQ(lines[0].rfind("{\"rank\": 0, ", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1].rfind("{\"rank\": 1, ", 0), 0u) << lines[1];
}

}  // namespace
}  // namespace ringpress::testing
