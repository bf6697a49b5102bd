// topk: that nothing is lost, and what is on the wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/specification.h"
#include "compress_kernels/topk/kernels.h"
#include "compress_kernels/topk/topk.h"
#include "compress_kernels/topk/value_code.h"
#include "tests/compress_kernels/topk_rank.h"

namespace ringpress::compress_kernels::testing::topk_test {
namespace {

/// Sum of all that was decoded, and what residuals still hold, against the sum of all values.
TEST(TopkErrorFeedback, LosesNothingInTwentySteps) {
  for (const char* specification : {"topk", "topk:density=0.2", "topk:density=0.03,value=16"}) {
    for (const std::size_t divisor : {1u, 3u}) {
      const auto codec = make(specification);
      const std::size_t count = 70000;
      std::vector<Floats> residuals(3, Floats(count));
      std::vector<double> given(count);
      std::vector<double> taken(count);
      for (std::uint32_t step = 0; step < 20; ++step) {
        std::vector<Floats> inputs;
        std::vector<Bytes> wires;
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
          inputs.push_back(draw(count, std::student_t_distribution<double>(3), 10 * step + rank));
          for (std::size_t i = 0; i < count; ++i) given[i] += inputs[rank][i];
        }
        for (const std::size_t rank : {0u, 2u}) {
          wires.push_back(Rank(*codec, inputs[rank], &residuals[rank]).encode(0, count, 3));
        }
        const Rank owner(*codec, inputs[1], &residuals[1]);
        const Floats result = decode(*codec, owner.reduce(0, count, wires, 1, divisor), count);
        for (std::size_t i = 0; i < count; ++i) {
          taken[i] += result[i] * static_cast<double>(divisor);
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        const double left = double{residuals[0][i]} + residuals[1][i] + residuals[2][i];
        ASSERT_NEAR(taken[i] + left, given[i], 2e-5 * (1 + std::abs(given[i]))) << i;
      }
    }
  }
}

TEST(TopkErrorFeedback, ResidualIsWhatWasNotSentToTheBit) {
  const auto codec = make("topk:density=0.1");
  const Floats values = draw(3000, std::normal_distribution<double>(), 1);
  Floats residual = draw(3000, std::normal_distribution<double>(), 2);
  const Floats old = residual;
  const Floats decoded =
      decode(*codec, Rank(*codec, values, &residual).encode(0, values.size()), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(residual[i], (values[i] + old[i]) - decoded[i]) << i;
  }
}

/// The owner's result is the sum of what was selected, rounded; its own values that were not are in
/// its residual and nowhere else.
TEST(TopkReduce, AddsWhatWasSelectedAndNoMore) {
  const auto codec = make("topk:density=0.02,value=16");
  const std::size_t count = 66000;
  const Floats a = draw(count, std::normal_distribution<double>(), 1);
  const Floats b = draw(count, std::normal_distribution<double>(), 2);
  Floats residual(count, 0.0f);
  const Bytes wire = Rank(*codec, a, nullptr).encode(0, count);
  const Rank owner(*codec, b, &residual);
  const Floats result = decode(*codec, owner.reduce(0, count, {wire}, 1), count);
  const Floats sent = decode(*codec, wire, count);
  std::size_t both = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool own = topk::key_of(core::magnitude_bits(b[i]), i) >= owner.summary;
    const float sum = sent[i] + (own ? b[i] : 0.0f);
    ASSERT_NEAR(result[i], sum, std::abs(sum) * 0x1p-8) << i;
    ASSERT_EQ(residual[i], (own ? 0.0f : b[i]) + (sum - result[i])) << i;
    if (own && sent[i] != 0) ++both;
  }
  EXPECT_GT(both, 5u);
}

TEST(TopkReduce, EndOfAReduceScatterIsThePlainSumOfWhatWasSelected) {
  const auto codec = make("topk:density=0.02,value=16", DType::kFloat32, ReduceOp::kAvg);
  const std::size_t count = 3000;
  const Floats a = draw(count, std::normal_distribution<double>(), 1);
  const Floats b = draw(count, std::normal_distribution<double>(), 2);
  const Bytes wire = Rank(*codec, a, nullptr).encode(0, count);
  const Floats sent = decode(*codec, wire, count);
  const Rank owner(*codec, b, nullptr);
  Bytes unused;
  auto args = owner.arguments<DecodeAddEncodeArgs>(0, count, 2, &unused);
  const std::byte* wires[] = {wire.data()};
  const std::size_t sizes[] = {wire.size()};
  Floats result(count);
  args.wires = wires;
  args.wire_sizes = sizes;
  args.wire = nullptr;
  args.divisor = 2;
  args.decoded = result.data();
  EXPECT_EQ(codec->decode_add_encode(args), 0u);
  for (std::size_t i = 0; i < count; ++i) {
    const bool own = topk::key_of(core::magnitude_bits(b[i]), i) >= owner.summary;
    ASSERT_EQ(result[i], (sent[i] + (own ? b[i] : 0.0f)) / 2) << i;
  }
}

/// Bits per selected value: those of the value, and little above the entropy of its place.
TEST(TopkWire, CostsLittleMoreThanEntropy) {
  const std::size_t count = 16 * 65536;
  const Floats values = draw(count, std::normal_distribution<double>());
  for (const double density : {0.001, 0.01, 0.05, 0.2}) {
    const auto codec = make(topk_of(density));
    const Bytes wire = Rank(*codec, values, nullptr).encode(0, count);
    const double place = std::log2(1 / density) - (1 - density) / density * std::log2(1 - density);
    const double bits = 8.0 * static_cast<double>(wire.size()) / (density * count);
    EXPECT_LT(bits, (8 + place) * (density < 0.01 ? 1.06 : 1.015)) << density;
  }
}

TEST(TopkWire, UnionCostsAsMuchAsItsPlacesAndNeverMoreThanDense) {
  const std::size_t count = 2 * 65536;
  for (const std::size_t world : {2u, 4u, 16u}) {
    for (const double density : {0.01, 0.2}) {
      const auto codec = make(topk_of(density));
      std::vector<Floats> inputs;
      std::vector<Bytes> wires;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        inputs.push_back(draw(count, std::normal_distribution<double>(), rank));
        if (rank > 0) wires.push_back(Rank(*codec, inputs[rank], nullptr).encode(0, count, world));
      }
      const Bytes sum = Rank(*codec, inputs[0], nullptr).reduce(0, count, wires, 0);
      const double united = 1 - std::pow(1 - density, world);
      const double place = -std::log2(united) - (1 - united) / united * std::log2(1 - united);
      const double expected = std::min(1.0, united * (8 + place) / 8) * count;
      EXPECT_LT(sum.size(), expected * 1.04) << world << " ranks, density " << density;
      EXPECT_LT(sum.size(), count * 1.01);
      EXPECT_GT(sum.size(), expected * 0.9);
    }
  }
}

