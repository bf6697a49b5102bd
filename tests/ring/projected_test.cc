// All-reduces of projections: what comes out of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ring/projected_ranks.h"

namespace ringpress::testing {
namespace {

TEST_P(Projected, AMatrixOfLowRankIsExact) {
  for (const int world : {2, 4}) {
    for (const auto& [rows, columns] : {std::pair{90UL, 130UL}, std::pair{200UL, 33UL}}) {
      for (const std::size_t rank : {1U, 3U, 4U}) {
        const Tensors inputs = low_rank(world, rows, columns, rank);
        auto memory = memory_for("powersgd:rank=4", world, rows * columns,
                                 {{0, rows * columns, rows, columns, false}});
        const auto results = all_reduce("powersgd:rank=4", inputs, &memory);
        EXPECT_LT(error_of(results, inputs), 1e-5) << rows << 'x' << columns << " rank " << rank;
      }
    }
  }
}

TEST_P(Projected, AveragesAreDividedOnce) {
  Tensors inputs = low_rank(3, 64, 64, 2);
  for (auto& input : inputs) input.resize(64 * 64 + 10, 3.0f);
  auto memory = memory_for("powersgd:rank=2", 3, inputs[0].size(), {{0, 64 * 64, 64, 64, false}});
  const auto results = all_reduce("powersgd:rank=2", inputs, &memory, 0, ReduceOp::kAvg);
  EXPECT_LT(error_of(results, inputs, ReduceOp::kAvg), 1e-5);
  EXPECT_EQ(results[0].back(), 3.0f);
}

TEST_P(Projected, OneRankAndAnyCountWithoutHints) {
  for (const std::size_t count : {1U, 63U, 1000U, 1009U, 5000U}) {
    for (const int world : {1, 2, 5}) {
      CollectiveCase c;
      c.world = world;
      c.count = count;
      const Tensors inputs = random_inputs(c, count);
      const double error = error_of(all_reduce("powersgd:rank=2", inputs, nullptr), inputs);
      EXPECT_LT(error, count < 63 ? 1e-6 : 1.001) << count;
    }
  }
}

// A state that some rank lacks, or has from another call, is used by nobody: the results are those
// of ranks that never had one.
TEST_P(Projected, VectorsExactLayersAndElementsInNoLayerAreExact) {
  const Tensors inputs{random_gradient(5000, 5, 0), random_gradient(5000, 5, 1)};
  auto memory = memory_for("powersgd:rank=1", 2, 5000,
                           {{100, 1600, 40, 40, false},
                            {1800, 200, 0, 0, false},
                            {2100, 1600, 40, 40, true},
                            {3800, 4, 2, 2, false}});
  const auto results = all_reduce("powersgd:rank=1", inputs, &memory);
  const auto exact = exact_sum(inputs, ReduceOp::kSum);
  std::size_t different = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (results[0][i] == static_cast<float>(exact[i])) {
      continue;
    }
    ASSERT_TRUE(i >= 100 && i < 1700) << i;
    ++different;
  }
  EXPECT_GT(different, 1500U);
  EXPECT_EQ(memory[0].residual[50], 0.0f);
  EXPECT_NE(memory[0].residual[150], 0.0f);
}

TEST_P(Projected, NonFiniteValuesPoisonTheirMatrixAndNothingElse) {
  for (const float poison : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const std::size_t position : {0U, 1234U, 1599U}) {
      Tensors inputs{random_gradient(3500, 5, 0), random_gradient(3500, 5, 1),
                     random_gradient(3500, 5, 2)};
      const std::vector<Layer> layers{{0, 1600, 40, 40, false}, {1600, 1600, 40, 40, false}};
      auto memory = memory_for("powersgd", 3, 3500, layers);
      all_reduce("powersgd", inputs, &memory, 0);
      const auto before = memory;
      inputs[1][position] = poison;
      inputs[2][3300] = poison;
      const auto results = all_reduce("powersgd", inputs, &memory, 1);
      for (std::size_t i = 0; i < 3500; ++i) {
        ASSERT_EQ(std::isfinite(results[0][i]), i >= 1600 && i != 3300) << i;
      }
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (std::size_t i = 0; i < 3500; ++i) ASSERT_TRUE(std::isfinite(memory[rank].residual[i]));
        for (const float value : memory[rank].state.values) ASSERT_TRUE(std::isfinite(value));
        EXPECT_TRUE(std::equal(before[rank].residual.begin(), before[rank].residual.begin() + 1600,
                               memory[rank].residual.begin()));
      }
      inputs[1][position] = inputs[2][3300] = 1;
      const auto after = all_reduce("powersgd", inputs, &memory, 2);
      for (const float value : after[0]) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST_P(Projected, ZerosStayZerosAndTheStateRecovers) {
  const Tensors zeros(2, std::vector<float>(4096));
  auto memory = memory_for("powersgd:rank=3", 2, 4096, {{0, 4096, 64, 64, false}});
  const auto result = all_reduce("powersgd:rank=3", zeros, &memory, 0);
  EXPECT_EQ(result, zeros);
  const Tensors inputs = low_rank(2, 64, 64, 3);
  const auto after = all_reduce("powersgd:rank=3", inputs, &memory, 1);
  EXPECT_LT(error_of(after, inputs), 1e-5);
}

// Ranks on different machines must not drift apart.
TEST_P(Projected, RanksOnDifferentInstructionSetsGetTheSameBytes) {
  const std::vector<std::string> isas = compress_kernels::available_isas();
  const int world = static_cast<int>(isas.size());
  std::vector<std::unique_ptr<Codec>> codecs;
  for (const std::string& isa : isas) {
    ASSERT_TRUE(compress_kernels::force_isa(isa).is_ok());
    codecs.push_back(
        compress_kernels::make_codec("powersgd:rank=5", DType::kBfloat16, ReduceOp::kAvg).value());
  }
  ASSERT_TRUE(compress_kernels::force_isa("").is_ok());
  CollectiveCase c;
  c.algorithm = GetParam();
  c.count = 77 * 91 * 2;  // Pairs of bytes.
  const std::size_t count = 77 * 91;
  const std::vector<Layer> layers{{0, count, 77, 91, false}};
  Tensors states(isas.size());
  std::vector<std::vector<std::uint16_t>> results(isas.size());
  run_ranks(world, [&](ThreadMesh* mesh) -> Status {
    const auto rank = static_cast<std::size_t>(mesh->rank());
    const auto collective = ring::make_collective(c.algorithm);
    const Codec& codec = *codecs[rank];
    ProjectionState state{std::vector<float>(codec.projection()->state_count({count, layers})), 0,
                          0};
    std::vector<float> residual(count);
    for (std::uint64_t call = 0; call < 3; ++call) {
      auto context = context_for(c, mesh, &codec, CollectiveKind::kAllReduce, call);
      context.residual = residual.data();
      context.projection_state = &state;
      context.layers = layers;
      std::vector<std::uint16_t>& data = results[rank];
      const auto values = random_gradient(count, call, mesh->rank());
      data.clear();
      for (const float value : values) {
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        data.push_back(static_cast<std::uint16_t>(bits >> 16));
      }
      RINGPRESS_RETURN_IF_ERROR(collective->all_reduce(context, {data.data(), data.data(), count}));
    }
    states[rank] = state.values;
    return Status::ok();
  });
  for (std::size_t rank = 1; rank < isas.size(); ++rank) {
    EXPECT_EQ(results[rank], results[0]) << isas[rank];
    EXPECT_EQ(states[rank], states[0]) << isas[rank];
  }
}

INSTANTIATE_TEST_SUITE_P(Ring, Projected, ::testing::Values(Algorithm::kRing));
INSTANTIATE_TEST_SUITE_P(Sra, Projected, ::testing::Values(Algorithm::kSra));

TEST(ProjectedHalves, AreRefused) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSra}) {
    CollectiveCase c;
    c.algorithm = algorithm;
    c.codec = "powersgd";
    c.count = 16315;
    const auto codec = codec_for(c);
    run_ranks(c.world, [&](ThreadMesh* mesh) -> Status {
      const auto collective = ring::make_collective(algorithm);
      std::vector<float> send(2 * c.count);
      std::vector<float> receive(2 * c.count);
      auto context = context_for(c, mesh, codec.get(), CollectiveKind::kReduceScatter, 0);
      const Status scattered =
          collective->reduce_scatter(context, {send.data(), receive.data(), c.count});
      EXPECT_EQ(scattered.code(), Code::kUnsupported);
      context = context_for(c, mesh, codec.get(), CollectiveKind::kAllGather, 1);
      const Status gathered =
          collective->all_gather(context, {send.data(), receive.data(), c.count});
      EXPECT_EQ(gathered.code(), Code::kUnsupported);
      return Status::ok();
    });
  }
}

}  // namespace
}  // namespace ringpress::testing
