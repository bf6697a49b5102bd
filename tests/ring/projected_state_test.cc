// All-reduces of projections: what is kept from call to call, and what is known besides the values,
// is used where all ranks have the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ring/projected_ranks.h"

namespace ringpress::testing {
namespace {

class ProjectedState : public Projected {};

TEST_P(ProjectedState, WarmStartsComeCloserToAFixedMatrix) {
  const Tensors inputs{random_gradient(100 * 100, 5, 0), random_gradient(100 * 100, 5, 1)};
  auto memory = memory_for("powersgd:rank=4", 2, 100 * 100);
  for (auto& rank : memory) rank.residual.clear();
  std::vector<double> errors;
  for (std::uint64_t call = 0; call < 12; ++call) {
    errors.push_back(error_of(all_reduce("powersgd:rank=4", inputs, &memory, call), inputs));
    if (call == 0) continue;
    EXPECT_LE(errors[call], errors[call - 1] * 1.0001) << call;
  }
  // Without the state, each call is as good as the first.
  EXPECT_LT(errors.back(), 0.97 * errors.front());
}

TEST_P(ProjectedState, ErrorFeedbackDeliversOverTimeWhatOneCallDrops) {
  CollectiveCase c;
  c.world = 3;
  c.count = 60 * 70;
  const Tensors inputs = random_inputs(c, 8);
  const auto exact = exact_sum(inputs, ReduceOp::kSum);
  auto memory = memory_for("powersgd:rank=2", 3, c.count);
  std::vector<double> total(c.count);
  constexpr int kSteps = 50;
  double first = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto results = all_reduce("powersgd:rank=2", inputs, &memory, step);
    if (step == 0) first = relative_error(results[0], exact);
    for (std::size_t i = 0; i < c.count; ++i) total[i] += results[0][i] / kSteps;
  }
  const std::vector<float> mean(total.begin(), total.end());
  EXPECT_LT(relative_error(mean, exact), 0.35 * first);
  // Sent and kept together are what came in.
  for (std::size_t i = 0; i < c.count; ++i) {
    double kept = 0;
    for (const auto& rank : memory) kept += rank.residual[i];
    ASSERT_NEAR(total[i] * kSteps + kept, exact[i] * kSteps, 0.02) << i;
  }
}

TEST_P(ProjectedState, AStateThatOneRankHasLostIsForgottenByAll) {
  const Tensors inputs{random_gradient(4000, 5, 0), random_gradient(4000, 5, 1),
                       random_gradient(4000, 5, 2)};
  const auto fresh = memory_for("powersgd", 3, 4000);
  for (const bool has_old_state : {false, true}) {
    auto memory = fresh;
    all_reduce("powersgd", inputs, &memory, 0);
    if (has_old_state) {
      const ProjectionState old = memory[1].state;
      all_reduce("powersgd", inputs, &memory, 1);
      memory[1].state = old;
    } else {
      memory[1].state = fresh[1].state;
    }
    for (auto& rank : memory) std::fill(rank.residual.begin(), rank.residual.end(), 0.0f);
    auto cold = fresh;
    auto expected = all_reduce("powersgd", inputs, &cold, 2);
    EXPECT_EQ(all_reduce("powersgd", inputs, &memory, 2), expected);
    // From then on all have it again.
    expected = all_reduce("powersgd", inputs, &cold, 3);
    EXPECT_EQ(all_reduce("powersgd", inputs, &memory, 3), expected);
    auto never_warm = fresh;
    EXPECT_NE(all_reduce("powersgd", inputs, &never_warm, 3), expected);
  }
}

TEST_P(ProjectedState, ARankWithoutRoomForTheStateIsTolerated) {
  const Tensors inputs{random_gradient(4000, 5, 0), random_gradient(4000, 5, 1)};
  auto memory = memory_for("powersgd", 2, 4000);
  memory[1].state.values.resize(3);
  for (std::uint64_t call = 0; call < 3; ++call) all_reduce("powersgd", inputs, &memory, call);
  EXPECT_EQ(memory[1].state.call, 0U);
}

TEST_P(ProjectedState, LayersThatDifferAreUsedByNobody) {
  const Tensors inputs{random_gradient(6000, 5, 0), random_gradient(6000, 5, 1)};
  const std::vector<Layer> layers{{0, 3000, 50, 60, false}, {3000, 3000, 30, 100, false}};
  const std::vector<Layer> others{{0, 3000, 60, 50, false}, {3000, 3000, 30, 100, false}};
  auto memory = memory_for("powersgd", 2, 6000, layers);
  memory[1].layers = others;
  auto without = memory_for("powersgd", 2, 6000);
  EXPECT_EQ(all_reduce("powersgd", inputs, &memory, 0),
            all_reduce("powersgd", inputs, &without, 0));
  // And again when they agree; the state of the call before does not fit.
  memory[1].layers = layers;
  auto with = memory_for("powersgd", 2, 6000, layers);
  for (std::size_t rank = 0; rank < 2; ++rank) with[rank].residual = memory[rank].residual;
  EXPECT_EQ(all_reduce("powersgd", inputs, &memory, 1), all_reduce("powersgd", inputs, &with, 1));
}

TEST_P(ProjectedState, LayersChangedOnAllRanksStartCold) {
  const Tensors inputs{random_gradient(6000, 5, 0), random_gradient(6000, 5, 1)};
  auto memory = memory_for("powersgd", 2, 6000, {{0, 6000, 60, 100, false}});
  all_reduce("powersgd", inputs, &memory, 0);
  auto cold = memory_for("powersgd", 2, 6000, {{0, 6000, 100, 60, false}});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    memory[rank].layers = cold[rank].layers;
    cold[rank].residual = memory[rank].residual;
  }
  EXPECT_EQ(all_reduce("powersgd", inputs, &memory, 1), all_reduce("powersgd", inputs, &cold, 1));
}

INSTANTIATE_TEST_SUITE_P(Ring, ProjectedState, ::testing::Values(Algorithm::kRing));
INSTANTIATE_TEST_SUITE_P(Sra, ProjectedState, ::testing::Values(Algorithm::kSra));

}  // namespace
}  // namespace ringpress::testing
