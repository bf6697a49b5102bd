// What every codec promises (include/ringpress/internal/codec.h), as a typed test suite: include
// this file, then instantiate CodecContract with the specifications and types to hold to it.
#ifndef TESTS_CONTRACT_CODEC_CONTRACT_H_
#define TESTS_CONTRACT_CODEC_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing {

inline ErrorBound error_bound(const std::string& specification) {
  const auto parsed = parse_specification(specification);
  return parsed.value().codec.family->error_bound(parsed.value().codec, parsed.value().values);
}

inline std::size_t block_of(const std::string& specification) {
  return error_bound(specification).block;
}

class CodecContract : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  DType dtype() const { return std::get<1>(GetParam()); }

  std::unique_ptr<Codec> make(ReduceOp op = ReduceOp::kSum) const {
    auto codec = make_codec(std::get<0>(GetParam()), dtype(), op);
    EXPECT_TRUE(codec.is_ok()) << codec.status().message();
    return std::move(codec).value();
  }

  std::vector<std::byte> encode(const Codec& codec, const std::vector<std::byte>& values,
                                std::vector<float>* residual = nullptr,
                                std::vector<std::byte>* decoded = nullptr) const {
    std::vector<std::byte> wire(codec.wire_bytes(count_of(values)));
    EncodeArgs args;
    args.values = values.data();
    args.count = count_of(values);
    args.wire = wire.data();
    args.residual = residual == nullptr ? nullptr : residual->data();
    args.decoded = decoded == nullptr ? nullptr : decoded->data();
    expect_length(codec, args.count, codec.encode(args), &wire);
    return wire;
  }

  /// Cuts `wire` to what was written.
  static void expect_length(const Codec& codec, std::size_t count, std::size_t written,
                            std::vector<std::byte>* wire) {
    EXPECT_LE(written, codec.wire_bytes(count));
    if (codec.traits().fixed_size) {
      EXPECT_EQ(written, codec.wire_bytes(count));
    }
    wire->resize(written);
  }

  static DecodeArgs decode_args(const std::vector<std::byte>& wire, std::size_t count,
                                void* values) {
    DecodeArgs args;
    args.wire = wire.data();
    args.wire_size = wire.size();
    args.count = count;
    args.values = values;
    return args;
  }
  static DecodeAddArgs decode_add_args(const std::vector<std::byte>& wire, std::size_t count,
                                       void* sum) {
    DecodeAddArgs args;
    args.wire = wire.data();
    args.wire_size = wire.size();
    args.count = count;
    args.sum = sum;
    return args;
  }

  std::vector<float> decode(const Codec& codec, const std::vector<std::byte>& wire,
                            std::size_t count) const {
    std::vector<std::byte> values(count * dtype_size(dtype()));
    codec.decode(decode_args(wire, count, values.data()));
    return to_floats(values.data(), count, dtype());
  }

  /// Lossless codecs take no residual, but for "none".
  static bool takes_residual(const Codec& codec) {
    return !codec.traits().lossless || codec.specification() == "none";
  }

  std::vector<float> widen(const std::vector<std::byte>& values) const {
    return to_floats(values.data(), count_of(values), dtype());
  }

  std::size_t count_of(const std::vector<std::byte>& values) const {
    return values.size() / dtype_size(dtype());
  }

  std::vector<std::byte> draw(std::size_t count, Values kind, std::uint32_t seed) const {
    return to_elements(draw_floats(count, kind, seed), dtype());
  }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CodecContract);

TEST_P(CodecContract, ErrorOfABlockIsWithinTheStatedNorm) {
  const auto codec = make();
  const ErrorBound bound = error_bound(codec->specification());
  if (bound.of_norm == 0) return;  // ErrorIsWithinTheStatedBound has it by value.
  for (const Values kind : {Values::kNormal, Values::kSparse, Values::kTiny}) {
    const auto values = draw(3000, kind, 1);
    const auto x = widen(values);
    const auto y = decode(*codec, encode(*codec, values), x.size());
    for (std::size_t first = 0; first < x.size(); first += bound.block) {
      double error = 0;
      double norm = 0;
      double rounding = 0;  // The decoded value is rounded to the element type.
      for (std::size_t i = first; i < std::min(x.size(), first + bound.block); ++i) {
        error += std::pow(double{y[i]} - x[i], 2);
        norm += double{x[i]} * x[i];
        rounding += std::pow(0x1p-8 * y[i], 2) + 0x1p-48;
      }
      ASSERT_LE(std::sqrt(error),
                bound.of_norm * (1 + 0x1p-7) * std::sqrt(norm) + std::sqrt(rounding))
          << "block at " << first;
    }
  }
}

