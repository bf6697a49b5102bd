// topk:select=chunk: what is selected, that nothing is lost, and what is on the wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/factory.h"
#include "tests/compress_kernels/topk_rank.h"

namespace ringpress::compress_kernels::testing::chunk_topk_test {
namespace {

std::string chunk_topk_of(double density, int value_bits = 8) {
  return topk_of(density) + ",select=chunk,value=" + std::to_string(value_bits);
}

Bytes encode(const Codec& codec, const Floats& values, Floats* residual = nullptr) {
  Bytes wire(codec.wire_bytes(values.size()));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.residual = residual == nullptr ? nullptr : residual->data();
  args.wire = wire.data();
  EXPECT_EQ(codec.encode(args), wire.size());
  return wire;
}

Bytes hop(const Codec& codec, const std::vector<Bytes>& wires, const Floats& own,
          std::size_t divisor, Floats* residual) {
  std::vector<const std::byte*> pointers;
  for (const Bytes& wire : wires) pointers.push_back(wire.data());
  Bytes wire(codec.wire_bytes(own.size()));
  DecodeAddEncodeArgs args;
  args.wires = pointers;
  args.own_position = 1;
  args.values = own.data();
  args.count = own.size();
  args.divisor = divisor;
  args.residual = residual == nullptr ? nullptr : residual->data();
  args.wire = wire.data();
  codec.decode_add_encode(args);
  return wire;
}

/// Whatever the tiles hold, each has bytes of its own, which are enough, and all lie in the chunk.
TEST(ChunkTopkLayout, TilesShareNoByte) {
  std::mt19937 engine(1);
  for (const double density : {0.00001, 0.0003, 0.01, 0.03, 0.3, 0.5}) {
    for (const std::size_t count : {1u, 5u, 8191u, 8192u, 8193u, 30000u, 81920u}) {
      const ChunkTopkParameters parameters{density, 8, DType::kFloat32};
      const chunk_topk::Layout layout = chunk_topk::layout_of(parameters, count);
      std::size_t before = 0;
      std::size_t low_end = layout.values() + layout.room;
      std::size_t high_end = layout.low(layout.tiles(), layout.room);
      for (std::size_t tile = 0; tile < layout.tiles(); ++tile) {
        const std::size_t most = std::min(layout.elements(tile), layout.room - before);
        const std::size_t sent = engine() % 4 == 0 ? most : engine() % (most + 1);
        EXPECT_GE(layout.low(tile, before), low_end);
        EXPECT_GE(layout.high(tile, before), high_end);
        low_end = layout.low(tile, before) + (sent * layout.low_bits + 7) / 8;
        high_end = layout.high(tile, before) + (layout.parts(tile) + sent + 7) / 8;
        before += sent;
      }
      EXPECT_LE(low_end, layout.high(0, 0));
      EXPECT_LE(high_end, layout.bytes());
      EXPECT_EQ(layout.bytes(), encoded_bytes(parameters, count));
      // Of a longer chunk there is room for shorter ones.
      EXPECT_LE(layout.bytes(), encoded_bytes(parameters, count + 1 + engine() % 5000));
    }
  }
}

TEST(ChunkTopkWire, CostsSeventeenBitsForOneOfAHundred) {
  const std::size_t count = std::size_t{1} << 20;
  const auto codec = make(chunk_topk_of(0.01));
  const double bits = 8.0 * static_cast<double>(codec->wire_bytes(count));
  EXPECT_TRUE(codec->traits().fixed_size);
  EXPECT_EQ(codec->agreement(), nullptr);
  EXPECT_LT(bits / (0.01 * count), 17.6);
}

TEST(ChunkTopkSelection, TakesTheLargestClassesAndTheFirstOfTheLast) {
  for (const double density : {0.001, 0.01, 0.2, 0.5}) {
    const auto codec = make(chunk_topk_of(density, 16));
    for (const std::size_t count : {100u, 8192u, 30001u}) {
      Floats values = draw(count, std::student_t_distribution<double>(3), 7);
      for (std::size_t i = 0; i < count; i += 3) values[i] = 0.75f;  // Ties.
      const Floats decoded = decode(*codec, encode(*codec, values), count);
      const std::size_t room = topk::selected_count(density, count);
      EXPECT_EQ(count - static_cast<std::size_t>(std::count(decoded.begin(), decoded.end(), 0)),
                room);
      std::uint32_t smallest_sent = chunk_topk::kLargestClass;
      for (std::size_t i = 0; i < count; ++i) {
        if (decoded[i] != 0)
          smallest_sent = std::min(smallest_sent, chunk_topk::class_of(values[i]));
      }
      bool is_full = false;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t value_class = chunk_topk::class_of(values[i]);
        if (decoded[i] == 0) {
          EXPECT_LE(value_class, smallest_sent);
          is_full = is_full || value_class == smallest_sent;
        } else if (value_class == smallest_sent) {
          EXPECT_FALSE(is_full) << i << " is sent, one before it is not";
        }
      }
    }
  }
}

TEST(ChunkTopkSelection, ZerosAreNeverSent) {
  const auto codec = make(chunk_topk_of(0.5, 16));
  Floats values(20000, -0.0f);
  values[7] = 1e-40f;  // Below the smallest class.
  values[9000] = 1e-38f;
  values[19999] = -3;
  Floats residual(values.size(), 0.0f);
  const Floats decoded = decode(*codec, encode(*codec, values, &residual), values.size());
  EXPECT_EQ(std::count(decoded.begin(), decoded.end(), 0), 19998);
  EXPECT_EQ(decoded[19999], -3);
  EXPECT_EQ(residual[7], 1e-40f);
}

TEST(ChunkTopkNan, NoneGetsLost) {
  for (const int value_bits : {8, 16}) {
    const auto codec = make(chunk_topk_of(0.001, value_bits));  // 20 have room.
    for (const std::size_t poisoned : {1u, 20u, 21u, 5000u}) {
      Floats values = draw(20000, std::normal_distribution<double>(), 2);
      for (std::size_t i = 0; i < poisoned; ++i) {
        values[i * 4 + 3] = i % 2 == 0 ? std::nanf("") : -std::numeric_limits<float>::infinity();
      }
      Floats residual(values.size(), 0.125f);
      const Bytes wire = encode(*codec, values, &residual);
      const Floats decoded = decode(*codec, wire, values.size());
      const Floats own(values.size(), 1.0f);
      const Floats summed = decode(*codec, hop(*codec, {wire}, own, 1, nullptr), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_marked = poisoned > 20;
        const bool is_lost = is_marked || !std::isfinite(values[i]);
        ASSERT_EQ(std::isfinite(decoded[i]), !is_lost) << i;
        ASSERT_EQ(std::isfinite(summed[i]), !is_lost) << i;
        ASSERT_EQ(residual[i], is_lost ? 0.125f : values[i] + 0.125f - decoded[i]) << i;
      }
    }
  }
}

/// Sum of all that was decoded, and what residuals still hold, against the sum of all values.
TEST(ChunkTopkErrorFeedback, LosesNothingInTwentySteps) {
  for (const std::size_t divisor : {1u, 3u}) {
    const auto codec = make(chunk_topk_of(0.03));
    const std::size_t count = 20000;
    std::vector<Floats> residuals(3, Floats(count));
    std::vector<double> given(count), taken(count);
    for (std::uint32_t step = 0; step < 20; ++step) {
      std::vector<Floats> inputs;
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        inputs.push_back(draw(count, std::student_t_distribution<double>(3), 10 * step + rank));
        for (std::size_t i = 0; i < count; ++i) given[i] += inputs[rank][i];
      }
      const std::vector<Bytes> wires = {encode(*codec, inputs[0], &residuals[0]),
                                        encode(*codec, inputs[2], &residuals[2])};
      const Floats result =
          decode(*codec, hop(*codec, wires, inputs[1], divisor, &residuals[1]), count);
      for (std::size_t i = 0; i < count; ++i) taken[i] += double{result[i]} * divisor;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double left =
          double{residuals[0][i]} + residuals[2][i] + double{residuals[1][i]} * divisor;
      ASSERT_NEAR(taken[i] + left, given[i], 2e-5 * (1 + std::abs(given[i]))) << i;
    }
  }
}

