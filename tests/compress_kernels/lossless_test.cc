// lossless: every bit pattern, the promised size, the ratio, and sums that are those of "none".
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/lossless/tile.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing::lossless_test {
namespace {

using Bytes = std::vector<std::byte>;
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

std::unique_ptr<Codec> make(const std::string& name, DType dtype, const std::string& isa = "",
                            ReduceOp op = ReduceOp::kSum) {
  EXPECT_TRUE(force_isa(isa).is_ok());
  auto codec = make_codec(name, dtype, op);
  EXPECT_TRUE(force_isa("").is_ok());
  return std::move(codec).value();
}

Bytes encode(const Codec& codec, const Bytes& values) {
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size() / dtype_size(codec.dtype());
  Bytes wire(codec.wire_bytes(args.count));
  args.wire = wire.data();
  wire.resize(codec.encode(args));
  return wire;
}

Bytes decode(const Codec& codec, const Bytes& wire, std::size_t count) {
  Bytes values(count * dtype_size(codec.dtype()), std::byte{0x77});
  DecodeArgs args;
  args.wire = wire.data();
  args.wire_size = wire.size();
  args.count = count;
  args.values = values.data();
  codec.decode(args);
  return values;
}

Bytes random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
  return bytes;
}

Bytes gaussian(std::size_t count, DType dtype, std::uint32_t seed, float scale = 1e-3f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> floats(count);
  for (float& x : floats) x = normal(engine);
  return to_elements(floats, dtype);
}

/// All bit patterns of 16 bits; of 32, all upper halves with some lower ones. In runs of equal
/// exponents, then shuffled among values that compress, so that tiles are coded.
Bytes all_patterns(DType dtype) {
  const std::size_t size = dtype_size(dtype);
  Bytes bytes;
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    const std::uint32_t bits = size == 4 ? upper << 16 | (upper * 40503u & 0xFFFFu) : upper;
    const auto* from = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), from, from + size);
  }
  Bytes mixed = gaussian(10 * 65536, dtype, 1);
  for (std::size_t i = 0; i < 65536; ++i) {
    const std::size_t at = i * 7919 % 65536 * 10 + i % 10;
    std::memcpy(mixed.data() + at * size, bytes.data() + i * size, size);
  }
  bytes.insert(bytes.end(), mixed.begin(), mixed.end());
  return bytes;
}

TEST(Lossless, EveryBitPatternSurvives) {
  for (const DType dtype : kTypes) {
    const Bytes values = all_patterns(dtype);
    for (const std::string& isa : available_isas()) {
      const auto codec = make("lossless", dtype, isa);
      const Bytes wire = encode(*codec, values);
      EXPECT_LT(wire.size(), values.size()) << "tiles are coded";
      const std::size_t count = values.size() / dtype_size(dtype);
      EXPECT_TRUE(decode(*codec, wire, count) == values) << dtype_name(dtype) << ' ' << isa;
    }
  }
}

TEST(Lossless, WhatDoesNotCompressIsSentAsItIs) {
  for (const DType dtype : kTypes) {
    const auto codec = make("lossless", dtype);
    for (const std::size_t count : {1u, 15u, 63u, 64u, 1000u, 1024u, 5000u, 100000u}) {
      const Bytes values = random_bytes(count * dtype_size(dtype), 3);
      EXPECT_EQ(codec->wire_bytes(count), values.size());
      // Even the bits of the exponent of a float16 are as random as can be.
      EXPECT_EQ(encode(*codec, values), values) << count;
    }
  }
}

/// One tile of noise costs its header; the others are coded as ever.
TEST(Lossless, NoiseInOneTileLeavesTheOthersAlone) {
  for (const DType dtype : kTypes) {
    const auto codec = make("lossless", dtype);
    const std::size_t tile = kTileElements * dtype_size(dtype);
    Bytes values = gaussian(8 * kTileElements, dtype, 4);
    const std::size_t before = encode(*codec, values).size();
    const Bytes noise = random_bytes(tile, 5);
    std::copy(noise.begin(), noise.end(), values.begin() + static_cast<std::ptrdiff_t>(3 * tile));
    const Bytes wire = encode(*codec, values);
    EXPECT_LE(wire.size(), before * 7 / 8 + tile + tile / 50);
    EXPECT_EQ(decode(*codec, wire, 8 * kTileElements), values);
  }
}

TEST(Lossless, TilesOfZerosTakeTwoBytes) {
  const auto codec = make("lossless", DType::kFloat32);
  EXPECT_EQ(encode(*codec, Bytes(10 * kTileElements * 4)).size(), 20u);
}

double entropy_of_exponents(const Bytes& values) {
  std::vector<double> seen(256);
  const std::size_t count = values.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    ++seen[core::load_element<std::uint16_t>(values.data(), i) >> 7 & 255];
  }
  double bits = 0;
  for (const double n : seen) {
    if (n > 0) bits -= n / static_cast<double>(count) * std::log2(n / static_cast<double>(count));
  }
  return bits;
}

