// Coordinate scales: codes, their kernels on every instruction set, and codecs that have them.
#include "compress_kernels/scales/scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/isa.h"

namespace ringpress::compress_kernels::scales_test {
namespace {

using Floats = std::vector<float>;
using Codes = std::vector<std::uint8_t>;
using Bytes = std::vector<std::byte>;

Floats normal_values(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

Codes random_codes(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  Codes codes(count);
  for (auto& code : codes) {
    code = static_cast<std::uint8_t>(engine() % (scales::kLargestScale + 1U));
  }
  return codes;
}

/// Values of which each coordinate has a size of its own, from 1 to some 20.
Floats sized_values(std::size_t count, unsigned seed) {
  Floats values = normal_values(count, seed);
  for (std::size_t i = 0; i < count; ++i)
    values[i] *= std::exp2(static_cast<float>(i * 37 % 10) / 2);
  return values;
}

/// Codes that many such results lead to.
Codes codes_of_sized_values(std::size_t count, std::size_t block) {
  Floats squares(count);
  for (unsigned call = 1; call <= 50; ++call) {
    learn_scales(sized_values(count, 100 + call).data(), count, DType::kFloat32,
                 std::max(0.1F, 1.0F / static_cast<float>(call)), squares.data());
  }
  Codes codes(count);
  find_scales(squares.data(), count, block, codes.data());
  return codes;
}

TEST(Scales, AreHalvesOfOctaves) {
  const Floats expected = {1, 1.5F, 2, 3, 4, 6, 8, 12, 16};
  for (std::uint8_t code = 0; code <= scales::kLargestScale; ++code) {
    EXPECT_EQ(scales::scale_of(code), expected[code]);
    EXPECT_EQ(scales::inverse_scale_of(code), 1 / expected[code]);
  }
}

/// What `as_bytes` says on each instruction set is the same.
template <typename AsBytes>
void expect_same_on_all_isas(AsBytes&& as_bytes, const std::string& what) {
  Bytes reference;
  for (const std::string& isa : available_isas()) {
    ASSERT_TRUE(force_isa(isa).is_ok());
    const Bytes bytes = as_bytes();
    if (isa == "scalar") reference = bytes;
    EXPECT_TRUE(bytes == reference) << what << " on " << isa;
  }
  ASSERT_TRUE(force_isa("").is_ok());
}

/// In type `dtype`, `offset` bytes into the array.
Bytes array_of(const Floats& values, DType dtype, std::size_t offset) {
  Bytes bytes(offset + values.size() * dtype_size(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    core::store_wide(dtype, bytes.data() + offset, i, values[i]);
  }
  return bytes;
}

struct Made {
  std::size_t wire = 0;
  Bytes wires, decoded, residual, sum, hop_wire, hop_decoded, hop_residual, end;

  Bytes all() const {
    Bytes bytes;
    for (const Bytes* part :
         {&wires, &decoded, &residual, &sum, &hop_wire, &hop_decoded, &hop_residual, &end}) {
      bytes.insert(bytes.end(), part->begin(), part->end());
    }
    return bytes;
  }
};

/// Every operation of a codec, on the selected instruction set.
Made make_all(const std::string& specification, DType dtype, const Floats& values,
              const Codes& codes, std::size_t offset) {
  const auto codec = make_scaled_codec(specification, dtype, ReduceOp::kSum).value();
  const std::size_t count = values.size();
  const Bytes own = array_of(values, dtype, offset);
  Made made;
  const Contributions one{1, 3}, all{3, 3};
  made.residual = array_of(normal_values(count, 5), DType::kFloat32, 0);
  made.decoded.resize(own.size());
  made.wires.resize(codec->wire_bytes(count, one));
  EncodeArgs encoding;
  encoding.values = own.data() + offset;
  encoding.count = count;
  encoding.residual = reinterpret_cast<float*>(made.residual.data());
  encoding.wire = made.wires.data();
  encoding.decoded = made.decoded.data() + offset;
  encoding.random = {1, 2, 3, 4096};
  encoding.form = one;
  encoding.scales = codes.data();
  EXPECT_EQ(codec->encode(encoding), made.wires.size());

  made.sum = array_of(normal_values(count, 6), DType::kFloat32, 0);
  DecodeAddArgs adding;
  adding.wire = made.wires.data();
  adding.wire_size = made.wires.size();
  adding.count = count;
  adding.sum = made.sum.data();
  adding.form = one;
  adding.scales = codes.data();
  codec->decode_add(adding);

  made.hop_residual = array_of(normal_values(count, 7), DType::kFloat32, 0);
  made.hop_decoded.resize(own.size());
  made.hop_wire.resize(codec->wire_bytes(count, all));
  const std::byte* const wires[] = {made.wires.data(), made.wires.data()};
  const std::size_t sizes[] = {made.wires.size(), made.wires.size()};
  DecodeAddEncodeArgs hop;
  hop.wires = wires;
  hop.wire_sizes = sizes;
  hop.own_position = 1;
  hop.values = own.data() + offset;
  hop.count = count;
  hop.divisor = 3;
  hop.residual = reinterpret_cast<float*>(made.hop_residual.data());
  hop.wire = made.hop_wire.data();
  hop.decoded = made.hop_decoded.data() + offset;
  hop.random = {1, 2, 3, 4096};
  hop.form = all;
  hop.scales = codes.data();
  EXPECT_EQ(codec->decode_add_encode(hop), made.hop_wire.size());
  Bytes again(own.size());
  DecodeArgs decoding;
  decoding.wire = made.hop_wire.data();
  decoding.wire_size = made.hop_wire.size();
  decoding.count = count;
  decoding.values = again.data() + offset;
  decoding.form = all;
  decoding.scales = codes.data();
  codec->decode(decoding);
  EXPECT_TRUE(std::equal(again.begin() + static_cast<std::ptrdiff_t>(offset), again.end(),
                         made.hop_decoded.begin() + static_cast<std::ptrdiff_t>(offset)));
  made.end.resize(own.size());
  hop.residual = nullptr;
  hop.wire = nullptr;
  hop.decoded = made.end.data() + offset;
  EXPECT_EQ(codec->decode_add_encode(hop), 0U);
  return made;
}

TEST(ScaledCodec, MakesTheSameBytesOnEveryInstructionSet) {
  for (const char* const specification :
       {"q2", "q3", "q4", "q5:block=64", "q6", "q8", "q4:grid=lloyd", "q2:grid=lloyd,rotate=0",
        "q4:round=stochastic"}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
      for (const std::size_t count : {1UL, 31UL, 2048UL, 2049UL, 5000UL, 8192UL}) {
        const std::size_t offset = count % 2 == 0 ? 0 : 2;
        expect_same_on_all_isas(
            [&] {
              return make_all(specification, dtype, sized_values(count, 3), random_codes(count, 4),
                              offset)
                  .all();
            },
            std::string(specification) + " " + dtype_name(dtype) + " " + std::to_string(count));
      }
    }
  }
}

TEST(ScaledCodec, SendsNoByteMore) {
  for (const char* const specification : {"q3:block=32", "q4", "q5", "q8"}) {
    const auto plain = make_codec(specification, DType::kFloat32, ReduceOp::kAvg).value();
    const auto scaled = make_scaled_codec(specification, DType::kFloat32, ReduceOp::kAvg).value();
    EXPECT_NE(plain->specification(), scaled->specification());
    for (const std::size_t count : {0UL, 1UL, 1000UL, 2048UL, 2049UL, 6000UL, 100000UL}) {
      for (std::size_t summed = 1; summed <= 4; ++summed) {
        EXPECT_EQ(plain->wire_bytes(count, {summed, 4}), scaled->wire_bytes(count, {summed, 4}))
            << specification << " " << count;
      }
    }
  }
}

/// Forms of a quantile grid begin with some bytes of their own.
TEST(ScaledCodec, SendsFewBytesMoreWhereFormsHaveHeads) {
  for (const char* const specification : {"q2", "q2:grid=lloyd", "q4:grid=lloyd"}) {
    const auto plain = make_codec(specification, DType::kFloat32, ReduceOp::kAvg).value();
    const auto scaled = make_scaled_codec(specification, DType::kFloat32, ReduceOp::kAvg).value();
    for (std::size_t summed = 1; summed <= 4; ++summed) {
      const auto before = static_cast<double>(plain->wire_bytes(100000, {summed, 4}));
      const auto now = static_cast<double>(scaled->wire_bytes(100000, {summed, 4}));
      EXPECT_LE(now, 1.01 * before) << specification;
    }
  }
}

TEST(ScaledCodec, IsForBlocksAroundZero) {
  EXPECT_EQ(block_of_scales("q4").value(), 128U);
  EXPECT_EQ(block_of_scales("q2:block=64").value(), 64U);
  EXPECT_EQ(block_of_scales("q3:grid=lloyd").value(), 1024U);
  for (const char* const other : {"none", "fp16", "q1", "q4:grid=minmax", "qsgd", "sign", "topk",
                                  "powersgd", "lossless", "tern", "fp8", "randk"}) {
    EXPECT_EQ(block_of_scales(other).value(), 0U) << other;
    EXPECT_EQ(make_scaled_codec(other, DType::kFloat32, ReduceOp::kSum).status().code(),
              Code::kUnsupported)
        << other;
  }
  EXPECT_FALSE(block_of_scales("q44").is_ok());
}

struct Encoded {
  Floats decoded;
  Floats residual;
};

Encoded encode(const Codec& codec, const Floats& values, Floats residual, const Codes& codes) {
  Bytes wire(codec.wire_bytes(values.size()));
  Encoded encoded{Floats(values.size()), std::move(residual)};
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.residual = encoded.residual.data();
  args.wire = wire.data();
  args.decoded = encoded.decoded.data();
  args.scales = codes.data();
  codec.encode(args);
  return encoded;
}

TEST(ScaledCodec, KeepsWhatItLoses) {
  const auto codec = make_scaled_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  const Floats values = sized_values(5000, 1), before = normal_values(5000, 2);
  const Encoded encoded = encode(*codec, values, before, random_codes(5000, 3));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float whole = values[i] + before[i];
    EXPECT_NEAR(encoded.decoded[i] + encoded.residual[i], whole, 1e-5F * (1 + std::abs(whole)));
  }
}

/// About half a step, which is as large as the block's largest value over its scale, times the
/// coordinate's scale.
TEST(ScaledCodec, ErrorsAreThoseOfTheCoordinate) {
  constexpr std::size_t kCount = 4096, kBlock = 128;
  const auto codec = make_scaled_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  const Floats values = sized_values(kCount, 1);
  const Codes codes = random_codes(kCount, 3);
  const Encoded encoded = encode(*codec, values, Floats(kCount), codes);
  for (std::size_t first = 0; first < kCount; first += kBlock) {
    float largest = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      largest = std::max(largest, std::abs(values[i]) / scales::scale_of(codes[i]));
    }
    for (std::size_t i = first; i < first + kBlock; ++i) {
      EXPECT_LE(std::abs(encoded.residual[i]), 2 * largest / 14 * scales::scale_of(codes[i]));
    }
  }
}

TEST(ScaledCodec, ANotANumberComesOutAndTheResidualStays) {
  const auto codec = make_scaled_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  Floats values = sized_values(4096, 1);
  values[300] = std::numeric_limits<float>::quiet_NaN();
  values[4000] = std::numeric_limits<float>::infinity();
  const Floats before = normal_values(4096, 2);
  const Encoded encoded = encode(*codec, values, before, random_codes(4096, 3));
  for (const std::size_t bad : {300UL, 4000UL}) {
    EXPECT_FALSE(std::isfinite(encoded.decoded[bad]));
    for (std::size_t i = bad / 128 * 128; i < bad / 128 * 128 + 128; ++i) {
      EXPECT_NEAR(encoded.residual[i], before[i], 1e-6F * std::abs(before[i])) << i;
    }
  }
}

TEST(FindScales, AreWhatTheyArePowersOf) {
  constexpr std::size_t kCount = 1024, kBlock = 128;
  Floats squares(kCount);
  std::mt19937 engine(1);
  for (float& square : squares) square = std::exp2(static_cast<float>(engine() % 1200) / 100 - 8);
  Codes codes(kCount);
  find_scales(squares.data(), kCount, kBlock, codes.data());
  std::size_t largest = 0;
  for (std::size_t first = 0; first < kCount; first += kBlock) {
    double mean = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) mean += double{squares[i]} / kBlock;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      const double power = std::pow(double{squares[i]} / mean + 0.01, 0.375);
      const double halves = 2 * std::log2(power / std::pow(0.01, 0.375));
      const double expected = std::min(halves, double{scales::kLargestScale});
      EXPECT_NEAR(codes[i], expected, 0.5 + 2 * 0.375 * 0.09) << squares[i] / mean;
      largest = std::max<std::size_t>(largest, codes[i]);
    }
  }
  EXPECT_GE(largest, 6U);
}

