// Nodes with CollNet, each a process driven by the stand-in for NCCL, and tensors to sum on them.
#ifndef TESTS_SUPPORT_COLLNET_NODES_H_
#define TESTS_SUPPORT_COLLNET_NODES_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/collnet_proxy.h"
#include "tests/support/net_driver.h"
#include "tests/support/numbers.h"
#include "tests/support/peer_group.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {

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

inline DType dtype_of(ncclDataType_t type) {
  return type == ncclFloat32   ? DType::kFloat32
         : type == ncclFloat16 ? DType::kFloat16
                               : DType::kBfloat16;
}

/// Halves: exact in every type.
inline std::vector<float> node_gradient(std::size_t count, std::uint64_t seed, int rank) {
  auto values = random_gradient(count, seed, rank);
  for (float& value : values) value = std::round(value * 2) / 2;
  return values;
}

/// A gradient of one node in any type.
inline std::vector<std::byte> gradient_of(std::size_t count, std::uint64_t seed, int rank,
                                          ncclDataType_t type) {
  const auto values = node_gradient(count, seed, rank);
  const std::size_t width = dtype_size(dtype_of(type));
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    write_number(bytes.data() + i * width, dtype_of(type), values[i]);
  }
  return bytes;
}

inline std::vector<double> exact_sum(std::size_t count, std::uint64_t seed, int size) {
  std::vector<double> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const auto values = node_gradient(count, seed, rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

/// l2 norm of the error over that of the sum; infinite for a non-finite value.
inline double relative_error(const std::vector<std::byte>& result, ncclDataType_t type,
                             const std::vector<double>& exact) {
  const std::size_t width = dtype_size(dtype_of(type));
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double value = read_number(result.data() + i * width, dtype_of(type));
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    error += std::pow(value - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(norm > 0 ? error / norm : error);
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
