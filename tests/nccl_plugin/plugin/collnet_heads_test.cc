// CollNet where nodes have several heads, each with a network device and a CollNet communicator of
// its own, and where communicators share one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "tests/support/collnet_nodes.h"
#include "tests/support/numbers.h"

namespace ringpress::testing {
namespace {

/// A node whose heads are threads of one process, as with ncclCommInitAll.
struct Node {
  int rank = 0;
  std::vector<std::unique_ptr<ProxyNode>> heads;

  /// On all heads at once. The first error, or success.
  ncclResult_t run(const std::vector<ProxyOperation>& operations) {
    std::vector<ncclResult_t> results(heads.size());
    std::vector<std::thread> threads;
    for (std::size_t head = 0; head < heads.size(); ++head) {
      threads.emplace_back([&, head] { results[head] = heads[head]->run(operations); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const ncclResult_t result : results) {
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  }
};

struct Job {
  int nodes = 2;
  std::size_t heads = 2;
  bool is_direct = false;
  int collnet_version = 12;
  int profiler_version = 6;

  std::string name() const {
    return std::to_string(nodes) + "nodes" + std::to_string(heads) + "heads" +
           (is_direct ? "Direct" : "Chain");
  }
};

using Meetings = std::vector<std::unique_ptr<NodeMeeting>>;

/// A meeting for each head, and one for the nodes.
Meetings meetings_of(const Job& job) {
  Meetings meetings;
  for (std::size_t head = 0; head <= job.heads; ++head) {
    meetings.push_back(std::make_unique<NodeMeeting>(job.nodes));
  }
  return meetings;
}

std::unique_ptr<ProxyNode> connected_head(const Job& job, const Meetings& meetings, int rank,
                                          std::size_t head) {
  ProxyOptions options;
  options.collnet_version = job.collnet_version;
  options.profiler_version = job.profiler_version;
  options.rank = rank;
  options.ranks_of_node = 2 * job.heads;
  options.heads = job.heads;
  options.head = head;
  options.channels = 20;
  auto node = std::make_unique<ProxyNode>(open_plugin(kLibrary), options, meetings[head].get(),
                                          &NetLog::write);
  if (node->connect() != ncclSuccess) throw std::runtime_error("connect");
  return node;
}

using HeadsFunction = std::function<std::string(Node& node, NodeMeeting* nodes)>;

std::vector<PeerReport> run_heads(const Job& job, const Environment& environment,
                                  const HeadsFunction& function) {
  const Meetings meetings = meetings_of(job);
  return run_peers(
      PeerKind::kProcesses, job.nodes,
      [&](int rank) -> std::string {
        set_environment(environment);
        Node node;
        node.rank = rank;
        for (std::size_t head = 0; head < job.heads; ++head) {
          node.heads.push_back(connected_head(job, meetings, rank, head));
        }
        return function(node, meetings.back().get());
      },
      std::chrono::seconds(250));
}

/// An operation on a tensor that `node` has of its own.
struct Tensor {
  std::size_t count;
  std::vector<std::byte> send;
  std::vector<std::byte> receive;

  Tensor(std::size_t count_, int rank)
      : count(count_), send(gradient_of(count, count, rank, ncclFloat32)), receive(send.size()) {}
  ProxyOperation operation(const Job& job, std::size_t channels, std::size_t chunk_bytes) {
    ProxyOperation made{send.data(), receive.data(), count, ncclFloat32, channels, chunk_bytes};
    made.is_direct = job.is_direct;
    return made;
  }
  double error(int nodes) const {
    return relative_error(receive, ncclFloat32, exact_sum(count, count, nodes));
  }
};

/// The mean of a tensor's sums.
class Mean {
 public:
  explicit Mean(const Tensor& tensor) : total_(tensor.count) {}

  void add(const Tensor& tensor) {
    for (std::size_t i = 0; i < total_.size(); ++i) {
      total_[i] += read_number(tensor.receive.data() + i * 4, DType::kFloat32);
    }
    ++sums_;
  }
  double error(const Tensor& tensor, int nodes) const {
    Tensor mean = tensor;
    for (std::size_t i = 0; i < total_.size(); ++i) {
      write_number(mean.receive.data() + i * 4, DType::kFloat32,
                   static_cast<float>(total_[i] / sums_));
    }
    return mean.error(nodes);
  }

 private:
  std::vector<double> total_;
  int sums_ = 0;
};

class CollNetHeads : public ::testing::TestWithParam<Job> {};

// Before each tensor comes a longer one of infinities, which stays in the slots if nobody clears
// them.
TEST_P(CollNetHeads, SumAlikeAndCompressWhateverLiesBehindATensor) {
  const Job job = GetParam();
  const auto reports =
      run_heads(job, {{"RINGPRESS_CODEC", "q4"}}, [&](Node& node, NodeMeeting* nodes) {
        std::vector<float> infinite(1000000, std::numeric_limits<float>::infinity());
        std::vector<float> result(infinite.size());
        for (const std::size_t channels : {1UL, 3UL, 20UL}) {
          for (const std::size_t count : {5UL, 16385UL, 300001UL}) {
            ProxyOperation overflow{infinite.data(), result.data(), infinite.size(),
                                    ncclFloat32,     channels,      32768};
            overflow.is_direct = job.is_direct;
            if (node.run({overflow}) != ncclSuccess) return std::string("an error");
            if (std::count_if(result.begin(), result.end(),
                              [](float value) { return std::isfinite(value); }) != 0) {
              return std::string("infinity was lost");
            }
            Tensor tensor(count, node.rank);
            if (node.run({tensor.operation(job, channels, 32768)}) != ncclSuccess) {
              return std::string("an error");
            }
            const double error = tensor.error(job.nodes);
            if (!(error < 0.7)) return number(error) + " of " + std::to_string(count);
            if (count > 100000 && error < 0.01) return std::string("not compressed");
            if (!is_identical(nodes, node.rank, tensor.receive)) return std::string("nodes differ");
          }
        }
        return std::string("ok");
      });
  expect_reports(reports, "ok");
}

TEST_P(CollNetHeads, ErrorFeedbackFindsItsTensorInTheShares) {
  const Job job = GetParam();
  const std::string statistics = ::testing::TempDir() + "collnet_heads_" + job.name() + ".json";
  unlink(statistics.c_str());
  const auto reports =
      run_heads(job, {{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_STATS", statistics}},
                [&](Node& node, NodeMeeting*) {
                  std::vector<Tensor> tensors{{300000, node.rank}, {123457, node.rank}};
                  std::vector<double> once;
                  std::vector<Mean> mean(tensors.begin(), tensors.end());
                  for (int call = 0; call < 40; ++call) {
                    std::vector<ProxyOperation> operations;
                    for (Tensor& tensor : tensors)
                      operations.push_back(tensor.operation(job, 5, 16384));
                    if (node.run(operations) != ncclSuccess) return std::string("an error");
                    for (std::size_t t = 0; t < tensors.size(); ++t) {
                      if (call == 0) once.push_back(tensors[t].error(job.nodes));
                      mean[t].add(tensors[t]);
                    }
                  }
                  for (std::size_t t = 0; t < tensors.size(); ++t) {
                    const double often = mean[t].error(tensors[t], job.nodes);
                    if (!(often < once[t] / 5)) return number(once[t]) + " to " + number(often);
                  }
                  return std::string("ok");
                });
  expect_reports(reports, "ok");
  const std::string lines = read_file(statistics);
  EXPECT_EQ(lines.find("\"residual_bytes\": 0,"), std::string::npos) << lines;
  std::size_t without_unbiased = 0;
  for (std::size_t at = 0; (at = lines.find("\"unbiased_calls\": 0,", at)) != std::string::npos;
       ++at) {
    ++without_unbiased;
  }
  EXPECT_EQ(without_unbiased, job.heads * static_cast<std::size_t>(job.nodes)) << lines;
}

#ifdef RINGPRESS_SANITIZED
const std::vector<Job> kJobs = {{2, 2, true, 12, 6}};  // All is ten times slower.
#else
const std::vector<Job> kJobs = {{2, 2, false, 12, 6}, {2, 2, true, 12, 6},  {2, 4, false, 11, 5},
                                {2, 4, true, 11, 5},  {4, 2, false, 10, 4}, {4, 2, true, 10, 4}};
#endif

INSTANTIATE_TEST_SUITE_P(Layouts, CollNetHeads, ::testing::ValuesIn(kJobs),
                         [](const auto& instance) { return instance.param.name(); });

// One GPU a process: each head sees its own share alone.
TEST(CollNetHeadsAlone, SumTheirSharesInProcessesOfTheirOwn) {
  for (const bool is_direct : {false, true}) {
    const Job job{2, 2, is_direct, 12, 6};
    const Meetings meetings = meetings_of(job);
    const auto reports = run_peers(PeerKind::kProcesses, 4, [&](int process) -> std::string {
      set_environment({{"RINGPRESS_CODEC", "q4"}});
      const int rank = process / 2;
      const auto head = static_cast<std::size_t>(process % 2);
      const auto node = connected_head(job, meetings, rank, head);
      for (const std::size_t count : {16385UL, 70001UL}) {
        Tensor tensor(count, rank);
        std::memset(tensor.receive.data(), 0xff, tensor.receive.size());  // NaN: not of the share.
        if (node->run({tensor.operation(job, 4, 16384)}) != ncclSuccess) return "an error";
        const auto exact = exact_sum(count, count, job.nodes);
        std::vector<double> share;
        std::vector<std::byte> shared;
        for (std::size_t i = 0; i < count; ++i) {
          const auto* const value = tensor.receive.data() + i * 4;
          if (std::isnan(read_number(value, DType::kFloat32))) continue;
          share.push_back(exact[i]);
          shared.insert(shared.end(), value, value + 4);
        }
        if (share.size() < count / 4 || share.size() > count - count / 4) return "no share";
        const double error = relative_error(shared, ncclFloat32, share);
        if (!(error < 0.7) || error < 0.01) return number(error);
        if (!is_identical(meetings[head].get(), rank, tensor.receive)) return "nodes differ";
      }
      return "ok";
    });
    expect_reports(reports, "ok");
  }
}

// Of a replayed graph it is not certain whose turn it is.
TEST(CollNetHeadsAlone, AReplayedGraphIsUnbiasedWithoutResidual) {
  const std::string statistics = ::testing::TempDir() + "collnet_heads_replay.json";
  unlink(statistics.c_str());
  const Job job;
  const auto reports = run_heads(job, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}},
                                 [&](Node& node, NodeMeeting*) {
                                   Tensor tensor(100000, node.rank);
                                   auto operation = tensor.operation(job, 2, 65536);
                                   operation.is_replayed = true;
                                   for (int replay = 0; replay < 5; ++replay) {
                                     if (node.run({operation}) != ncclSuccess)
                                       return std::string("an error");
                                   }
                                   return std::string("ok");
                                 });
  expect_reports(reports, "ok");
  // Four pieces a head; the first replay is not known for one.
  const std::string lines = read_file(statistics);
  EXPECT_NE(lines.find("\"unbiased_calls\": 16,"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("\"unbiased_calls\": 0,"), std::string::npos) << lines;
}

// Elements of the n-th piece are others if a tensor is cut anew: so is their residual.
TEST(CollNetHeadsAlone, ATensorThatIsCutAnewHasAnotherResidual) {
  const std::string statistics = ::testing::TempDir() + "collnet_heads_layout.json";
  unlink(statistics.c_str());
  constexpr std::size_t kCount = 1 << 18;  // In whole pieces, whichever of the two.
  const Job job;
  const auto reports =
      run_heads(job, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}},
                [&](Node& node, NodeMeeting*) {
                  Tensor tensor(kCount, node.rank);
                  for (int call = 0; call < 20; ++call) {
                    const std::size_t chunk = call % 2 == 0 ? 32768 : 65536;
                    if (node.run({tensor.operation(job, 4, chunk)}) != ncclSuccess) {
                      return std::string("an error");
                    }
                  }
                  return std::string("ok");
                });
  expect_reports(reports, "ok");
  // Two heads share the tensor.
  const std::string lines = read_file(statistics);
  EXPECT_NE(lines.find("\"residual_bytes\": " + std::to_string(2 * kCount / 2 * 4) + ","),
            std::string::npos)
      << lines;
}

// Communicators that were split off with shared resources use their parent's: each keeps its own
// residuals, in whatever order their calls come.
TEST(CollNetShared, ACommunicatorSplitOffKeepsResidualsOfItsOwn) {
  const std::string statistics = ::testing::TempDir() + "collnet_shared.json";
  unlink(statistics.c_str());
  // In pieces of one size: only the turn tells them apart.
  constexpr std::size_t kCount = 60000;
  constexpr std::size_t kCountOfChild = 75000;
  ProxyOptions options;
  options.initial_byte = 0xff;
  const auto reports =
      run_nodes(kLibrary, 2, options, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}},
                [](ProxyNode& node, int rank) -> std::string {
                  const std::size_t child = node.split_sharing(77);
                  const Job job;
                  Tensor tensor_of_parent(kCount, rank);
                  Tensor tensor_of_child(kCountOfChild, rank);
                  Mean of_parents(tensor_of_parent);
                  Mean of_children(tensor_of_child);
                  for (int step = 0; step < 40; ++step) {
                    const auto of_parent = tensor_of_parent.operation(job, 2, 16384);
                    auto of_child = tensor_of_child.operation(job, 2, 16384);
                    of_child.member = child;
                    const auto result = node.run({of_child, of_parent, of_child});
                    if (result != ncclSuccess) return "an error";
                    of_parents.add(tensor_of_parent);
                    of_children.add(tensor_of_child);
                  }
                  // One sum alone has an error of a third.
                  const double error_of_parent = of_parents.error(tensor_of_parent, 2);
                  const double error_of_child = of_children.error(tensor_of_child, 2);
                  if (!(error_of_parent < 0.1)) return "parent: " + number(error_of_parent);
                  if (!(error_of_child < 0.1)) return "child: " + number(error_of_child);
                  return "ok";
                });
  expect_reports(reports, "ok");
  const std::string lines = read_file(statistics);
  EXPECT_NE(lines.find("\"unbiased_calls\": 0,"), std::string::npos) << lines;
  // The sequence has three places.
  EXPECT_NE(
      lines.find("\"residual_bytes\": " + std::to_string((kCount + 2 * kCountOfChild) * 4) + ","),
      std::string::npos)
      << lines;
}

}  // namespace
}  // namespace ringpress::testing