TEST(FindScales, AreRelativeToTheirBlock) {
  const std::size_t count = 1000;  // The last block is short.
  Floats squares(count);
  learn_scales(sized_values(count, 1).data(), count, DType::kFloat32, 1, squares.data());
  Codes codes(count), of_larger(count);
  find_scales(squares.data(), count, 128, codes.data());
  for (std::size_t i = 0; i < count; ++i) squares[i] *= i < 512 ? 0x1p20F : 0x1p-20F;
  find_scales(squares.data(), count, 128, of_larger.data());
  EXPECT_EQ(codes, of_larger);
}

TEST(FindScales, NothingIsLostWhereNothingWas) {
  Floats squares(256);
  squares[200] = 1;  // The first block is zero, and the second but for this.
  Codes codes(256);
  find_scales(squares.data(), 256, 128, codes.data());
  EXPECT_EQ(codes[200], scales::kLargestScale);
  codes[200] = 0;
  EXPECT_EQ(codes, Codes(256));
  std::fill(squares.begin(), squares.end(), std::numeric_limits<float>::max());
  find_scales(squares.data(), 256, 128, codes.data());
  EXPECT_EQ(codes, Codes(256));
}

TEST(LearnScales, AreMeansOfSquares) {
  Floats squares = {4, 4, 4, 4, 0};
  const Floats result = {3, 0, std::numeric_limits<float>::quiet_NaN(), 1e30F, 1e-30F};
  learn_scales(result.data(), result.size(), DType::kFloat32, 0.25F, squares.data());
  EXPECT_EQ(squares, (Floats{5.25F, 3, 4, 4, 0}));
  const Bytes narrow = array_of({3, 0}, DType::kBfloat16, 2);
  Floats of_narrow = {4, 4};
  learn_scales(narrow.data() + 2, 2, DType::kBfloat16, 0.25F, of_narrow.data());
  EXPECT_EQ(of_narrow, (Floats{5.25F, 3}));
  for (int call = 0; call < 2000; ++call) {
    const float zero = 0;
    learn_scales(&zero, 1, DType::kFloat32, 0.1F, squares.data());
  }
  EXPECT_EQ(squares[0], 0) << "and not the smallest number that there is";
}

