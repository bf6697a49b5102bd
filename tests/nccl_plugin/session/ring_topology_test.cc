// RINGPRESS_TOPOLOGY: rings that follow a map of hosts, and maps that cannot be followed.
#include "nccl_plugin/session/ring_topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "ringpress/internal/communicator.h"

namespace ringpress {
namespace {

using nccl_plugin::read_ring_topology;
using nccl_plugin::ring_order_of;

class RingTopology : public ::testing::Test {
 protected:
  RingTopology() {
    std::array<char, 64> name = {"/tmp/ringpress-topology-XXXXXX"};
    folder_ = mkdtemp(name.data());
  }
  ~RingTopology() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  static Settings settings_with(const std::string& topology) {
    return parse_settings({{"RINGPRESS_TOPOLOGY", topology},
                           {"RINGPRESS_ALGO", "ring"},
                           {"RINGPRESS_TIMEOUT_MS", "100000"}},
                          nullptr);
  }

  /// Runs `body` on all ranks of a communicator whose ranks have these topologies.
  static std::vector<Status> run(const std::vector<std::string>& topologies,
                                 const std::function<Status(Communicator*)>& body) {
    const auto id = make_unique_id(settings_with(""));
    RINGPRESS_EXPECTS(id.is_ok(), id.status().message());
    std::vector<Status> outcomes(topologies.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < topologies.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto made = Communicator::create(id.value(), static_cast<int>(rank),
                                         static_cast<int>(topologies.size()),
                                         settings_with(topologies[rank]));
        outcomes[rank] = made.is_ok() ? body(made.value().get()) : made.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  std::string folder_;
};

/// Sums whose order shows in their bits, of four ranks.
constexpr std::array<float, 4> kValues = {1e8F, 3, -1e8F, 5};

/// A shard's sum: in the order of the ring, beginning after its owner.
float sum_of(const std::vector<int>& order, std::size_t place_of_owner) {
  float sum = 0;
  for (std::size_t step = 1; step <= order.size(); ++step) {
    sum += kValues[static_cast<std::size_t>(order[(place_of_owner + step) % order.size()])];
  }
  return sum;
}

TEST_F(RingTopology, SumsAreTakenInTheOrderOfTheRing) {
  const std::string path = file("ranks", "rank 0=a\nrank 1=b\nrank 2=a\nrank 3=b\n");
  constexpr std::size_t kShard = 65536;
  for (const auto& [topology, order] :
       {std::pair(std::string(), std::vector<int>{0, 1, 2, 3}), {path, {0, 2, 1, 3}}}) {
    std::vector<std::vector<float>> results(4);
    const auto outcomes =
        run(std::vector<std::string>(4, topology), [&](Communicator* communicator) {
          const auto rank = static_cast<std::size_t>(communicator->rank());
          std::vector<float>& values = results[rank];
          values.assign(4 * kShard, kValues[rank]);
          return communicator->all_reduce(values.data(), values.data(), values.size(),
                                          DType::kFloat32, {});
        });
    for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.message();
    for (std::size_t place = 0; place < 4; ++place) {
      const auto owner = static_cast<std::size_t>(order[place]);
      EXPECT_EQ(results[0][owner * kShard], sum_of(order, place)) << topology << owner;
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
}

TEST_F(RingTopology, MapsThatDifferAreRefusedWithBothNamed) {
  const std::string one = file("one", "a r0\nb r0\n"), other = file("other", "a r0\nb r1\n");
  const auto outcomes = run({one, other}, [](Communicator*) { return Status::ok(); });
  const std::string expected = "RINGPRESS_TOPOLOGY: rank 0 has " +
                               read_ring_topology(settings_with(one)).agreed + ", rank 1 has " +
                               read_ring_topology(settings_with(other)).agreed;
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::kMismatch);
    EXPECT_NE(outcome.message().find(expected), std::string::npos) << outcome.message();
  }
}

TEST_F(RingTopology, OneRankWithoutAMapIsNamed) {
  const std::string path = file("map", "a r0\n");
  for (const Status& outcome : run({path, ""}, [](Communicator*) { return Status::ok(); })) {
    EXPECT_EQ(outcome.code(), Code::kMismatch);
    EXPECT_NE(outcome.message().find("rank 1 has hosts"), std::string::npos);
  }
}

TEST_F(RingTopology, HostsThatAreNotInTheMapAreRefusedOnAllRanks) {
  const std::string path = file("map", "elsewhere r0\n");
  for (const Status& outcome : run({path, path}, [](Communicator*) { return Status::ok(); })) {
    EXPECT_EQ(outcome.code(), Code::kInvalidArgument);
    EXPECT_EQ(outcome.message(), "RINGPRESS_TOPOLOGY=" + path + ": rank 0 is on host \"" +
                                     nccl_plugin::read_ring_topology({}).own_host +
                                     "\", which is not named");
  }
}

TEST_F(RingTopology, MistakesOfTheFileAreRefusedOnAllRanks) {
  const std::string path = file("map", "a r0\na r1\n");
  for (const Status& outcome : run({path, path}, [](Communicator*) { return Status::ok(); })) {
    EXPECT_EQ(outcome.message(), "RINGPRESS_TOPOLOGY=" + path + ":2: \"a\" is there twice");
  }
  for (const std::string& missing : {folder_ + "/none", folder_}) {
    const auto topology = read_ring_topology(settings_with(missing));
    EXPECT_NE(topology.problem.message().find("RINGPRESS_TOPOLOGY=" + missing + ": "),
              std::string::npos);
    EXPECT_EQ(topology.agreed, topology.problem.message());
  }
}

TEST_F(RingTopology, HostsAloneNeedNoFile) {
  const auto order = ring_order_of(read_ring_topology(settings_with("hosts")), {"a", "b", "a"});
  ASSERT_TRUE(order.is_ok());
  EXPECT_EQ(order.value(), (std::vector<int>{0, 2, 1}));
}

TEST_F(RingTopology, RanksOfAnotherCommunicatorGoByNumber) {
  const std::string path = file("ranks", "rank 0=a\nrank 1=b\nrank 2=a\n");
  const auto order = ring_order_of(read_ring_topology(settings_with(path)), {"x", "y"});
  ASSERT_TRUE(order.is_ok());
  EXPECT_TRUE(order.value().empty());
}

}  // namespace
}  // namespace ringpress
