// A ring whose partial sums come from two sides and take more bits stays about as accurate as two
// quantisations.
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

/// Ranks that differ by a tenth: sums grow as their number does, and so do their errors.
std::vector<std::vector<float>> alike_inputs(const CollectiveCase& c) {
  auto inputs = gaussian_inputs(c);
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    for (std::size_t i = 0; i < c.count; ++i) {
      inputs[rank][i] = inputs[0][i] + 0.1f * inputs[rank][i];
    }
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

struct Ratios {
  double error = 0;
  double bytes = 0;
};

/// Of the ring to `sra`, with 16 ranks.
Ratios ring_to_sra(const std::string& codec, bool alike) {
  CollectiveCase c;
  c.world = 16;
  c.count = 16 * 8192;
  c.chunk_elements = 8192;
  c.codec = codec;
  c.algorithm = Algorithm::kSra;
  const auto inputs = alike ? alike_inputs(c) : gaussian_inputs(c);
  const Outcome sra = measure(c, inputs);
  c.algorithm = Algorithm::kRing;
  const Outcome ring = measure(c, inputs);
  return {ring.error / sra.error,
          static_cast<double>(ring.sent_bytes) / static_cast<double>(sra.sent_bytes)};
}

/// At most 1.3 times the error for at most 1.15 times the bytes.
TEST(RingAccuracy, StaysNearThatOfTwoQuantisations) {
  for (const std::string codec :
       {"q2", "q3", "q4", "q8", "q2:grid=minmax", "q4:grid=minmax", "q8:grid=minmax",
        "q2:grid=lloyd", "q3:grid=lloyd", "q4:grid=lloyd", "q8:grid=lloyd"}) {
    for (const bool alike : {false, true}) {
      const Ratios ratios = ring_to_sra(codec, alike);
      EXPECT_LE(ratios.error, 1.3) << codec << (alike ? ", ranks are alike" : "");
      EXPECT_LE(ratios.bytes, 1.15) << codec;
    }
  }
}

/// What the additional bits are for.
TEST(RingAccuracy, EqualBitsThroughoutMakeItTwiceAsBad) {
  for (const std::string codec : {"q4:partial=same", "q8:partial=same"}) {
    const Ratios ratios = ring_to_sra(codec, false);
    EXPECT_GE(ratios.error, 2) << codec;
    EXPECT_LE(ratios.bytes, 1.001) << codec;
  }
}

}  // namespace
}  // namespace ringpress::testing