TEST_P(CodecContract, ErrorIsWithinTheStatedBound) {
  const auto codec = make();
  const ErrorBound bound = error_bound(codec->specification());
  if (bound.of_norm > 0) return;  // ErrorOfABlockIsWithinTheStatedNorm has it by block.
  const std::size_t block = bound.block;
  for (const Values kind : {Values::kNormal, Values::kSparse, Values::kTiny}) {
    const auto values = draw(3000, kind, 1);
    const auto x = widen(values);
    const auto y = decode(*codec, encode(*codec, values), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(i / block * block);
      const auto last =
          x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), (i / block + 1) * block));
      const auto [low, high] = std::minmax_element(first, last);
      const double magnitude = std::max(std::abs(*low), std::abs(*high));
      const double limit = bound.of_value * std::abs(x[i]) + bound.of_magnitude * magnitude +
                           bound.of_range * (double{*high} - *low) + bound.absolute;
      // The decoded value itself is rounded to the element type.
      const double rounding =
          codec->traits().lossless
              ? 0
              : 0x1p-8 * std::abs(y[i]) + 0x1p-24 * (dtype() == DType::kFloat16 ? 1 : 0);
      ASSERT_LE(std::abs(double{y[i]} - x[i]), limit + rounding)
          << "element " << i << " is " << x[i];
    }
  }
}

TEST_P(CodecContract, DecodedIsWhatDecodeGives) {
  const auto codec = make();
  for (const Values kind : kAllValues) {
    const auto values = draw(2500, kind, 2);
    std::vector<std::byte> decoded(values.size());
    const auto wire = encode(*codec, values, nullptr, &decoded);
    std::vector<std::byte> again(values.size());
    codec->decode(decode_args(wire, 2500, again.data()));
    EXPECT_EQ(first_difference(decoded.data(), again.data(), 2500, dtype()), 2500u);
    auto in_place = values;
    EXPECT_EQ(encode(*codec, values, nullptr, &in_place), wire);
    EXPECT_EQ(first_difference(in_place.data(), again.data(), 2500, dtype()), 2500u);
  }
}

TEST_P(CodecContract, ResidualIsWhatTheWireLost) {
  const auto codec = make();
  if (!takes_residual(*codec)) return;
  const auto values = draw(2500, Values::kNormal, 3);
  const auto x = widen(values);
  std::vector<float> residual = draw_floats(2500, Values::kNormal, 4);
  for (float& r : residual) r *= 0.125f;
  const std::vector<float> old = residual;
  const auto wire = encode(*codec, values, &residual);
  // Decoded as float32: the residual is taken before rounding to the element type.
  const auto exact =
      make_codec(codec->specification() == "none" ? (dtype() == DType::kFloat16    ? "fp16"
                                                     : dtype() == DType::kBfloat16 ? "bf16"
                                                                                   : "none")
                                                  : codec->specification(),
                 DType::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(exact.is_ok());
  std::vector<float> y(2500);
  exact.value()->decode(decode_args(wire, y.size(), y.data()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(residual[i], (x[i] + old[i]) - y[i]) << "element " << i;
  }
}

TEST_P(CodecContract, ResidualStaysFiniteWhateverComes) {
  const auto codec = make();
  if (!takes_residual(*codec)) return;
  std::vector<float> residual(3000, 0.0f);
  for (std::uint32_t call = 0; call < 20; ++call) {
    const Values kind = kAllValues[call % std::size(kAllValues)];
    encode(*codec, draw(residual.size(), kind, 100 + call), &residual);
    for (const float r : residual) ASSERT_TRUE(std::isfinite(r)) << "call " << call;
  }
}

TEST_P(CodecContract, NonFiniteValuesComeOutNonFiniteAndLeaveTheirResidual) {
  const auto codec = make();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float poison : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t position :
         {std::size_t{0}, std::size_t{127}, std::size_t{700}, std::size_t{1999}}) {
      auto floats = draw_floats(2000, Values::kNormal, 5);
      floats[position] = poison;
      const auto values = to_elements(floats, dtype());
      std::vector<float> residual(2000, 0.25f);
      const auto wire = encode(*codec, values, takes_residual(*codec) ? &residual : nullptr);
      const auto y = decode(*codec, wire, 2000);
      EXPECT_FALSE(std::isfinite(y[position]));
      EXPECT_EQ(residual[position], 0.25f);
      for (const float r : residual) ASSERT_TRUE(std::isfinite(r));
      const std::size_t block = block_of(codec->specification());
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i / block == position / block) continue;
        ASSERT_TRUE(std::isfinite(y[i])) << "element " << i << ", poison at " << position;
      }
    }
  }
}

TEST_P(CodecContract, ZerosDecodeToZeros) {
  const auto codec = make();
  for (const float zero : {0.0f, -0.0f}) {
    const std::vector<float> zeros(1500, zero);
    std::vector<float> residual(1500, 0.0f);
    const auto wire =
        encode(*codec, to_elements(zeros, dtype()), takes_residual(*codec) ? &residual : nullptr);
    for (const float y : decode(*codec, wire, 1500)) ASSERT_EQ(y, 0.0f);
    for (const float r : residual) ASSERT_EQ(r, 0.0f);
  }
}

