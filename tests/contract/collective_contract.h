// What the contract of Collective is tested with: ranks in threads, and one call of an algorithm.
// The tests are in collective_contract_tests.h.
#ifndef TESTS_CONTRACT_COLLECTIVE_CONTRACT_H_
#define TESTS_CONTRACT_COLLECTIVE_CONTRACT_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compress_kernels/factory.h"
#include "ring/factory.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::testing {

/// Runs `body` once per rank, each in a thread, over one ThreadMesh; fails the test if a rank
/// returned an error, left requests open or left frames on a link.
inline void run_ranks(int world, const std::function<Status(ThreadMesh*)>& body,
                      bool one_host = true) {
  auto fabric = std::make_shared<ThreadFabric>(world, one_host);
  std::vector<Status> outcomes(static_cast<std::size_t>(world));
  std::vector<std::size_t> open_requests(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadMesh mesh(fabric, rank);
      const auto index = static_cast<std::size_t>(rank);
      outcomes[index] = body(&mesh);
      if (!outcomes[index].is_ok()) mesh.abort(outcomes[index]);
      open_requests[index] = mesh.open_requests();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < world; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    EXPECT_TRUE(outcomes[index].is_ok()) << "rank " << rank << ": " << outcomes[index].message();
    if (outcomes[index].is_ok()) {
      EXPECT_EQ(open_requests[index], 0U) << "rank " << rank;
    }
  }
  if (!::testing::Test::HasFailure()) {
    EXPECT_TRUE(fabric->is_drained());
  }
}

/// Empty: ring::make_collective().
using MakeCollective = std::function<std::unique_ptr<Collective>(std::vector<int> ring_order)>;

/// One case: everything that the ranks must agree on.
struct CollectiveCase {
  Algorithm algorithm = Algorithm::kRing;
  std::string codec = "none";
  int world = 2;
  std::size_t count = 1;
  std::size_t chunk_elements = kTileElements;
  bool in_place = false;
  bool one_host = true;
  std::size_t misalignment_bytes = 0;
  ReduceOp op = ReduceOp::kSum;
  std::vector<int> ring_order;  // Empty: by number.
  MakeCollective make = {};
};

inline std::unique_ptr<Collective> collective_for(const CollectiveCase& c) {
  return c.make ? c.make(c.ring_order) : ring::make_collective(c.algorithm, c.ring_order);
}

/// `values` copied to an address that is off a float boundary by `misalignment_bytes`.
class MisalignedFloats {
 public:
  MisalignedFloats(std::size_t count, std::size_t misalignment_bytes)
      : memory_(count * sizeof(float) + 64), offset_(misalignment_bytes), count_(count) {}
  void* data() { return memory_.data() + offset_; }
  void set(const std::vector<float>& values) {
    if (count_ != 0) std::memcpy(data(), values.data(), count_ * sizeof(float));
  }
  std::vector<float> get() {
    std::vector<float> values(count_);
    if (count_ != 0) std::memcpy(values.data(), data(), count_ * sizeof(float));
    return values;
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t offset_;
  std::size_t count_;
};

inline CollectiveContext context_for(const CollectiveCase& c, Mesh* mesh, const Codec* codec,
                                     CollectiveKind kind, std::uint64_t sequence) {
  CollectiveContext context;
  context.mesh = mesh;
  context.codec = codec;
  context.call = {sequence, c.count, 0, kind, c.algorithm, codec->dtype(), codec->op(), -1};
  context.chunk_elements = c.chunk_elements;
  return context;
}

inline std::unique_ptr<Codec> codec_for(const CollectiveCase& c) {
  auto codec = compress_kernels::make_codec(c.codec, DType::kFloat32, c.op);
  RINGPRESS_EXPECTS(codec.is_ok(), codec.status().message());
  return std::move(codec).value();
}

/// Runs an all-reduce of random gradients and gives each rank's result. `residuals`, if not null,
/// holds one vector per rank; `sent_bytes`, if not null, gets what rank 0 has sent.
inline std::vector<std::vector<float>> all_reduce_results(
    const CollectiveCase& c, const std::vector<std::vector<float>>& inputs,
    std::vector<std::vector<float>>* residuals = nullptr, std::uint64_t sequence = 0,
    std::uint64_t* sent_bytes = nullptr) {
  std::vector<std::vector<float>> results(inputs.size());
  const auto codec = codec_for(c);
  const auto collective = collective_for(c);
  run_ranks(
      c.world,
      [&](ThreadMesh* mesh) -> Status {
        const auto rank = static_cast<std::size_t>(mesh->rank());
        MisalignedFloats send(c.count, c.misalignment_bytes);
        MisalignedFloats receive(c.count, c.misalignment_bytes);
        send.set(inputs[rank]);
        auto context = context_for(c, mesh, codec.get(), CollectiveKind::kAllReduce, sequence);
        if (residuals != nullptr) context.residual = (*residuals)[rank].data();
        void* out = c.in_place ? send.data() : receive.data();
        RINGPRESS_RETURN_IF_ERROR(collective->all_reduce(context, {send.data(), out, c.count}));
        results[rank] = c.in_place ? send.get() : receive.get();
        if (sent_bytes != nullptr && rank == 0) *sent_bytes = mesh->counters().sent_bytes;
        if (!c.in_place) {
          const auto untouched = send.get();
          EXPECT_EQ(std::memcmp(untouched.data(), inputs[rank].data(), c.count * sizeof(float)), 0);
        }
        return Status::ok();
      },
      c.one_host);
  return results;
}

inline std::vector<std::vector<float>> random_inputs(const CollectiveCase& c, std::uint64_t seed) {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < c.world; ++rank) inputs.push_back(random_gradient(c.count, seed, rank));
  return inputs;
}

inline std::vector<double> exact_sum(const std::vector<std::vector<float>>& inputs, ReduceOp op) {
  std::vector<double> sum(inputs[0].size());
  for (const auto& input : inputs) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  if (op == ReduceOp::kAvg) {
    for (double& value : sum) value /= static_cast<double>(inputs.size());
  }
  return sum;
}

inline double relative_error(const std::vector<float>& result, const std::vector<double>& exact) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (result[i] - exact[i]) * (result[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

inline void expect_identical(const std::vector<std::vector<float>>& results) {
  for (std::size_t rank = 1; rank < results.size(); ++rank) {
    ASSERT_EQ(results[rank].size(), results[0].size());
    EXPECT_EQ(
        std::memcmp(results[rank].data(), results[0].data(), results[0].size() * sizeof(float)), 0)
        << "rank " << rank << " differs from rank 0";
  }
}

}  // namespace ringpress::testing

#endif  // TESTS_CONTRACT_COLLECTIVE_CONTRACT_H_
