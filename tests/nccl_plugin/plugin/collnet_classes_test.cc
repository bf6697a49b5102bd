// Automatic mode in CollNet: gradients are compressed and nothing else, and all nodes agree on it
// whenever their calls come.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

const Environment kAutomatic = {{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_CACHE", "off"}};

/// What a program reduces in each step.
struct Program {
  std::vector<std::size_t> counts;
  int steps = 10;
  bool has_new_buffers = false;  // As activations have.
  int longest_pause_us = 0;      // Before a call, by chance, on each node another one.
};

struct Outcome {
  std::vector<bool> are_lossy;  // Of each step: whether any of its sums is.
  std::string hash;             // Of all results.
};

/// False: a call failed.
bool run_program(const Program& program, ProxyNode& node, int rank, int nodes, Outcome* outcome) {
  std::mt19937 draw(static_cast<unsigned>(rank));
  std::vector<std::vector<std::byte>> kept;
  for (int step = 0; step < program.steps; ++step) {
    bool is_lossy = false;
    for (std::size_t i = 0; i < program.counts.size(); ++i) {
      const std::size_t count = program.counts[i];
      const std::size_t seed = count + static_cast<std::size_t>(step);  // Of another batch.
      const std::vector<std::byte> values = gradient_of(count, seed, rank, ncclFloat32);
      if (program.has_new_buffers || kept.size() <= i) kept.push_back(values);
      std::vector<std::byte>& send = program.has_new_buffers ? kept.back() : kept[i];
      std::copy(values.begin(), values.end(), send.begin());
      if (program.longest_pause_us > 0) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(draw() % static_cast<unsigned>(program.longest_pause_us)));
      }
      std::vector<std::byte> receive(send.size());
      if (node.run({{send.data(), receive.data(), count, ncclFloat32, 2, 65536}}) != ncclSuccess) {
        return false;
      }
      is_lossy =
          is_lossy || relative_error(receive, ncclFloat32, exact_sum(count, seed, nodes)) > 1e-4;
      const std::string_view bytes(reinterpret_cast<const char*>(receive.data()), receive.size());
      outcome->hash += std::to_string(std::hash<std::string_view>()(bytes)) + " ";
    }
    outcome->are_lossy.push_back(is_lossy);
  }
  return true;
}

TEST(CollNetClasses, GradientsAreCompressedOnceTheStepIsKnown) {
  const auto reports =
      run_nodes(kLibrary, 2, {}, {{"RINGPRESS_DETERMINISTIC", "1"}, {"RINGPRESS_CODEC", "auto"}},
                [](ProxyNode& node, int rank) -> std::string {
                  Outcome outcome;
                  if (!run_program({{30000, 50000, 40000}}, node, rank, 2, &outcome))
                    return "an error";
                  std::string text;
                  for (const bool is_lossy : outcome.are_lossy) text += is_lossy ? 'c' : '-';
                  return text;
                });
  expect_reports(reports, "----cccccc");  // Two steps show it, and three more are looked at.
}

TEST(CollNetClasses, ActivationsStayExact) {
  const Program program{{50000}, 160, true};
  const auto reports =
      run_nodes(kLibrary, 2, {}, kAutomatic, [&](ProxyNode& node, int rank) -> std::string {
        Outcome outcome;
        if (!run_program(program, node, rank, 2, &outcome)) return "an error";
        return outcome.are_lossy == std::vector<bool>(160) ? "exact" : "lossy";
      });
  expect_reports(reports, "exact");
}

TEST(CollNetClasses, WhereNcclTellsNoTensorsAutomaticModeDeclinesOnAllNodes) {
  ProxyOptions options;
  options.profiler_version = 0;
  const auto connect_with = [&](const std::string& gradients) {
    NodeMeeting meeting(3);
    return run_peers(PeerKind::kProcesses, 3, [&](int rank) -> std::string {
      set_environment({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", gradients}});
      ProxyOptions own = options;
      own.rank = rank;
      ProxyNode node(open_plugin(kLibrary), own, &meeting, &NetLog::write);
      if (node.connect() == ncclSuccess) return "connected";
      return NetLog::contains("RINGPRESS_GRADIENTS=all") ? "declined" : "another cause";
    });
  };
  expect_reports(connect_with("known"), "declined");
  expect_reports(connect_with("all"), "connected");
}

// Votes go by each node's own buffers and pauses: here these differ between nodes.
TEST(CollNetClasses, NodesAgreeWhateverTheirBuffersAndPauses) {
#ifdef RINGPRESS_SANITIZED
  constexpr unsigned kPrograms = 2;
#else
  constexpr unsigned kPrograms = 8;
#endif
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    std::mt19937 draw(seed);
    Program program;
    const std::vector<std::size_t> sizes = {20000, 30000, 45000, 60000};
    for (std::size_t i = 0, tensors = 1 + draw() % 5; i < tensors; ++i) {
      program.counts.push_back(sizes[draw() % sizes.size()]);
    }
    program.steps = program.counts.size() == 1 ? 140 : 16;
    program.longest_pause_us = static_cast<int>(draw() % 4) * 400;
    const int nodes = 2 + static_cast<int>(draw() % 2);
    const bool is_mixed = draw() % 2 == 0;
    const auto reports =
        run_nodes(kLibrary, nodes, {}, kAutomatic, [&](ProxyNode& node, int rank) -> std::string {
          Program own = program;
          own.has_new_buffers = is_mixed && rank == 1;
          Outcome outcome;
          if (!run_program(own, node, rank, nodes, &outcome)) return "an error";
          return outcome.hash;
        });
    expect_reports(reports, reports[0].text);
    EXPECT_NE(reports[0].text, "an error") << seed;
  }
}

}  // namespace
}  // namespace ringpress::testing
