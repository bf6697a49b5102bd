// What the uniform grid loses at each number of bits: the arithmetic of uniform/codes.h, for all of
// them while a block is at hand.
#include <string>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

constexpr int kFewestBits = 2;
constexpr int kMostBits = 8;
// Squares of what lies in between neither overflow nor vanish; others are scaled to it.
constexpr float kLargestPlain = 1e15f;
constexpr float kSmallestPlain = 1e-12f;

Status check(std::size_t block, std::span<const int> bits) {
  const bool is_power = block != 0 && (block & (block - 1)) == 0;
  if (!is_power || block > errors::kPiece) {
    return {Code::kInvalidArgument,
            "a block of " + std::to_string(block) + " values; allowed: powers of two up to 1024"};
  }
  for (const int one : bits) {
    if (one >= kFewestBits && one <= kMostBits) continue;
    return {Code::kInvalidArgument, std::to_string(one) + " bits; allowed: 2 to 8"};
  }
  return Status::ok();
}

/// The scale that is stored, where that of the largest magnitude is `scale`.
std::uint16_t stored_unit(const float* x, std::size_t count, const core::BlockScale& scale,
                          int bits) {
  if (bits > core::kMostFittedBits) return scale.stored_unit;
  // Whole numbers of roundings: exact, as those of core::FitSums are.
  const float inverse = scale.inverse;
  const float rounding = core::fit_rounding(bits);
  const double products = errors::sum_of(x, count, [inverse, rounding](float value) {
    const float y = value * inverse;
    return ((y + rounding) - rounding) * core::round_to_even(y);
  });
  const double squares = errors::sum_of(x, count, [inverse](float value) {
    const float code = core::round_to_even(value * inverse);
    return code * code;
  });
  return core::fitted_unit(scale.stored_unit,
                           {static_cast<float>(products), static_cast<float>(squares)});
}

/// The sum of squares that `bits` lose of a block whose largest magnitude is that of `scale`.
double squares_lost(const float* x, std::size_t count, const core::BlockScale& scale, int bits) {
  const float inverse = scale.inverse;
  const float step = core::uniform_unit(stored_unit(x, count, scale, bits), bits);
  return errors::sum_of(x, count, [inverse, step](float value) {
    const float lost = value - core::round_to_even(value * inverse) * step;
    return lost * lost;
  });
}

/// Adds what each number of bits loses of a block.
void add_block(float* x, std::size_t count, std::span<const int> bits, std::vector<double>* sums) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, core::magnitude_bits(x[i]));
  const float magnitude = core::float_of(largest);
  double scaled_by = 1;
  if (largest < core::kInfinityBits && largest >= core::kExtentFloorBits &&
      !(magnitude < kLargestPlain && magnitude > kSmallestPlain)) {
    // A power of two changes no digit of what is lost.
    const int exponent = std::ilogb(magnitude);
    scaled_by = std::ldexp(1.0, exponent);
    for (std::size_t i = 0; i < count; ++i) x[i] = std::ldexp(x[i], -exponent);
    largest = core::bits_of(std::ldexp(magnitude, -exponent));
  }
  for (std::size_t b = 0; b < bits.size(); ++b) {
    const double squares =
        largest < core::kInfinityBits
            ? squares_lost(x, count, core::scale_from_magnitude(largest, bits[b]), bits[b])
            : errors::kInfinity;
    (*sums)[b] += squares * scaled_by * scaled_by;
  }
}

}  // namespace

Result<std::vector<double>> measure_bit_errors(const MeasuredTensor& tensor, std::size_t block,
                                               std::span<const int> bits) {
  RINGPRESS_RETURN_IF_ERROR(check(block, bits));
  std::vector<double> sums(bits.size());
  errors::for_each_piece(tensor, [&](float* x, std::size_t count) {
    for (std::size_t first = 0; first < count; first += block) {
      add_block(x + first, std::min(block, count - first), bits, &sums);
    }
  });
  for (double& sum : sums) sum = std::sqrt(sum);
  return sums;
}

}  // namespace ringpress::compress_kernels
