// Ranks that all-reduce projections over a mesh of threads, and what they keep from call to call.
#ifndef TESTS_RING_PROJECTED_RANKS_H_
#define TESTS_RING_PROJECTED_RANKS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ringpress/internal/projection.h"
#include "tests/contract/collective_contract.h"

namespace ringpress::testing {

using Tensors = std::vector<std::vector<float>>;

/// A rank's part in what one test does: what lives from call to call.
struct RankMemory {
  std::vector<float> residual;
  ProjectionState state;
  std::vector<Layer> layers;
};

class Projected : public ::testing::TestWithParam<Algorithm> {
 protected:
  /// Memory for every rank of tensors with `count` elements, and the same layers.
  static std::vector<RankMemory> memory_for(const std::string& codec, int world, std::size_t count,
                                            const std::vector<Layer>& layers = {}) {
    const auto made = compress_kernels::make_codec(codec, DType::kFloat32, ReduceOp::kSum);
    const std::size_t room = made.value()->projection()->state_count({count, layers});
    RankMemory one{std::vector<float>(count), {std::vector<float>(room), 0, 0}, layers};
    return std::vector<RankMemory>(static_cast<std::size_t>(world), one);
  }

  /// Every rank's result of call number `sequence`.
  Tensors all_reduce(const std::string& codec, const Tensors& inputs,
                     std::vector<RankMemory>* memory, std::uint64_t sequence = 0,
                     ReduceOp op = ReduceOp::kSum) const {
    CollectiveCase c;
    c.algorithm = GetParam();
    c.codec = codec;
    c.world = static_cast<int>(inputs.size());
    c.count = inputs[0].size();
    c.op = op;
    const auto made = codec_for(c);
    const auto collective = ring::make_collective(c.algorithm);
    Tensors results = inputs;
    run_ranks(c.world, [&](ThreadMesh* mesh) -> Status {
      const auto rank = static_cast<std::size_t>(mesh->rank());
      auto context = context_for(c, mesh, made.get(), CollectiveKind::kAllReduce, sequence);
      context.turn = sequence;
      if (memory != nullptr) {
        RankMemory& own = (*memory)[rank];
        if (!own.residual.empty()) context.residual = own.residual.data();
        if (!own.state.values.empty()) context.projection_state = &own.state;
        context.layers = own.layers;
      }
      float* data = results[rank].data();
      return collective->all_reduce(context, {data, data, c.count});
    });
    expect_identical(results);
    return results;
  }
};

/// A matrix of rank `rank` for each of `world` ranks, all with the same columns' space.
inline Tensors low_rank(int world, std::size_t rows, std::size_t columns, std::size_t rank) {
  const auto left = random_gradient(rows * rank, 1, 0);
  Tensors inputs;
  for (int w = 0; w < world; ++w) {
    const auto right = random_gradient(rank * columns, 2, w);
    std::vector<float> values(rows * columns);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < rank; ++k) {
          sum += double{left[i * rank + k]} * right[k * columns + j];
        }
        values[i * columns + j] = static_cast<float>(sum);
      }
    }
    inputs.push_back(values);
  }
  return inputs;
}

inline double error_of(const Tensors& results, const Tensors& inputs,
                       ReduceOp op = ReduceOp::kSum) {
  return relative_error(results[0], exact_sum(inputs, op));
}

}  // namespace ringpress::testing

#endif  // TESTS_RING_PROJECTED_RANKS_H_
