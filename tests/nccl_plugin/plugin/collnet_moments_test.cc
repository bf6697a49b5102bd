// NCCL tells its profiler of operations at moments that differ between ranks, while others are
// under way. What is decided of a piece must not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

// COLLNET_TEST_MOMENTS=1000 makes it long.
int rounds() {
  const char* const wanted = std::getenv("COLLNET_TEST_MOMENTS");
  return wanted != nullptr ? std::atoi(wanted) : 12;
}

/// Tensors of one communicator, the same in every round.
struct MemberTensors {
  std::size_t member = 0;
  int size = 2;  // Of the nodes, which are the first ones.
  std::vector<std::size_t> counts;
  std::vector<std::vector<std::byte>> send;
  std::vector<std::vector<std::byte>> receive;

  MemberTensors(std::size_t member_, int size_, int rank, std::vector<std::size_t> counts_)
      : member(member_), size(size_), counts(std::move(counts_)) {
    for (const std::size_t count : counts) {
      send.push_back(gradient_of(count, count, rank, ncclFloat32));
      receive.emplace_back(send.back().size());
    }
  }
  ProxyOperation operation(std::size_t t) {
    ProxyOperation made{send[t].data(), receive[t].data(), counts[t], ncclFloat32, 2, 16384};
    made.member = member;
    return made;
  }
  /// Compressed, and near enough.
  std::string problem() const {
    for (std::size_t t = 0; t < counts.size(); ++t) {
      const double error =
          relative_error(receive[t], ncclFloat32, exact_sum(counts[t], counts[t], size));
      if (!(error < 0.7) || error < 0.001) return "error " + number(error);
    }
    return "";
  }
};

struct FamilyMeetings {
  explicit FamilyMeetings(int size) : a(size), b(size), smaller(size - 1) {}
  NodeMeeting a;
  NodeMeeting b;
  NodeMeeting smaller;
};

ProxyOptions options_of(int rank, std::uint64_t comm_id) {
  ProxyOptions options;
  options.rank = rank;
  options.comm_id = comm_id;
  options.seed = comm_id * 1000 + static_cast<std::uint64_t>(rank) + 1;
  options.initial_byte = 0xff;
  options.slot_bytes = 32768;
  return options;
}

/// The communicator `a`, one that shares its resources, and, but on the last node, two of fewer
/// nodes and one that shares the resources of the first of those.
std::string run_family(void* library, int rank, int size, FamilyMeetings* meetings) {
  ProxyNode node(library, options_of(rank, 1), &meetings->a, &NetLog::write);
  if (node.connect() != ncclSuccess) return "connect";
  std::vector<MemberTensors> tensors;
  tensors.push_back({0, size, rank, {40000, 20001}});
  tensors.push_back({node.split_sharing(2), size, rank, {40000, 30000}});
  if (size > 2 && rank < size - 1) {
    const std::size_t first = node.split_apart(3, &meetings->smaller, rank);
    const std::size_t second = node.split_apart(4, &meetings->smaller, rank);
    tensors.push_back({first, size - 1, rank, {40000, 25000}});
    tensors.push_back({second, size - 1, rank, {40000, 35000}});
    tensors.push_back({node.split_sharing(5, first), size - 1, rank, {40000, 28000}});
  }
  std::vector<ProxyOperation> operations;  // In an order that is the same on all ranks.
  for (const std::size_t t : {0UL, 1UL}) {
    for (MemberTensors& of_member : tensors) operations.push_back(of_member.operation(t));
  }
  for (int round = 0; round < rounds(); ++round) {
    if (node.run(operations) != ncclSuccess) {
      return "an error in round " + std::to_string(round);
    }
    for (const MemberTensors& of_member : tensors) {
      const std::string problem = of_member.problem();
      if (!problem.empty()) return problem + " in round " + std::to_string(round);
    }
    if (!is_identical(&meetings->a, rank, tensors[0].receive[0])) return "nodes differ";
  }
  return "ok";
}

std::string run_other(void* library, int rank, int size, FamilyMeetings* meetings) {
  ProxyNode node(library, options_of(rank, 9), &meetings->b, &NetLog::write);
  if (node.connect() != ncclSuccess) return "connect";
  MemberTensors tensors{0, size, rank, {40000, 17000}};
  for (int round = 0; round < rounds(); ++round) {
    if (node.run({tensors.operation(0), tensors.operation(1)}) != ncclSuccess)
      return "an error in round " + std::to_string(round);
    const std::string problem = tensors.problem();
    if (!problem.empty()) return "other: " + problem;
  }
  return "ok";
}

class CollNetMoments : public ::testing::TestWithParam<int> {};

TEST_P(CollNetMoments, ChangeNothing) {
  const int size = GetParam();
  const std::string statistics =
      ::testing::TempDir() + "collnet_moments_" + std::to_string(size) + ".json";
  unlink(statistics.c_str());
  FamilyMeetings meetings(size);
  const auto reports = run_peers(
      PeerKind::kProcesses, size,
      [&](int rank) -> std::string {
        set_environment({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}});
        void* const library = open_plugin(kLibrary);
        std::string other;
        std::thread thread([&] { other = run_other(library, rank, size, &meetings); });
        const std::string family = run_family(library, rank, size, &meetings);
        thread.join();
        return family == "ok" ? other : family;
      },
      std::chrono::seconds(250));
  expect_reports(reports, "ok");
  // All of it with error feedback.
  std::istringstream lines(read_file(statistics));
  int communicators = 0;
  for (std::string line; std::getline(lines, line); ++communicators) {
    EXPECT_NE(line.find("\"unbiased_calls\": 0,"), std::string::npos) << line;
    EXPECT_NE(line.find("\"exact_calls\": {},"), std::string::npos) << line;
    EXPECT_EQ(line.find("\"residual_bytes\": 0,"), std::string::npos) << line;
  }
  EXPECT_EQ(communicators, 2 * size + (size > 2 ? 2 * (size - 1) : 0));
}

INSTANTIATE_TEST_SUITE_P(Sizes, CollNetMoments, ::testing::Values(2, 3, 4),
                         [](const auto& instance) {
                           return std::to_string(instance.param) + "nodes";
                         });

}  // namespace
}  // namespace ringpress::testing
