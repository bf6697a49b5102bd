// fp8: bytes worked out by hand, every code, and the mean of stochastic rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/factory.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing::fp8_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::unique_ptr<Codec> make(const std::string& specification, DType dtype = DType::kFloat32) {
  return make_codec(specification, dtype, ReduceOp::kSum).value();
}

Bytes encode(const Codec& codec, const std::vector<float>& values, const RandomKey& random = {}) {
  const auto elements = to_elements(values, codec.dtype());
  Bytes wire(codec.wire_bytes(values.size()));
  EncodeArgs args;
  args.values = elements.data();
  args.count = values.size();
  args.wire = reinterpret_cast<std::byte*>(wire.data());
  args.random = random;
  codec.encode(args);
  return wire;
}

std::vector<float> decode(const Codec& codec, const Bytes& wire, std::size_t count) {
  std::vector<std::byte> elements(count * dtype_size(codec.dtype()));
  codec.decode({reinterpret_cast<const std::byte*>(wire.data()), count, elements.data()});
  return to_floats(elements.data(), count, codec.dtype());
}

template <typename Check>
void on_every_isa(Check&& check) {
  for (const std::string& isa : available_isas()) {
    SCOPED_TRACE(isa);
    ASSERT_TRUE(force_isa(isa).is_ok());
    check();
  }
  ASSERT_TRUE(force_isa("").is_ok());
}

TEST(Fp8Bytes, AreAUnitAndOcpCodes) {
  // The largest value makes the unit 1 = 0x3F80.
  EXPECT_EQ(encode(*make("fp8"), {448, -448, 0, 1, -0.001953125f}),
            (Bytes{0x80, 0x3F, 0x7E, 0xFE, 0x00, 0x38, 0x81}));
  EXPECT_EQ(encode(*make("fp8:format=e5m2"), {57344, -1, 0x1p-16f, -0.0f}),
            (Bytes{0x80, 0x3F, 0x7B, 0xBC, 0x01, 0x80}));
}

TEST(Fp8Bytes, UnitsAreRoundedUp) {
  // 1 + 2^-8 lies between the bfloat16 numbers 0x3F80 and 0x3F81.
  EXPECT_EQ(encode(*make("fp8"), {448 * 1.00390625f}), (Bytes{0x81, 0x3F, 0x7E}));
}

TEST(Fp8Bytes, NonFiniteValuesAreNanAtTheirPlace) {
  for (const char* format : {"e4m3", "e5m2"}) {
    const auto codec = make(std::string("fp8:format=") + format);
    std::vector<float> x(300, 2.0f);
    const auto expected = decode(*codec, encode(*codec, x), x.size());
    x[5] = INFINITY;
    x[131] = -NAN;
    on_every_isa([&] {
      const auto target = make(codec->specification());
      const Bytes wire = encode(*target, x);
      EXPECT_EQ(wire[6 + 5], 0x7F);
      EXPECT_EQ(wire[6 + 131], 0x7F);
      const auto y = decode(*target, wire, x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i == 5 || i == 131) {
          EXPECT_TRUE(std::isnan(y[i]));
        } else {
          EXPECT_EQ(y[i], expected[i]);
        }
      }
    });
  }
}

