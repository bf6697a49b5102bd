// Broadcast, reduce and point-to-point over a mesh of threads.
#include <rapidcheck.h>

#include <algorithm>

#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

CollectiveCase random_case() {
  CollectiveCase c;
  c.world = *rc::gen::inRange(1, 9);
  c.count = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 100),
                            rc::gen::inRange<std::size_t>(1, 40000));
  return c;
}

TEST(Broadcast, GivesEveryRankTheRootsValues) {
  EXPECT_TRUE(rc::check("broadcast", [] {
    CollectiveCase c = random_case();
    const int root = *rc::gen::inRange(0, c.world);
    const auto input = random_gradient(c.count, 1, root);
    const auto codec = codec_for(c);
    run_ranks(c.world, [&](ThreadMesh* mesh) {
      std::vector<float> receive(c.count);
      const auto context = context_for(c, mesh, codec.get(), CollectiveKind::kBroadcast, 0);
      const Status status = ring::broadcast(context, input.data(), receive.data(), c.count, root);
      EXPECT_EQ(receive, input);
      return status;
    });
    RC_ASSERT(!HasFailure());
  }));
}

TEST(Reduce, GivesTheRootTheReductionForEveryOp) {
  EXPECT_TRUE(rc::check("reduce", [] {
    CollectiveCase c = random_case();
    const int root = *rc::gen::inRange(0, c.world);
    c.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin);
    std::vector<std::vector<int>> inputs;
    for (int rank = 0; rank < c.world; ++rank) {
      inputs.push_back(random_small_integers(c.count, 9, rank));
    }
    std::vector<int> expected = inputs[0];
    for (int rank = 1; rank < c.world; ++rank) {
      const auto& input = inputs[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < c.count; ++i) {
        if (c.op == ReduceOp::kSum) expected[i] += input[i];
        if (c.op == ReduceOp::kProd) expected[i] *= input[i];
        if (c.op == ReduceOp::kMax) expected[i] = std::max(expected[i], input[i]);
        if (c.op == ReduceOp::kMin) expected[i] = std::min(expected[i], input[i]);
      }
    }
    auto codec = compress_kernels::make_codec("none", DType::kInt32, c.op);
    RC_ASSERT(codec.is_ok());
    run_ranks(c.world, [&](ThreadMesh* mesh) {
      std::vector<int> send = inputs[static_cast<std::size_t>(mesh->rank())];
      std::vector<int> receive(c.count);
      const auto context = context_for(c, mesh, codec.value().get(), CollectiveKind::kReduce, 0);
      const bool is_root = mesh->rank() == root;
      const Status status =
          ring::reduce(context, send.data(), is_root ? receive.data() : nullptr, c.count, root);
      if (is_root) {
        EXPECT_EQ(receive, expected);
      }
      return status;
    });
    RC_ASSERT(!HasFailure());
  }));
}

// Every rank sends a block of another length to every rank, itself included.
TEST(Exchange, EveryRankWithEveryRank) {
  constexpr int kWorld = 5;
  const auto length = [](int from, int to) {
    return static_cast<std::size_t>((from * 7 + to * 3) % 11) * 1000;
  };
  run_ranks(kWorld, [&](ThreadMesh* mesh) {
    const int rank = mesh->rank();
    std::vector<std::vector<char>> out(kWorld);
    std::vector<std::vector<char>> in(kWorld);
    std::vector<ring::PointToPoint> transfers;
    for (int peer = 0; peer < kWorld; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      out[index].assign(length(rank, peer), static_cast<char>(rank * 16 + peer));
      in[index].assign(length(peer, rank), 0);
      CallSignature call;
      call.kind = CollectiveKind::kSendRecv;
      call.count = out[index].size();
      transfers.push_back({true, out[index].data(), out[index].size(), peer, call});
      call.count = in[index].size();
      transfers.push_back({false, in[index].data(), in[index].size(), peer, call});
    }
    const Status status = ring::exchange(*mesh, transfers, 777);
    for (int peer = 0; peer < kWorld; ++peer) {
      const std::vector<char> expected(length(peer, rank), static_cast<char>(peer * 16 + rank));
      EXPECT_EQ(in[static_cast<std::size_t>(peer)], expected);
    }
    return status;
  });
}

TEST(Exchange, SelfTransfersMustPairUp) {
  ThreadMesh mesh(std::make_shared<ThreadFabric>(1), 0);
  char byte = 1;
  const ring::PointToPoint lonely{true, &byte, 1, 0, {}};
  EXPECT_EQ(ring::exchange(mesh, {&lonely, 1}, 0).code(), Code::kInvalidUsage);
  const ring::PointToPoint pair[] = {{true, &byte, 1, 0, {}}, {false, &byte, 0, 0, {}}};
  EXPECT_EQ(ring::exchange(mesh, pair, 0).code(), Code::kMismatch);
}

}  // namespace
}  // namespace ringpress::testing
