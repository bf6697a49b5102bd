// The arithmetic of "none": integers wrap, narrow floats are rounded once, order is kept.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels::none_test {
namespace {

/// Reduces one-element arrays: the contributions of others, then (last) the own value.
template <typename T>
T reduce_all(DType dtype, ReduceOp op, const std::vector<T>& values, double input_scale = 1) {
  T result{};
  for (const std::string& isa : available_isas()) {
    EXPECT_TRUE(force_isa(isa).is_ok());
    const auto codec = make_codec("none", dtype, op);
    EXPECT_TRUE(force_isa("").is_ok());
    std::vector<const std::byte*> wires;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      wires.push_back(reinterpret_cast<const std::byte*>(&values[i]));
    }
    T here{};
    DecodeAddEncodeArgs args;
    args.wires = wires;
    args.own_position = wires.size();
    args.values = &values.back();
    args.count = 1;
    args.input_scale = input_scale;
    args.divisor = op == ReduceOp::kAvg ? values.size() : 1;
    args.wire = reinterpret_cast<std::byte*>(&here);
    codec.value()->decode_add_encode(args);
    if (isa == "scalar") result = here;
    EXPECT_EQ(std::memcmp(&result, &here, sizeof here), 0) << isa;
  }
  return result;
}

TEST(None, IntegersWrapAround) {
  EXPECT_EQ(reduce_all<std::int8_t>(DType::kInt8, ReduceOp::kSum, {100, 100}), -56);
  EXPECT_EQ(reduce_all<std::uint8_t>(DType::kUint8, ReduceOp::kProd, {20, 20}), 144);
  const std::int32_t largest = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(reduce_all<std::int32_t>(DType::kInt32, ReduceOp::kSum, {largest, 1}),
            std::numeric_limits<std::int32_t>::min());
  const std::int64_t wide = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(reduce_all<std::int64_t>(DType::kInt64, ReduceOp::kProd, {wide, 2}), -2);
  EXPECT_EQ(reduce_all<std::uint64_t>(DType::kUint64, ReduceOp::kSum, {~std::uint64_t{0}, 5}), 4u);
}

TEST(None, AveragesOfIntegersTruncate) {
  EXPECT_EQ(reduce_all<std::int32_t>(DType::kInt32, ReduceOp::kAvg, {-3, -4}), -3);
  EXPECT_EQ(reduce_all<std::uint8_t>(DType::kUint8, ReduceOp::kAvg, {3, 4}), 3);
  EXPECT_EQ(reduce_all<std::int64_t>(DType::kInt64, ReduceOp::kAvg, {5, 5, 7}), 5);
}

TEST(None, MaxAndMinTakeSignsIntoAccount) {
  EXPECT_EQ(reduce_all<std::int8_t>(DType::kInt8, ReduceOp::kMax, {-1, 1}), 1);
  EXPECT_EQ(reduce_all<std::uint8_t>(DType::kUint8, ReduceOp::kMax, {255, 1}), 255);
  EXPECT_EQ(reduce_all<std::int64_t>(DType::kInt64, ReduceOp::kMin, {-5, 5}), -5);
  EXPECT_EQ(reduce_all<double>(DType::kFloat64, ReduceOp::kMin, {-0.5, 0.25}), -0.5);
}

TEST(None, MaxAndMinKeepNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    EXPECT_TRUE(std::isnan(reduce_all<float>(DType::kFloat32, op, {nan, 1.0f})));
    EXPECT_TRUE(std::isnan(reduce_all<float>(DType::kFloat32, op, {1.0f, nan})));
  }
}

TEST(None, InputScaleMultipliesOwnValuesOnly) {
  EXPECT_EQ(reduce_all<std::int32_t>(DType::kInt32, ReduceOp::kSum, {10, 4}, 3), 22);
  EXPECT_EQ(reduce_all<std::int8_t>(DType::kInt8, ReduceOp::kSum, {0, 100}, 2), -56);
  EXPECT_EQ(reduce_all<float>(DType::kFloat32, ReduceOp::kSum, {10, 4}, 0.5), 12);
  EXPECT_EQ(reduce_all<double>(DType::kFloat64, ReduceOp::kSum, {0, 3}, 0.1), 3 * 0.1);
  // Scales of integers are whole numbers of their own type.
  EXPECT_EQ(reduce_all<std::int64_t>(DType::kInt64, ReduceOp::kSum, {0, 1}, 1e300),
            std::numeric_limits<std::int64_t>::max());
}

/// Half a unit in the last place is lost if each addition rounds, kept if the sum rounds once.
TEST(None, NarrowFloatsAreRoundedOncePerHop) {
  const auto narrow = core::narrow<core::Bfloat16>;
  const core::Bfloat16 sum = reduce_all<core::Bfloat16>(
      DType::kBfloat16, ReduceOp::kSum, {narrow(256.0f), narrow(1.0f), narrow(1.0f)});
  EXPECT_EQ(core::widen(sum), 258.0f);
}

TEST(None, Float8SumsSaturateAndKeepNan) {
  const auto e4m3 = [](float x) { return core::narrow<core::Float8e4m3>(x); };
  EXPECT_EQ(core::widen(reduce_all<core::Float8e4m3>(DType::kFloat8e4m3, ReduceOp::kSum,
                                                     {e4m3(400), e4m3(400)})),
            448.0f);
  EXPECT_TRUE(std::isnan(core::widen(
      reduce_all<core::Float8e4m3>(DType::kFloat8e4m3, ReduceOp::kSum, {e4m3(NAN), e4m3(1)}))));
}

TEST(None, FloatAveragesAreDividedOnce) {
  EXPECT_EQ(reduce_all<float>(DType::kFloat32, ReduceOp::kAvg, {1, 1, 5}), 7.0f / 3.0f);
}

/// Floating-point sums depend on the order: own values stand where own_position says.
TEST(None, SumsAreTakenInTheGivenOrder) {
  const auto codec = make_codec("none", DType::kFloat32, ReduceOp::kSum);
  const float big = 1e8f;
  const float minus_big = -1e8f;
  const float one = 1.0f;
  const std::byte* wires[] = {reinterpret_cast<const std::byte*>(&big),
                              reinterpret_cast<const std::byte*>(&minus_big)};
  const float expected[] = {0.0f, 0.0f, 1.0f};  // (1 + b) - b, (b + 1) - b, (b - b) + 1
  for (std::size_t position = 0; position < 3; ++position) {
    float result = -1;
    DecodeAddEncodeArgs args;
    args.wires = wires;
    args.own_position = position;
    args.values = &one;
    args.count = 1;
    args.decoded = &result;
    codec.value()->decode_add_encode(args);
    EXPECT_EQ(result, expected[position]) << position;
  }
}

TEST(None, ReducesInPlace) {
  const auto codec = make_codec("none", DType::kInt32, ReduceOp::kSum);
  std::vector<std::int32_t> values(3000);
  std::iota(values.begin(), values.end(), 0);
  const std::vector<std::int32_t> part(values.size(), 7);
  const std::byte* wires[] = {reinterpret_cast<const std::byte*>(part.data())};
  DecodeAddEncodeArgs args;
  args.wires = wires;
  args.values = values.data();
  args.count = values.size();
  args.wire = reinterpret_cast<std::byte*>(values.data());
  args.decoded = values.data();
  codec.value()->decode_add_encode(args);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<int>(i) + 7);
}

}  // namespace
}  // namespace ringpress::compress_kernels::none_test