TEST_P(CodecContract, WireBytesAreUsedUpToTheLastAndNotBeyond) {
  const auto codec = make();
  for (const std::size_t count : {0u, 1u, 2u, 7u, 15u, 31u, 33u, 127u, 129u, 1023u, 1025u, 2049u}) {
    const auto values = draw(count, Values::kNormal, 6);
    GuardedBuffer wire(codec->wire_bytes(count), 3);
    EncodeArgs args;
    args.values = values.data();
    args.count = count;
    args.wire = wire.data();
    const std::size_t written = codec->encode(args);
    const std::vector<std::byte> sent(wire.data(), wire.data() + written);
    GuardedBuffer output(values.size(), 1);
    codec->decode(decode_args(sent, count, output.data()));
    GuardedBuffer sum(count * sizeof(float), 1);
    std::memset(sum.data(), 0, sum.bytes());
    codec->decode_add(decode_add_args(sent, count, sum.data()));
    EXPECT_TRUE(wire.guards_intact() && output.guards_intact() && sum.guards_intact()) << count;
    EXPECT_EQ(codec->wire_bytes(count) == 0, count == 0);
  }
}

TEST_P(CodecContract, ChunksCutAtTilesMakeTheSameValues) {
  const auto codec = make();
  const Agreement* agreement = codec->agreement();
  if (agreement != nullptr && agreement->tensor_bytes() > 0) return;  // Goes by the whole tensor.
  // What a chunk that stands alone is projected on depends on its length.
  if (codec->projection() != nullptr) return;
  // Selects of each chunk what is largest there.
  if (codec->specification().ends_with("select=chunk")) return;
  const auto values = draw(3 * kTileElements + 100, Values::kNormal, 7);
  const std::size_t count = count_of(values);
  const auto whole = decode(*codec, encode(*codec, values), count);
  for (std::size_t first = 0; first < count; first += kTileElements) {
    const std::size_t length = std::min(kTileElements, count - first);
    std::vector<std::byte> wire(codec->wire_bytes(length));
    EncodeArgs args;
    args.values = values.data() + first * dtype_size(dtype());
    args.count = length;
    args.wire = wire.data();
    args.random.first_element = first;
    expect_length(*codec, length, codec->encode(args), &wire);
    const auto part = decode(*codec, wire, length);
    for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(part[i], whole[first + i]);
  }
}

/// The hop is decode, sums in order, division and encode, however many contributions there are.
TEST_P(CodecContract, HopIsTheCompositionOfItsParts) {
  const auto codec = make(ReduceOp::kAvg);
  const std::size_t count = 1400;
  for (std::size_t parts = 0; parts < 8; ++parts) {
    std::vector<std::vector<std::byte>> wires;
    std::vector<const std::byte*> pointers;
    std::vector<std::size_t> sizes;
    for (std::size_t k = 0; k < parts; ++k) {
      wires.push_back(encode(*codec, draw(count, Values::kNormal, 20 + static_cast<int>(k))));
    }
    for (const auto& wire : wires) {
      pointers.push_back(wire.data());
      sizes.push_back(wire.size());
    }
    const auto values = draw(count, Values::kNormal, 8);
    const auto own = widen(values);
    for (std::size_t own_position = 0; own_position <= parts; ++own_position) {
      // decode_add onto own values only equals the sum in order if own values come first; build the
      // sum from decode_add alone: 0 + first is exact.
      std::vector<float> sum(count, -0.0f);
      for (std::size_t position = 0; position <= parts; ++position) {
        if (position == own_position) {
          for (std::size_t i = 0; i < count; ++i) sum[i] += own[i];
        } else {
          const std::size_t k = position > own_position ? position - 1 : position;
          codec->decode_add(decode_add_args(wires[k], count, sum.data()));
        }
      }
      for (float& s : sum) s /= static_cast<float>(parts + 1);
      DecodeAddEncodeArgs args;
      args.wires = pointers;
      args.wire_sizes = sizes;
      args.own_position = own_position;
      args.values = values.data();
      args.count = count;
      args.divisor = parts + 1;
      std::vector<std::byte> result(values.size());
      args.decoded = result.data();
      EXPECT_EQ(codec->decode_add_encode(args), 0u);  // No wire: the plain average.
      ASSERT_EQ(result, to_elements(sum, dtype())) << parts << ' ' << own_position;
      std::vector<std::byte> wire(codec->wire_bytes(count));
      args.wire = wire.data();
      expect_length(*codec, count, codec->decode_add_encode(args), &wire);
      if (codec->traits().lossless) {
        std::vector<std::byte> decoded(values.size());
        codec->decode(decode_args(wire, count, decoded.data()));
        ASSERT_EQ(decoded, result) << parts << ' ' << own_position;
        continue;
      }
      const auto composed = make_codec(codec->specification(), DType::kFloat32, ReduceOp::kSum);
      std::vector<std::byte> expected(composed.value()->wire_bytes(count));
      EncodeArgs encode_args;
      encode_args.values = sum.data();
      encode_args.count = count;
      encode_args.wire = expected.data();
      expect_length(*codec, count, composed.value()->encode(encode_args), &expected);
      ASSERT_EQ(wire, expected) << parts << ' ' << own_position;
    }
  }
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_CONTRACT_CODEC_CONTRACT_H_