/// At any scale, also where a few per cent are zero.
TEST(Lossless, BrainFloatsComeWithinFourPercentOfTheEntropy) {
  const auto codec = make("lossless", DType::kBfloat16);
  for (const float scale : {1e-30f, 1e-3f, 1.0f, 1e30f}) {
    for (const std::size_t zero_every : {0u, 20u}) {
      Bytes values = gaussian(1 << 16, DType::kBfloat16, 6, scale);
      for (std::size_t i = 0; zero_every > 0 && i < values.size() / 2; i += zero_every) {
        std::memset(values.data() + 2 * i, 0, 2);
      }
      const double floor = (8 + entropy_of_exponents(values)) * (1 << 16) / 8;
      EXPECT_LE(static_cast<double>(encode(*codec, values).size()), 1.04 * floor) << scale;
    }
  }
}

/// What a wire decodes to that was cut off: whole tiles, then zeros.
TEST(Lossless, AWireThatIsCutOffDecodesToItsTilesAndZeros) {
  const std::size_t count = 5 * kTileElements + 300;
  for (const DType dtype : kTypes) {
    const Bytes values = gaussian(count, dtype, 7);
    const Bytes wire = encode(*make("lossless", dtype), values);
    for (std::size_t size = 0; size < wire.size(); size += 97) {
      const Bytes part(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(size));
      const Bytes expected = decode(*make("lossless", dtype, "scalar"), part, count);
      const std::size_t tile = kTileElements * dtype_size(dtype);
      std::size_t intact = 0;
      while (intact < values.size() && expected[intact] == values[intact]) ++intact;
      const Bytes rest(expected.begin() + static_cast<std::ptrdiff_t>(intact / tile * tile),
                       expected.end());
      EXPECT_EQ(rest, Bytes(rest.size())) << size;
      for (const std::string& isa : available_isas()) {
        EXPECT_EQ(decode(*make("lossless", dtype, isa), part, count), expected) << isa << size;
      }
    }
  }
}

/// A hop by a codec; gives the wire decoded.
Bytes hop(const Codec& codec, const std::vector<Bytes>& wires, std::size_t own_position,
          const Bytes& own, std::size_t divisor, bool keeps_decoded) {
  std::vector<const std::byte*> pointers;
  std::vector<std::size_t> sizes;
  for (const Bytes& wire : wires) {
    pointers.push_back(wire.data());
    sizes.push_back(wire.size());
  }
  Bytes in_place = own;
  DecodeAddEncodeArgs args;
  args.wires = pointers;
  args.wire_sizes = sizes;
  args.own_position = own_position;
  args.values = in_place.data();
  args.count = own.size() / dtype_size(codec.dtype());
  args.divisor = divisor;
  if (keeps_decoded) args.decoded = in_place.data();
  Bytes wire(codec.wire_bytes(args.count));
  args.wire = wire.data();
  wire.resize(codec.decode_add_encode(args));
  Bytes result = decode(codec, wire, args.count);
  EXPECT_TRUE(!keeps_decoded || in_place == result);
  return result;
}

/// Sums of values that compress, and of noise that does not (without exponents of infinity, as
/// which NaN a sum makes is the processor's choice).
TEST(Lossless, SumsAreThoseOfNone) {
  const std::size_t count = 3 * kTileElements + 77;
  for (const DType dtype : kTypes) {
    for (const bool noise : {false, true}) {
      const auto draw = [&](std::uint32_t seed) {
        if (!noise) return gaussian(count, dtype, seed);
        Bytes bytes = random_bytes(count * dtype_size(dtype), seed);
        const std::size_t size = dtype_size(dtype);
        for (std::size_t i = size - 1; i < bytes.size(); i += size) bytes[i] &= std::byte{0xBB};
        return bytes;
      };
      for (const std::string& isa : available_isas()) {
        const auto none = make("none", dtype, isa, ReduceOp::kAvg);
        const auto lossless = make("lossless", dtype, isa, ReduceOp::kAvg);
        for (std::size_t parts = 1; parts < 5; ++parts) {
          std::vector<Bytes> plain;
          std::vector<Bytes> wires;
          for (std::size_t k = 0; k < parts; ++k) {
            plain.push_back(draw(static_cast<std::uint32_t>(10 + k)));
            wires.push_back(encode(*lossless, plain.back()));
          }
          const std::size_t own = parts / 2;
          for (const bool keeps : {false, true}) {
            EXPECT_EQ(hop(*lossless, wires, own, draw(9), parts + 1, keeps),
                      hop(*none, plain, own, draw(9), parts + 1, keeps))
                << dtype_name(dtype) << ' ' << isa << ' ' << parts << ' ' << noise;
          }
        }
      }
    }
  }
}

/// Codes and exponents are each other's inverse in every window.
TEST(Lossless, CodesOfEveryWindow) {
  for (int first = 0; first < 256; ++first) {
    for (int from = 0; from <= 7; ++from) {
      for (const bool has_zero : {false, true}) {
        const lossless::Window window{static_cast<std::uint8_t>(first),
                                      static_cast<std::uint8_t>(from), has_zero};
        int coded = 0;
        for (int exponent = 0; exponent < 256; ++exponent) {
          const auto code = lossless::code_of(static_cast<std::uint8_t>(exponent), window);
          if (code == lossless::kEscape) continue;
          ++coded;
          // Seven below the short codes leave no place above them to give to zeros.
          if (has_zero && from == 7) continue;
          ASSERT_EQ(lossless::exponent_of(code, window), exponent) << first << ' ' << from;
        }
        ASSERT_GE(coded, 9);
        ASSERT_LE(coded, 10);
      }
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::lossless_test
