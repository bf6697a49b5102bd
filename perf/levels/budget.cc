#include "perf/levels/budget.h"

#include <fmt/core.h>

#include "tests/support/leveled_training.h"

namespace ringpress::perf {
namespace {

using testing::Training;
using testing::TrainingErrors;
using testing::TrainingGradients;

// What is left out is kept from then on, as buffers come again. Counting from the next one would
// take for lost what that one kept.
constexpr std::size_t kFirstWithFeedback = 1;

void print_row(const TrainingGradients& gradients, const BudgetRun& run, const char* feedback,
               int world) {
  const Training training{world,
                          run.steps,
                          kFirstWithFeedback,
                          {{"RINGPRESS_CODEC", run.codec}, {"RINGPRESS_EF", feedback}}};
  const TrainingErrors ratio = testing::leveled_over_uniform(gradients, training, run.adjust_steps);
  fmt::print("| {} | {} | {} | {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", gradients.name,
             run.codec, feedback[0] == '1' ? "yes" : "no", world, run.steps, run.adjust_steps,
             ratio.of_calls, ratio.of_mean, ratio.sent_bytes, ratio.ranks_agree ? "yes" : "NO");
  std::fflush(stdout);
}

/// Two steps of training, in turn, each layer a call.
TrainingGradients real_gradients(const RankGradients& early, const RankGradients& late) {
  TrainingGradients gradients{early.name + " and " + late.name + " in turn", {}, {}};
  std::vector<std::size_t> offsets;
  for (const Layer& layer : early.layers) {
    offsets.push_back(layer.offset);
    gradients.counts.push_back(layer.count);
  }
  gradients.fill = [&early, &late, offsets](std::size_t call, std::size_t step, int rank,
                                            std::span<float> values) {
    const auto& from = (step % 2 == 0 ? early : late).values[static_cast<std::size_t>(rank)];
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offsets[call]), values.size(),
                values.begin());
  };
  return gradients;
}

}  // namespace

void measure_budgets(const BudgetRun& run, const std::vector<RankGradients>& real) {
  fmt::print(
      "| gradients | codec for all | error feedback | ranks | steps | adjust steps | error of a "
      "call | of the mean | bytes | ranks agree |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  for (const char* const feedback : {"1", "0"}) {
    for (const auto kind : testing::kTrainingKinds) {
      const int world = kind == testing::TrainingKind::kConstant ? 4 : 2;
      print_row(testing::make_gradients(kind, {16000, 20000, 24000}, world, run.steps, 10), run,
                feedback, world);
    }
    for (const auto kind : testing::kTrainingKinds) {
      constexpr int kWorld = 2;
      print_row(testing::make_mixed_gradients(kind, kWorld, run.steps), run, feedback, kWorld);
    }
    for (std::size_t i = 0; i + 1 < real.size(); i += 2) {
      print_row(real_gradients(real[i], real[i + 1]), run, feedback,
                static_cast<int>(real[i].values.size()));
    }
  }
}

}  // namespace ringpress::perf
