// What a trial of one rank's values says of the sum of all ranks': as much as is really lost.
#include "nccl_plugin/session/tuning/level_trials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/support/leveled_training.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

/// What is sent of values, as floats. `residual`: null, or error feedback's.
std::vector<float> encoded(const Codec& codec, const std::vector<float>& values,
                           std::vector<float>* residual = nullptr) {
  std::vector<std::byte> wire(codec.wire_bytes(values.size()));
  std::vector<float> sent(values.size());
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.residual = residual == nullptr ? nullptr : residual->data();
  args.wire = wire.data();
  args.decoded = sent.data();
  codec.encode(args);
  return sent;
}

/// Squares: one rank adds up its values and what the others send, and sends the sum.
double lost_of_sum(const Codec& codec, const std::vector<std::vector<float>>& ranks) {
  std::vector<float> sum = ranks[0];
  std::vector<double> exact(sum.begin(), sum.end());
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::vector<float> sent = encoded(codec, ranks[rank]);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += sent[i];
      exact[i] += double{ranks[rank][i]};
    }
  }
  const std::vector<float> sent = encoded(codec, sum);
  double squares = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) squares += std::pow(double{sent[i]} - exact[i], 2);
  return squares;
}

double tried_of_sum(const Codec& codec, const std::vector<std::vector<float>>& ranks) {
  double squares = 0, of_ranks = 0;
  std::vector<float> sum(ranks[0].size());
  for (const std::vector<float>& values : ranks) {
    of_ranks += squares_of(values);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  const RanksSum lie{squares_of(sum) / of_ranks, 1, ranks.size()};
  for (const std::vector<float>& values : ranks) {
    SampledPart part(values.size(), values.size());
    part.add({values.data(), nullptr, values.size(), DType::kFloat32}, true);
    const TriedCodec tried{&codec, 128};
    squares += try_codecs(part, {&tried, 1}, lie, {})[0][kLossOfCall];
  }
  return squares;
}

/// Squares of what two ranks keep after so many calls of the same values.
double kept_of_sum(const Codec& codec, const std::vector<std::vector<float>>& ranks,
                   std::size_t calls) {
  std::vector<float> own(ranks[0].size()), of_sum(ranks[0].size());
  for (std::size_t call = 0; call < calls; ++call) {
    std::vector<float> sum = encoded(codec, ranks[1], &own);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += ranks[0][i];
    encoded(codec, sum, &of_sum);
  }
  for (std::size_t i = 0; i < own.size(); ++i) own[i] += of_sum[i];
  return squares_of(own);
}

LossKinds tried_with_feedback(const Codec& codec, const std::vector<std::vector<float>>& ranks,
                              const TrialCalls& calls) {
  LossKinds squares{};
  const std::vector<float> residual(ranks[0].size());
  for (const std::vector<float>& values : ranks) {
    SampledPart part(values.size(), values.size());
    for (int step = 0; step < 10; ++step) {
      part.add({values.data(), residual.data(), values.size(), DType::kFloat32}, true);
    }
    const TriedCodec tried{&codec, 128};
    const LossKinds losses = try_codecs(part, {&tried, 1}, {1, 1, 2}, calls)[0];
    for (std::size_t kind = 0; kind < kLossKinds; ++kind) squares[kind] += losses[kind];
  }
  return squares;
}

// Also of a law whose small values are kept for hundreds of calls.
TEST(LevelTrials, SayWhatIsKeptAfterManyCalls) {
  constexpr std::size_t kCount = 16384;
  constexpr TrialCalls kCalls{60, 600};
  for (std::size_t law = 0; law < 4; ++law) {
    const auto values = testing::values_of_laws(kCount, law, 2);
    for (const char* const level : {"q3", "q4", "q6"}) {
      const auto codec =
          compress_kernels::make_codec(level, DType::kFloat32, ReduceOp::kSum).value();
      const LossKinds tried = tried_with_feedback(*codec, values.own, kCalls);
      const double now = std::sqrt(tried[kLossOfMean] / kept_of_sum(*codec, values.own, 60));
      const double later =
          std::sqrt(tried[kLossOfLaterMean] / kept_of_sum(*codec, values.own, 600));
      EXPECT_NEAR(now, 1, 0.1) << "law " << law << ", " << level;
      EXPECT_NEAR(later, 1, 0.1) << "law " << law << ", " << level;
    }
  }
}

// Of each level of each law: what is wrong by as much for all of them would pass unseen.
TEST(LevelTrials, SayWhatSumsOfSeveralLawsLose) {
  constexpr std::size_t kCount = 40000;
  for (std::size_t law = 0; law < 4; ++law) {
    for (const int world : {2, 3, 5}) {
      const auto values = testing::values_of_laws(kCount, law, world);
      for (const char* const level : {"q2", "q3", "q4", "q6"}) {
        const auto codec =
            compress_kernels::make_codec(level, DType::kFloat32, ReduceOp::kSum).value();
        const double ratio =
            std::sqrt(tried_of_sum(*codec, values.own) / lost_of_sum(*codec, values.own));
        EXPECT_NEAR(ratio, 1, 0.1) << "law " << law << ", " << world << " ranks, " << level;
      }
    }
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