/// Several tiles, of which the bytes name too few elements, the same ones twice, or none.
TEST(ChunkTopkWire, AnyBytesDecodeAlike) {
  std::mt19937 engine(9);
  for (const double density : {0.00001, 0.01, 0.5}) {
    const std::size_t count = 3 * chunk_topk::kTile + 11;
    const std::string specification = chunk_topk_of(density);
    ASSERT_TRUE(force_isa("scalar").is_ok());
    const auto reference = make(specification);
    ASSERT_TRUE(force_isa("").is_ok());
    const auto codec = make(specification);
    const Bytes whole = encode(*codec, draw(count, std::normal_distribution<double>()));
    for (int trial = 0; trial < 60; ++trial) {
      Bytes changed = whole;
      for (int k = 0; k < 1 + trial % 20; ++k) {
        changed[engine() % changed.size()] = static_cast<std::byte>(engine());
      }
      // The directory, which all depends on.
      if (trial % 3 == 0) changed[engine() % 16] = static_cast<std::byte>(engine());
      const Floats expected = decode(*reference, changed, count);
      const Floats actual = decode(*codec, changed, count);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(actual[i] == expected[i] || std::isnan(expected[i])) << i;
        ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << i;
      }
    }
  }
}

TEST(ChunkTopkParameters, StreamsChooseTheFormThatTheyCanDo) {
  EXPECT_EQ(stream_specification("topk"), "topk:density=0.01,value=8,select=chunk");
  EXPECT_EQ(stream_specification("topk:value=16"), "topk:density=0.01,value=16,select=chunk");
  EXPECT_EQ(stream_specification("topk:select=chunk"), "topk:select=chunk");
  EXPECT_EQ(stream_specification("topk:select=tensor"), "topk:select=tensor");
  for (const char* other : {"q4", "q4:block=64", "auto", "lossless", "topk:density=7", ""}) {
    EXPECT_EQ(stream_specification(other), other);
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::chunk_topk_test
