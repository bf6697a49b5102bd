// Nodes with CollNet, each a process driven by the stand-in for NCCL.
#ifndef TESTS_SUPPORT_COLLNET_NODES_H_
#define TESTS_SUPPORT_COLLNET_NODES_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/collnet_proxy.h"
#include "tests/support/collnet_tensors.h"
#include "tests/support/net_driver.h"
#include "tests/support/peer_group.h"

namespace ringpress::testing {

/// Where the plugin library lies.
inline constexpr const char* kLibrary = RINGPRESS_PLUGIN;

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Of the calling process: for ranks that are processes.
inline void set_environment(const Environment& environment) {
  setenv("RINGPRESS_SOCKET_IFNAME", "lo", 1);
  setenv("RINGPRESS_TIMEOUT_MS", "100000", 1);
  setenv("RINGPRESS_DEBUG", "error", 1);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
}

using NodeFunction = std::function<std::string(ProxyNode& node, int rank)>;

/// Runs `function` on each of `size` connected nodes, each a process.
inline std::vector<PeerReport> run_nodes(const char* library, int size, const ProxyOptions& options,
                                         const Environment& environment,
                                         const NodeFunction& function) {
  NodeMeeting meeting(size);
  return run_peers(
      PeerKind::kProcesses, size,
      [&](int rank) -> std::string {
        set_environment(environment);
        ProxyOptions own = options;
        own.rank = rank;
        ProxyNode node(open_plugin(library), own, &meeting, &NetLog::write);
        const ncclResult_t connected = node.connect();
        if (connected != ncclSuccess) return "connect: " + std::to_string(connected);
        return function(node, rank);
      },
      std::chrono::seconds(250));
}

inline void expect_reports(const std::vector<PeerReport>& reports, const std::string& expected) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    EXPECT_EQ(reports[rank].text, expected) << "node " << rank;
    EXPECT_EQ(reports[rank].signal, 0) << "node " << rank;
  }
}

/// All nodes have the same bytes: gathered as a hash.
inline bool is_identical(NodeMeeting* meeting, int rank, const std::vector<std::byte>& bytes) {
  std::array<char, abi::kHandleBytes> own{};
  const std::uint64_t hash =
      std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::memcpy(own.data(), &hash, sizeof hash);
  for (const auto& other : meeting->gather(rank, own.data())) {
    if (other != own) return false;
  }
  return true;
}

inline std::string number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

inline std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_NODES_H_
