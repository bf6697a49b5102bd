// The kernels of gossip, run on fibers, make what the functions for host memory make.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/fiber_device.h"

namespace ringpress::compress_kernels::testing::model_agent_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
constexpr std::size_t kCounts[] = {1, 7, 8, 9, 255, 256, 257, 1000, 8193};

/// Elements at an offset that 16 bytes need not divide.
struct Array {
  Array(const std::vector<float>& values, DType dtype, std::size_t offset)
      : memory((values.size() + offset) * dtype_size(dtype) + 16),
        start(offset * dtype_size(dtype)),
        count(values.size()),
        type(dtype) {
    narrow_values(values.data(), values.size(), dtype, data());
  }
  void* data() { return reinterpret_cast<std::byte*>(memory.data()) + start; }
  ModelSpan span() { return {data(), count, type}; }

  std::vector<std::uint32_t> memory;
  std::size_t start;
  std::size_t count;
  DType type;
};

/// Runs body(kernels, dtype, count, offset).
template <typename Body>
void for_each_shape(Body body) {
  std::uint32_t seed = 0;
  for (const DType dtype : kTypes) {
    for (const std::size_t count : kCounts) {
      FiberDevice device({++seed, 1 + seed % 2});
      const auto kernels = device.make_models().value();
      body(*kernels, dtype, count, seed % 3);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(ModelAgent, MeasuresTheChange) {
  for_each_shape([](DeviceModels& kernels, DType dtype, std::size_t count, std::size_t offset) {
    Array model(draw_floats(count, Values::kNormal, 1), dtype, offset);
    Array reference(draw_floats(count, Values::kNormal, 2), dtype, offset);
    std::vector<ChangePart> parts(kChangeParts, {-1, -1});
    ASSERT_TRUE(
        kernels.measure_change(nullptr, model.span(), reference.data(), parts.data()).is_ok());
    Change sum;
    for (const ChangePart& part : parts) {
      sum.difference_squares += part.difference_squares;
      sum.reference_squares += part.reference_squares;
    }
    const Change wanted = measure_change(model.data(), reference.data(), count, dtype);
    EXPECT_NEAR(sum.difference_squares, wanted.difference_squares,
                1e-5 * wanted.difference_squares);
    EXPECT_NEAR(sum.reference_squares, wanted.reference_squares, 1e-5 * wanted.reference_squares);
  });
}

TEST(ModelAgent, ValuesThatAreNotFiniteShow) {
  FiberDevice device;
  const auto kernels = device.make_models().value();
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Array model(std::vector<float>(1000, 1.0F), DType::kFloat32, 0);
    static_cast<float*>(model.data())[777] = bad;
    std::vector<ChangePart> parts(kChangeParts);
    ASSERT_TRUE(kernels->measure_change(nullptr, model.span(), model.data(), parts.data()).is_ok());
    double sum = 0;
    for (const ChangePart& part : parts) sum += part.difference_squares;
    EXPECT_FALSE(std::isfinite(sum));
  }
}

TEST(ModelAgent, MakesTheBitsOfTheHost) {
  for_each_shape([](DeviceModels& kernels, DType dtype, std::size_t count, std::size_t offset) {
    const std::vector<float> values = draw_floats(count, Values::kNormal, 3);
    const std::vector<float> base = draw_floats(count, Values::kNormal, 4);
    Array model(values, dtype, offset), wanted(values, dtype, offset);
    Array theirs(draw_floats(count, Values::kNormal, 5), dtype, offset);
    ASSERT_TRUE(kernels.average(nullptr, model.span(), theirs.data()).is_ok());
    average_models(wanted.data(), theirs.data(), count, dtype);
    EXPECT_EQ(model.memory, wanted.memory);

    std::vector<float> difference(count), wanted_difference(count);
    ASSERT_TRUE(
        kernels.take_difference(nullptr, model.span(), base.data(), difference.data()).is_ok());
    take_difference(model.data(), base.data(), count, dtype, wanted_difference.data());
    EXPECT_EQ(difference, wanted_difference);
    std::vector<float> in_place = base;
    ASSERT_TRUE(
        kernels.take_difference(nullptr, model.span(), in_place.data(), in_place.data()).is_ok());
    EXPECT_EQ(in_place, wanted_difference);

    std::uint32_t word = 0;
    ASSERT_TRUE(
        kernels
            .add_half_difference(nullptr, model.span(), difference.data(), base.data(), {&word, 3})
            .is_ok());
    EXPECT_TRUE(add_half_difference(wanted.data(), difference.data(), base.data(), count, dtype));
    EXPECT_EQ(model.memory, wanted.memory);
    EXPECT_EQ(word, 0u);
  });
}

TEST(ModelAgent, WhatCannotBeDecodedStays) {
  for_each_shape([](DeviceModels& kernels, DType dtype, std::size_t count, std::size_t offset) {
    const std::vector<float> values = draw_floats(count, Values::kNormal, 3);
    std::vector<float> own = draw_floats(count, Values::kNormal, 4);
    std::vector<float> theirs = draw_floats(count, Values::kNormal, 5);
    own[count / 2] = std::numeric_limits<float>::quiet_NaN();
    theirs[count - 1] = -std::numeric_limits<float>::infinity();
    Array model(values, dtype, offset), wanted(values, dtype, offset);
    std::uint32_t word = 0;
    ASSERT_TRUE(
        kernels.add_half_difference(nullptr, model.span(), own.data(), theirs.data(), {&word, 3})
            .is_ok());
    EXPECT_FALSE(add_half_difference(wanted.data(), own.data(), theirs.data(), count, dtype));
    EXPECT_EQ(model.memory, wanted.memory);
    EXPECT_EQ(word, 3u);
  });
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::model_agent_test
