// All-reduces that come in pieces (PiecewiseAllReduce), over real transports.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/decision.h"
#include "tests/support/communicator_ranks.h"
#include "tests/support/random_tensor.h"

namespace ringpress::communicator_pieces_test {
namespace {

using testing::failures_of;
using testing::run_communicators;
using Environment = testing::RankEnvironment;

/// The mean of `steps` sums of one gradient, taken in uneven pieces, against the exact sum.
double piecewise_error(const Environment& environment, PiecewiseTensor::Known known, int steps,
                       Statistics* statistics) {
  constexpr std::size_t kCount = 50000;
  constexpr int kRanks = 3;
  std::vector<std::vector<double>> means(kRanks, std::vector<double>(kCount));
  const auto body = [&](Communicator* communicator) -> Status {
    const int rank = communicator->rank();
    const auto input = testing::random_gradient(kCount, 1, rank);
    std::vector<float> result(kCount);
    PiecewiseTensor tensor;
    tensor.known = known;
    const bool has_extent =
        known == PiecewiseTensor::Known::kExtent || known == PiecewiseTensor::Known::kTensor;
    tensor.count = has_extent ? kCount : 0;
    if (known == PiecewiseTensor::Known::kPadded) tensor.whole_count = kCount;
    tensor.address = input.data();
    for (int step = 0; step < steps; ++step) {
      RINGPRESS_RETURN_IF_ERROR(communicator->pieces().start(tensor));
      for (std::size_t first = 0; first < kCount;) {
        const std::size_t count = std::min<std::size_t>(kCount - first, first == 0 ? 8192 : 16001);
        RINGPRESS_RETURN_IF_ERROR(
            communicator->pieces().run(input.data() + first, result.data() + first, first, count));
        first += count;
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        means[static_cast<std::size_t>(rank)][i] += result[i] / static_cast<double>(steps);
      }
    }
    if (rank == 0) *statistics = communicator->statistics();
    return Status::ok();
  };
  EXPECT_EQ(failures_of(run_communicators(kRanks, environment, body)), "");
  EXPECT_EQ(means[1], means[0]);
  EXPECT_EQ(means[2], means[0]);
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto input = testing::random_gradient(kCount, 1, rank);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += input[i];
  }
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    error += std::pow(means[0][i] - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

TEST(CommunicatorPieces, HaveErrorFeedbackWhereTheTensorIsKnown) {
  Statistics once;
  Statistics often;
  const Environment environment = {{"RINGPRESS_CODEC", "q2"}};
  const double single = piecewise_error(environment, PiecewiseTensor::Known::kTensor, 1, &once);
  const double mean = piecewise_error(environment, PiecewiseTensor::Known::kTensor, 40, &often);
  // What is left of a constant gradient's error falls as 1 / steps, once the pattern is certain.
  EXPECT_LT(mean, single / 5);
  EXPECT_EQ(often.compressed_calls, 40U * 4);
  EXPECT_EQ(often.unbiased_calls, 0U);
  EXPECT_EQ(often.residual_bytes, 50000U * sizeof(float));
}

TEST(CommunicatorPieces, AreUnbiasedWithoutResidualWhereTheTensorIsNotKnown) {
  for (const auto known : {PiecewiseTensor::Known::kExtent, PiecewiseTensor::Known::kPadded}) {
    Statistics once;
    Statistics often;
    const Environment environment = {{"RINGPRESS_CODEC", "q4"}};
    const double single = piecewise_error(environment, known, 1, &once);
    // Independent errors: falls as the square root.
    EXPECT_LT(piecewise_error(environment, known, 64, &often), single / 4);
    EXPECT_EQ(often.unbiased_calls, 64U * 4);
    EXPECT_EQ(often.residual_bytes, 0U);
    EXPECT_NE(often.last_codec.find("round=stochastic"), std::string::npos) << often.last_codec;
  }
}

TEST(CommunicatorPieces, AreExactWhereNoCodecFits) {
  const std::vector<std::pair<std::string, PiecewiseTensor::Known>> cases = {
      {"sign", PiecewiseTensor::Known::kExtent},
      {"topk", PiecewiseTensor::Known::kPadded},
      {"powersgd", PiecewiseTensor::Known::kTensor}};
  for (const auto& [codec, known] : cases) {
    Statistics statistics;
    EXPECT_LT(piecewise_error({{"RINGPRESS_CODEC", codec}}, known, 1, &statistics), 1e-6) << codec;
    EXPECT_EQ(statistics.compressed_calls, 0U) << codec;
    ASSERT_EQ(statistics.exact_calls.size(), 1U) << codec;
    EXPECT_NE(statistics.exact_calls.begin()->first.find(codec), std::string::npos);
    EXPECT_EQ(statistics.exact_calls.begin()->second, 4U) << codec;
  }
}

// As the table in compress_kernels/codecs.md says of their error feedback: no.
TEST(CommunicatorPieces, GoByCodecsThatNeedNoErrorFeedback) {
  for (const char* const codec : {"bf16", "fp16"}) {
    for (const auto known : {PiecewiseTensor::Known::kExtent, PiecewiseTensor::Known::kPadded}) {
      Statistics statistics;
      EXPECT_LT(piecewise_error({{"RINGPRESS_CODEC", codec}}, known, 1, &statistics), 0.01);
      EXPECT_EQ(statistics.compressed_calls, 4U) << codec;
      EXPECT_EQ(statistics.residual_bytes, 0U) << codec;
      EXPECT_EQ(statistics.last_reason, "") << codec;
    }
  }
}

TEST(CommunicatorPieces, AreExactWhereNothingIsKnown) {
  Statistics statistics;
  EXPECT_LT(piecewise_error({{"RINGPRESS_CODEC", "q4"}}, PiecewiseTensor::Known::kNothing, 1,
                            &statistics),
            1e-6);
  EXPECT_EQ(statistics.exact_calls.at("not known where the tensor ends"), 4U);
}

TEST(CommunicatorPieces, OutsideTheTensorAreRefused) {
  const auto body = [](Communicator* communicator) -> Status {
    std::vector<float> values(1000);
    EXPECT_EQ(communicator->pieces().run(values.data(), values.data(), 0, 10).code(),
              Code::kInvalidUsage);
    PiecewiseTensor tensor;
    tensor.known = PiecewiseTensor::Known::kTensor;
    tensor.count = 1000;
    RINGPRESS_RETURN_IF_ERROR(communicator->pieces().start(tensor));
    for (const auto& [first, count] :
         {std::pair<std::size_t, std::size_t>{1001, 0}, {991, 10}, {1, SIZE_MAX}}) {
      EXPECT_EQ(communicator->pieces().run(values.data(), values.data(), first, count).code(),
                Code::kInvalidArgument);
    }
    return Status::ok();
  };
  EXPECT_EQ(failures_of(run_communicators(2, {}, body)), "");
}

// ---- The guard ----

/// What rank 0 has measured; the other ranks have the same. `cancels`: sums are a hundredth of what
/// the ranks have.
std::vector<MeasuredError> errors_of_pieces(const Environment& environment, bool cancels) {
  constexpr std::size_t kCount = 48000, kPiece = 16000;
  std::array<std::vector<MeasuredError>, 2> errors;
  const auto body = [&](Communicator* communicator) -> Status {
    const int rank = communicator->rank();
    const std::vector<float> common = testing::random_gradient(kCount, 9, 0);
    PiecewiseTensor tensor;
    tensor.known = PiecewiseTensor::Known::kTensor;
    tensor.count = kCount;
    for (std::size_t step = 0; step < 20; ++step) {
      std::vector<float> values = testing::random_gradient(kCount, step, rank), sum(kCount);
      for (std::size_t i = 0; cancels && i < kCount; ++i) {
        values[i] = 0.01F * values[i] + (rank == 0 ? common[i] : -common[i]);
      }
      RINGPRESS_RETURN_IF_ERROR(communicator->pieces().start(tensor));
      for (std::size_t first = 0; first < kCount; first += kPiece) {
        RINGPRESS_RETURN_IF_ERROR(
            communicator->pieces().run(values.data() + first, sum.data() + first, first, kPiece));
      }
    }
    errors[static_cast<std::size_t>(rank)] = communicator->statistics().errors;
    return Status::ok();
  };
  EXPECT_EQ(failures_of(run_communicators(2, environment, body)), "");
  EXPECT_EQ(errors[1].size(), errors[0].size());
  for (std::size_t i = 0; i < errors[0].size(); ++i) {
    EXPECT_EQ(errors[1][i].worst, errors[0][i].worst);
    EXPECT_EQ(errors[1][i].more_bits, errors[0][i].more_bits);
  }
  return errors[0];
}

TEST(CommunicatorPieces, AreLookedAtByTheGuard) {
  const auto errors = errors_of_pieces({{"RINGPRESS_CODEC", "q4"}}, false);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].count, 16000U);
  EXPECT_EQ(errors[0].looks, 1U);
  EXPECT_GT(errors[0].worst, 0.05);
  EXPECT_LT(errors[0].worst, 0.6);
  EXPECT_TRUE(
      errors_of_pieces({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_GUARD", "0"}}, false).empty());
}

TEST(CommunicatorPieces, GetMoreBitsWhereTheyLoseTooMuch) {
  const auto errors = errors_of_pieces({{"RINGPRESS_CODEC", "auto"},
                                        {"RINGPRESS_GRADIENTS", "all"},
                                        {"RINGPRESS_DETERMINISTIC", "1"}},
                                       true);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_GT(errors[0].worst, 1);
  EXPECT_GT(errors[0].more_bits, 0);
}

// ---- Automatic mode: gradients and nothing else ----

/// Tensors of these counts, step for step.
struct Steps {
  std::vector<std::size_t> counts;
  int steps = 8;
  PiecewiseTensor::Known known = PiecewiseTensor::Known::kTensor;
  bool has_new_buffers = false;
};

/// Pieces of gradients so far, as rank 0 counts them. Some may be exact, as that may be quicker.
std::uint64_t pieces_of_gradients(const Statistics& statistics) {
  std::uint64_t others = 0;
  for (const auto& [why, count] : statistics.exact_calls) {
    const bool is_gradient = why == to_text({ExactReason::kTrial, 0, {}}) ||
                             why == to_text({ExactReason::kNothingGained, 0, {}});
    if (!is_gradient) others += count;
  }
  return statistics.calls - others;
}

/// All of a step's at once, in buffers that are kept or new.
void compute_gradients(const Steps& of, int step, int rank,
                       std::vector<std::vector<float>>* buffers) {
  for (std::size_t i = 0; i < of.counts.size(); ++i) {
    const auto seed = static_cast<std::uint64_t>(step) + 1;
    const std::vector<float> values = testing::random_gradient(of.counts[i], seed, rank);
    if (buffers->size() <= i || of.has_new_buffers) {
      buffers->push_back(values);
    } else {
      std::copy(values.begin(), values.end(), (*buffers)[i].begin());
    }
  }
}

/// Pieces of each step that were taken for those of gradients.
std::vector<std::uint64_t> gradients_of_steps(const Environment& environment, const Steps& of) {
  std::vector<std::uint64_t> gradients;
  const auto body = [&](Communicator* communicator) -> Status {
    std::vector<std::vector<float>> buffers;
    for (int step = 0; step < of.steps; ++step) {
      const std::uint64_t before = pieces_of_gradients(communicator->statistics());
      compute_gradients(of, step, communicator->rank(), &buffers);
      for (std::size_t i = 0; i < of.counts.size(); ++i) {
        std::vector<float>& values = buffers[buffers.size() - of.counts.size() + i];
        const bool has_extent = of.known != PiecewiseTensor::Known::kPadded;
        PiecewiseTensor tensor;
        tensor.known = of.known;
        tensor.count = has_extent ? of.counts[i] : 0;
        tensor.whole_count = of.counts[i];
        tensor.address = values.data();
        RINGPRESS_RETURN_IF_ERROR(communicator->pieces().start(tensor));
        const std::size_t first = of.counts[i] / 3;
        std::vector<float> sum(of.counts[i]);
        RINGPRESS_RETURN_IF_ERROR(communicator->pieces().run(values.data(), sum.data(), 0, first));
        RINGPRESS_RETURN_IF_ERROR(communicator->pieces().run(
            values.data() + first, sum.data() + first, first, of.counts[i] - first));
      }
      if (communicator->rank() != 0) continue;
      gradients.push_back(pieces_of_gradients(communicator->statistics()) - before);
    }
    return Status::ok();
  };
  EXPECT_EQ(failures_of(run_communicators(3, environment, body)), "");
  return gradients;
}

TEST(CommunicatorPieces, OfGradientsAreKnownOnceTheStepIs) {
  const std::vector<std::uint64_t> gradients =
      gradients_of_steps({{"RINGPRESS_CODEC", "auto"}}, {{30000, 50000, 40000}});
  EXPECT_EQ(gradients.front(), 0U);
  EXPECT_EQ(std::vector(gradients.begin() + 5, gradients.end()), std::vector<std::uint64_t>(3, 6U));
}

TEST(CommunicatorPieces, OfOneSizeInBuffersOfTheirOwnAreGradients) {
  const std::vector<std::uint64_t> gradients =
      gradients_of_steps({{"RINGPRESS_CODEC", "auto"}}, {{50000, 50000, 30000}, 16});
  EXPECT_EQ(gradients.front(), 0U);
  EXPECT_EQ(gradients.back(), 6U);
}

TEST(CommunicatorPieces, OfActivationsStayExact) {
  const std::vector<std::uint64_t> gradients = gradients_of_steps(
      {{"RINGPRESS_CODEC", "auto"}}, {{50000}, 200, PiecewiseTensor::Known::kTensor, true});
  EXPECT_EQ(gradients, std::vector<std::uint64_t>(200));
}

TEST(CommunicatorPieces, OfWhichNothingIsToldAreNotTakenForGradients) {
  for (const auto known : {PiecewiseTensor::Known::kExtent, PiecewiseTensor::Known::kPadded}) {
    const Steps steps{{30000, 50000, 40000}, 8, known};
    EXPECT_EQ(gradients_of_steps({{"RINGPRESS_CODEC", "auto"}}, steps),
              std::vector<std::uint64_t>(8));
    // Unless all calls are taken for them.
    EXPECT_EQ(
        gradients_of_steps({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}}, steps),
        std::vector<std::uint64_t>(8, 6U));
  }
}

}  // namespace
}  // namespace ringpress::communicator_pieces_test