TEST(MeasureScales, TellsWhetherTheyHelp) {
  constexpr std::size_t kCount = 20000, kBlock = 128;
  const Codes codes = codes_of_sized_values(kCount, kBlock);
  Floats values = sized_values(kCount, 1);
  const auto measure = [&] {
    return measure_scales(values.data(), kCount, DType::kFloat32, codes.data(), kBlock);
  };
  EXPECT_LT(measure().scaled, 0.7 * measure().plain);
  const ScaleErrors before = measure();
  values[77] = std::numeric_limits<float>::infinity();
  EXPECT_NEAR(measure().scaled / before.scaled, 1, 0.02);
  // Another tensor's, which are of one size.
  values = normal_values(kCount, 2);
  EXPECT_GT(measure().scaled, measure().plain);
  // And those of one that has none.
  const Codes none(kCount);
  const ScaleErrors same =
      measure_scales(values.data(), kCount, DType::kFloat32, none.data(), kBlock);
  EXPECT_EQ(same.scaled, same.plain);
}

/// What it is about: the errors of small coordinates, relative to their values.
TEST(ScaledCodec, SmallCoordinatesAreMoreAccurate) {
  constexpr std::size_t kCount = 20000;
  const Floats values = sized_values(kCount, 1);
  const auto error_of_small = [&](const Codec& codec, const Codes& codes) {
    const Encoded encoded = encode(codec, values, Floats(kCount), codes);
    double lost = 0, whole = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      if (i * 37 % 10 > 1) continue;
      lost += double{encoded.residual[i]} * double{encoded.residual[i]};
      whole += double{values[i]} * double{values[i]};
    }
    return lost / whole;
  };
  const auto plain = make_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  const auto scaled = make_scaled_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  const Codes codes = codes_of_sized_values(kCount, 128);
  EXPECT_LT(error_of_small(*scaled, codes), 0.25 * error_of_small(*plain, codes));
}

}  // namespace
}  // namespace ringpress::compress_kernels::scales_test
