// The kernels of gossip, run on fibers, make what the functions for host memory make.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/compress_kernels/fiber_device.h"
#include "tests/compress_kernels/model_comparison.h"

namespace ringpress::compress_kernels::testing::model_agent_test {
namespace {

TEST(ModelAgent, MakesTheBitsOfTheHostAtEveryBoundary) {
  std::uint32_t seed = 0;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    for (const std::size_t count : {1, 7, 8, 9, 255, 256, 257, 1000, 8193}) {
      for (const bool has_lost : {false, true}) {
        FiberDevice device({++seed, 1 + seed % 2});
        ASSERT_EQ(compare_models({dtype, count, seed % 3, seed, has_lost}, device), "");
      }
    }
  }
}

TEST(ModelAgent, MakesTheBitsOfTheHostInRandomCases) {
  std::mt19937 engine(5);
  FiberDevice device;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(compare_models(random_model_case(3000, engine), device), "");
  }
}

TEST(ModelAgent, ValuesThatAreNotFiniteShow) {
  FiberDevice device;
  const auto kernels = device.make_models().value();
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> model(1000, 1.0F);
    model[777] = bad;
    std::vector<ChangePart> parts(kChangeParts);
    const ModelSpan span{model.data(), model.size(), DType::kFloat32};
    ASSERT_TRUE(kernels->measure_change(nullptr, span, model.data(), parts.data()).is_ok());
    double sum = 0;
    for (const ChangePart& part : parts) sum += part.difference_squares;
    EXPECT_FALSE(std::isfinite(sum));
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::model_agent_test
