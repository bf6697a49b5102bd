// The scale of least squares of a block, as core::fitted_unit() defines it: its sums are exact, so
// that they may be added in any order. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_FIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_FIT_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_FIT_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_FIT_INL_H_
#endif

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/pack-inl.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/uniform/quad_scale-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// core::FitSums, lane by lane.
class FitVectors {
 public:
  /// `rounding`: core::fit_rounding(). `inverse`: what makes steps of values.
  HWY_INLINE FitVectors(Floats inverse, float rounding)
      : inverse_(inverse), rounding_(hn::Set(kFloatTag, rounding)) {}

  HWY_INLINE void add(Floats x) {
    const Floats y = hn::Mul(x, inverse_);
    const Floats code = nearest(y);
    const Floats rounded = hn::Sub(hn::Add(y, rounding_), rounding_);
    products_ = hn::MulAdd(rounded, code, products_);
    squares_ = hn::MulAdd(code, code, squares_);
  }

  /// The fitted scale, in the low bits of every lane. `stored`: that of the codes.
  HWY_INLINE hn::Vec<QuadWordTag> scale(hn::Vec<QuadWordTag> stored) const {
    // Both sums at once, each in its half of a vector.
    Floats sums = hn::Add(hn::ConcatLowerLower(kFloatTag, squares_, products_),
                          hn::ConcatUpperUpper(kFloatTag, squares_, products_));
    if constexpr (kLanes == 16) sums = hn::Add(sums, hn::SwapAdjacentBlocks(sums));
    sums = hn::Add(sums, hn::Shuffle1032(sums));
    sums = hn::Add(sums, hn::Shuffle2301(sums));
    const hn::Half<arrays::FloatTag> half;
    const auto products = lowest_quad(sums);
    const auto squares = lowest_quad(hn::UpperHalf(half, sums));
    const auto ratio = hn::Div(products, hn::Max(squares, hn::Set(kQuadTag, 1.0f)));
    const auto largest = hn::BitCast(kQuadTag, hn::ShiftLeft<16>(stored));
    return quad_to_bfloat16(hn::Mul(largest, ratio));
  }

 private:
  static HWY_INLINE Floats nearest(Floats y) {
#if HWY_TARGET == HWY_AVX3
    // The kernels that fuse all steps need the integers too.
    return hn::ConvertTo(kFloatTag, arrays::nearest_integers(y));
#else
    return hn::Round(y);
#endif
  }

  Floats inverse_;
  Floats rounding_;
  Floats products_ = hn::Zero(kFloatTag);
  Floats squares_ = hn::Zero(kFloatTag);
};

/// The same of the block at `x`: a multiple of 32 values, all finite.
HWY_INLINE hn::Vec<QuadWordTag> fit_block(const float* x, std::size_t block,
                                          hn::Vec<QuadWordTag> stored, float inverse,
                                          float rounding) {
  FitVectors even(hn::Set(kFloatTag, inverse), rounding);
  for (std::size_t i = 0; i < block; i += kLanes) even.add(arrays::load_floats<float>(x, i));
  return even.scale(stored);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
