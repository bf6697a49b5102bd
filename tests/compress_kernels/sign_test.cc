// What one bit with a scale for each block keeps with error feedback.
//
// A block of d values with k of magnitude M, all others small, whose scale is the mean magnitude: a
// large one loses M minus the scale with each call, until what is kept has made the scale as large
// as M. Then the k hold X each and the others, whose signs alternate, half the scale in the mean:
// k X + (d - k) M / 2 = d M. So X is about d M / (2 k), and it is come to within some d / (2 k)
// calls. (Karimireddy, Rebjock, Stich and Jaggi, 2019, bound it for any gradients: with mean
// magnitudes as scales the codec is a delta-compressor, delta at least 1 / d, and so what is kept
// is no more than 2 d times the norm of the largest gradient.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/support/random_tensor.h"

namespace ringpress::compress_kernels::sign_test {
namespace {

/// One block, call after call.
class Feedback {
 public:
  explicit Feedback(std::size_t block)
      : codec_(make_codec("sign:block=" + std::to_string(block), DType::kFloat32, ReduceOp::kSum)
                   .value()),
        residual_(block),
        wire_(codec_->wire_bytes(block)) {}

  void call(const std::vector<float>& values) {
    EncodeArgs args;
    args.values = values.data();
    args.count = values.size();
    args.residual = residual_.data();
    args.wire = wire_.data();
    codec_->encode(args);
  }
  double largest() const {
    double found = 0;
    for (const float value : residual_) found = std::max(found, std::abs(double{value}));
    return found;
  }
  double norm() const {
    double squares = 0;
    for (const float value : residual_) squares += double{value} * double{value};
    return std::sqrt(squares);
  }

 private:
  const std::unique_ptr<Codec> codec_;
  std::vector<float> residual_;
  std::vector<std::byte> wire_;
};

// 10^4 calls.
TEST(Sign, LargeValuesKeepHalfABlockOfThem) {
  for (const std::size_t block : {64, 1024}) {
    for (const std::size_t large : {1, 8}) {
      std::vector<float> values = ringpress::testing::random_gradient(block, 1, 0);
      for (float& value : values) value *= 1e-3f;
      for (std::size_t i = 0; i < large; ++i) values[7 * i] = i % 2 == 0 ? 1.0f : -1.0f;
      const double expected = static_cast<double>(block) / (2.0 * static_cast<double>(large));
      Feedback feedback(block);
      double largest = 0, half = 0;
      for (int call = 0; call < 10000; ++call) {
        feedback.call(values);
        largest = std::max(largest, feedback.largest());
        if (call == 5000) half = feedback.norm();
      }
      EXPECT_NEAR(largest, expected, 0.15 * expected + 2) << block << ", " << large;
      EXPECT_NEAR(feedback.norm(), half, 0.05 * half) << block << ", " << large;
    }
  }
}

// The bound for any gradients: half of them the same each time, the others at random.
TEST(Sign, KeepsNoMoreThanTheBoundOfAnyGradients) {
  for (const std::size_t block : {32, 1024}) {
    const std::vector<float> same = ringpress::testing::random_gradient(block, 1, 0);
    Feedback feedback(block);
    double largest_gradient = 0;
    for (std::uint64_t call = 0; call < 2000; ++call) {
      std::vector<float> values = ringpress::testing::random_gradient(block, 2 + call, 0);
      double squares = 0;
      for (std::size_t i = 0; i < block; ++i) {
        values[i] += same[i];
        squares += double{values[i]} * double{values[i]};
      }
      largest_gradient = std::max(largest_gradient, std::sqrt(squares));
      feedback.call(values);
      ASSERT_LE(feedback.norm(), 2 * static_cast<double>(block) * largest_gradient);
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::sign_test
