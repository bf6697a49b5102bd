// A ring that has an order of its own sends along it.
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <utility>

#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

using Pairs = std::set<std::pair<int, int>>;  // From one rank to another.

/// Notes who is sent to.
class NotingMesh : public ThreadMesh {
 public:
  using ThreadMesh::ThreadMesh;

  Result<Request*> isend(int peer, ConstBuffer payload, const FrameLabel& label) override {
    peers_.insert(peer);
    return ThreadMesh::isend(peer, payload, label);
  }
  const std::set<int>& peers() const { return peers_; }

 private:
  std::set<int> peers_;
};

/// Who sends to whom in an all-reduce.
Pairs pairs_of(const char* codec_name, const std::vector<int>& order) {
  CollectiveCase c;
  c.codec = codec_name;
  c.world = static_cast<int>(order.size());
  c.count = 100000;
  const auto codec = codec_for(c);
  const auto collective = ring::make_collective(Algorithm::kRing, order);
  auto fabric = std::make_shared<ThreadFabric>(c.world, /*one_host=*/false);
  Pairs pairs;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < c.world; ++rank) {
    threads.emplace_back([&, rank] {
      NotingMesh mesh(fabric, rank);
      std::vector<float> values(c.count, 1);
      const auto context = context_for(c, &mesh, codec.get(), CollectiveKind::kAllReduce, 0);
      const Status status =
          collective->all_reduce(context, {values.data(), values.data(), c.count});
      EXPECT_TRUE(status.is_ok()) << status.message();
      const std::lock_guard lock(mutex);
      for (const int peer : mesh.peers()) pairs.emplace(rank, peer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return pairs;
}

TEST(RingOrder, OneWayEachRankSendsToTheNextOne) {
  EXPECT_EQ(pairs_of("none", {0, 3, 1, 2}), (Pairs{{0, 3}, {3, 1}, {1, 2}, {2, 0}}));
}

TEST(RingOrder, TwoWaysEachRankSendsToBothNeighbours) {
  EXPECT_EQ(pairs_of("q4", {0, 3, 1, 2}),
            (Pairs{{0, 3}, {3, 1}, {1, 2}, {2, 0}, {3, 0}, {1, 3}, {2, 1}, {0, 2}}));
}

}  // namespace
}  // namespace ringpress::testing
