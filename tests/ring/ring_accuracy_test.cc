// A ring whose partial sums take more bits stays about as accurate as two quantisations.
#include <random>

#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

struct Outcome {
  double error = 0;  // Squared, relative to the sum.
  std::uint64_t sent_bytes = 0;
};

std::vector<std::vector<float>> gaussian_inputs(const CollectiveCase& c) {
  std::vector<std::vector<float>> inputs(static_cast<std::size_t>(c.world),
                                         std::vector<float>(c.count));
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (auto& input : inputs) {
    for (float& value : input) value = normal(engine);
  }
  return inputs;
}

Outcome measure(const CollectiveCase& c, const std::vector<std::vector<float>>& inputs) {
  Outcome outcome;
  const auto results = all_reduce_results(c, inputs, nullptr, 0, &outcome.sent_bytes);
  expect_identical(results);
  outcome.error = std::pow(relative_error(results[0], exact_sum(inputs, c.op)), 2);
  return outcome;
}

/// Independent values at 16 ranks: at most 1.3 times the error for at most 1.15 times the bytes.
/// Equal bits throughout make it more than three times worse.
TEST(RingAccuracy, StaysNearThatOfTwoQuantisations) {
  for (const std::string codec : {"q4:grid=lloyd", "q4:grid=uniform"}) {
    CollectiveCase c;
    c.world = 16;
    c.count = 16 * 16384;
    c.chunk_elements = 16384;
    c.codec = codec;
    c.algorithm = Algorithm::kSra;
    const auto inputs = gaussian_inputs(c);
    const Outcome sra = measure(c, inputs);
    c.algorithm = Algorithm::kRing;
    const Outcome ring = measure(c, inputs);
    c.codec = codec + ",partial=same";
    const Outcome plain = measure(c, inputs);
    EXPECT_LE(ring.error, 1.3 * sra.error) << codec;
    EXPECT_LE(static_cast<double>(ring.sent_bytes), 1.15 * static_cast<double>(sra.sent_bytes))
        << codec;
    EXPECT_GE(plain.error, 3 * sra.error) << codec;
  }
}

}  // namespace
}  // namespace ringpress::testing