TEST(TopkWire, CutOrChangedBytesDecodeToSomethingAndTheRestToZeros) {
  const std::size_t count = 3 * 65536 + 11;
  const Floats values = draw(count, std::student_t_distribution<double>(3));
  std::mt19937 engine(9);
  for (const char* specification : {"topk", "topk:density=0.5", "topk:density=0.0001,value=16"}) {
    const auto codec = make(specification);
    const Bytes whole = Rank(*codec, values, nullptr).encode(0, count);
    const Floats expected = decode(*codec, whole, count);
    for (int trial = 0; trial < 60; ++trial) {
      const std::size_t cut = engine() % whole.size();
      // A copy of its own, so that a sanitizer sees reads beyond the end.
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
      const Floats decoded = decode(*codec, part, count);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(decoded[i] == expected[i] || decoded[i] == 0) << i;
      }
      Bytes changed = part;
      for (int k = 0; k < 20 && !changed.empty(); ++k) {
        changed[engine() % changed.size()] = static_cast<std::byte>(engine());
      }
      if (trial % 3 == 0) {
        for (std::byte& b : changed) b = static_cast<std::byte>(engine());
      }
      decode(*codec, changed, count);
    }
  }
}

TEST(TopkValues, ErrorsAreSmallBesideTheValues) {
  for (const double octaves : {0.0, 1.0, 3.0, 8.0}) {
    std::mt19937 engine(4);
    std::uniform_real_distribution<double> exponent(0, octaves);
    Floats values(1000);
    for (float& value : values) value = static_cast<float>(1e-3 * std::exp2(exponent(engine)));
    std::byte wire[topk::kScaleBytes + 1000];
    float decoded[1000];
    topk::reference_kernels().write_values(8, values.data(), values.size(), wire, decoded);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(decoded[i] - values[i]), values[i] * (0.004 + 0.004 * octaves));
    }
  }
}

TEST(TopkValues, AnyScaleDecodesToFiniteMagnitudes) {
  for (const std::uint32_t high : {0u, 1u, 0x3F80u, 0x7F7Fu, 0x7F80u, 0xFFFFu}) {
    for (const std::uint32_t low : {0u, 1u, 0x3F80u, 0x7F7Fu, 0xFFFFu}) {
      const topk::Grid grid =
          topk::grid_of({static_cast<std::uint16_t>(high), static_cast<std::uint16_t>(low)});
      for (std::uint32_t code = 0; code < 256; ++code) {
        const float value = topk::decode_value(static_cast<std::uint8_t>(code), grid);
        EXPECT_EQ(std::isfinite(value), code % 128 != 127);
      }
    }
  }
}

TEST(TopkParameters, AreChecked) {
  const auto refusal = [](const std::string& text) {
    return normalize_specification(text).status().message();
  };
  EXPECT_EQ(normalize_specification("topk").value(), "topk:density=0.01,value=8,select=tensor");
  EXPECT_EQ(normalize_specification("topk:density=0.0100,value=16").value(),
            "topk:density=0.01,value=16,select=tensor");
  EXPECT_EQ(normalize_specification("topk:density=1e-5").value(),
            normalize_specification("topk:density=0.00001").value());
  for (const char* bad : {"0", "-0.1", "0.6", "nan", "1e-6", "", "0.1x", "inf"}) {
    const std::string message = refusal(std::string("topk:density=") + bad);
    EXPECT_NE(message.find("density"), std::string::npos) << bad;
    EXPECT_NE(message.find("from 0.00001 to 0.5"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("topk:density=0").find("maybe 0.00001?"), std::string::npos);
  EXPECT_NE(refusal("topk:value=4").find("8 or 16 (maybe 8?)"), std::string::npos);
  EXPECT_NE(refusal("topk:select=chunks").find("tensor or chunk (maybe chunk?)"),
            std::string::npos);
  EXPECT_NE(refusal("topk:densty=0.1").find("maybe density?"), std::string::npos);
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::topk_test
