// RINGPRESS_EF_MAX_BYTES is of a CollNet communicator, whose two workers keep residuals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

/// Twelve steps of four tensors of 160 KB, each of which both workers have pieces of.
std::string run_steps(ProxyNode& node, int rank) {
  std::vector<std::vector<std::byte>> sent, received;
  for (std::size_t i = 0; i < 4; ++i) {
    sent.push_back(gradient_of(40000 + i, 40000 + i, rank, ncclFloat32));
    received.emplace_back(sent.back().size());
  }
  for (int step = 0; step < 12; ++step) {
    std::vector<ProxyOperation> operations;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      operations.push_back({sent[i].data(), received[i].data(), 40000 + i, ncclFloat32, 2, 16384});
    }
    if (node.run(operations) != ncclSuccess) return "an error";
  }
  return "ok";
}

TEST(CollNetLimit, IsThatOfBothWorkersTogether) {
  constexpr std::size_t kLimit = 400000;
  const std::string statistics = ::testing::TempDir() + "collnet_limit.json";
  unlink(statistics.c_str());
  const auto reports = run_nodes(kLibrary, 2, {},
                                 {{"RINGPRESS_CODEC", "q2"},
                                  {"RINGPRESS_EF_MAX_BYTES", std::to_string(kLimit)},
                                  {"RINGPRESS_STATS", statistics}},
                                 run_steps);
  expect_reports(reports, "ok");
  const std::string lines = read_file(statistics);
  const std::string name = "\"residual_bytes\": ";
  const std::size_t at = lines.find(name);
  ASSERT_NE(at, std::string::npos) << lines;
  const std::size_t held = std::stoul(lines.substr(at + name.size()));
  EXPECT_LE(held, kLimit) << lines;
  EXPECT_GT(held, kLimit * 6 / 10) << lines;
}

}  // namespace
}  // namespace ringpress::testing