/// Values between all neighbours and next to them, where rounding decides.
template <typename Narrow>
std::vector<float> around_all_codes(int largest_code) {
  std::vector<float> values;
  for (int code = 0; code < largest_code; ++code) {
    const float low = core::widen(Narrow{static_cast<std::uint8_t>(code)});
    const float high = core::widen(Narrow{static_cast<std::uint8_t>(code + 1)});
    const float middle = (low + high) / 2;
    for (const float value : {low, std::nextafter(middle, 0.0f), middle,
                              std::nextafter(middle, high), std::nextafter(high, low), high}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

/// With the largest float8 in each block the unit is 1.
template <typename Narrow>
void expect_nearest(const std::string& specification, int largest_code) {
  const float largest = core::widen(Narrow{static_cast<std::uint8_t>(largest_code)});
  std::vector<float> x;
  for (const float value : around_all_codes<Narrow>(largest_code)) {
    if (x.size() % 128 == 0) x.push_back(largest);
    x.push_back(value);
  }
  on_every_isa([&] {
    const auto codec = make(specification);
    const Bytes wire = encode(*codec, x);
    const std::size_t offset = wire.size() - x.size();
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(wire[offset + i], core::narrow<Narrow>(x[i]).bits) << x[i];
    }
  });
}

TEST(Fp8, EveryValueBecomesTheNearestCode) {
  expect_nearest<core::Float8e4m3>("fp8", 0x7E);
  expect_nearest<core::Float8e5m2>("fp8:format=e5m2", 0x7B);
}

TEST(Fp8, EveryCodeDecodesToItsValue) {
  Bytes wire{0x40, 0x40, 0x40, 0x40};  // Two blocks with unit 3.
  for (int code = 0; code < 256; ++code) wire.push_back(static_cast<std::uint8_t>(code));
  on_every_isa([&] {
    const auto e4m3 = decode(*make("fp8"), wire, 256);
    const auto e5m2 = decode(*make("fp8:format=e5m2"), wire, 256);
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    for (std::size_t i = 0; i < 256; ++i) {
      const auto code = static_cast<std::uint8_t>(i);
      EXPECT_TRUE(same(e4m3[i], 3 * core::widen(core::Float8e4m3{code}))) << i;
      EXPECT_TRUE(same(e5m2[i], 3 * core::widen(core::Float8e5m2{code}))) << i;
    }
  });
}

TEST(Fp8, LargestFloatsStayFinite) {
  for (const char* specification :
       {"fp8", "fp8:format=e5m2", "fp8:round=stochastic", "fp8:format=e5m2,round=stochastic"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      const float largest =
          dtype == DType::kFloat32 ? std::numeric_limits<float>::max() : 0x1.FEp127f;
      const auto codec = make(specification, dtype);
      const std::vector<float> x{largest, -largest, 0, largest / 2, -largest / 3};
      const auto y = decode(*codec, encode(*codec, x), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_LE(std::abs(y[i] / largest - x[i] / largest), 0.26) << specification;
      }
    }
  }
}

TEST(Fp8, SmallBlocksBecomeZerosAndOthersDoNot) {
  const auto codec = make("fp8:format=e5m2");
  EXPECT_EQ(decode(*codec, encode(*codec, {0x1p-95f}), 1)[0], 0.0f);
  EXPECT_EQ(decode(*codec, encode(*codec, {0x1.Cp-94f}), 1)[0], 0x1.Cp-94f);
}

/// Each coordinate's mean over 2000 calls is its value, within 4 standard errors.
TEST(Fp8, StochasticRoundingIsUnbiased) {
  constexpr int kRepetitions = 2000;
  for (const char* specification :
       {"fp8:round=stochastic", "fp8:format=e5m2,round=stochastic,block=32"}) {
    const auto codec = make(specification);
    auto x = draw_floats(256, Values::kNormal, 9);
    for (std::size_t i = 0; i < x.size(); i += 2) x[i] *= 1e-4f;  // Subnormal float8 too.
    std::vector<double> sum(x.size());
    std::vector<double> squares(x.size());
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
      RandomKey random;
      random.step = static_cast<std::uint64_t>(repetition);
      const auto y = decode(*codec, encode(*codec, x, random), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum[i] += double{y[i]} - x[i];
        squares[i] += std::pow(double{y[i]} - x[i], 2);
      }
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double mean = sum[i] / kRepetitions;
      const double deviation = std::sqrt((squares[i] / kRepetitions - mean * mean) / kRepetitions);
      EXPECT_LE(std::abs(mean), 4 * deviation + 1e-7 * std::abs(x[i])) << i << ' ' << x[i];
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::fp8_test
