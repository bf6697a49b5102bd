// The scale of one block in four equal lanes, as block_scale.h defines it: short vectors divide
// fastest. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_QUAD_SCALE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_QUAD_SCALE_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_QUAD_SCALE_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_QUAD_SCALE_INL_H_
#endif

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag, arrays::Words;

/// Four equal lanes: what one block needs. Short vectors divide fastest.
using QuadTag = hn::Full128<float>;
using QuadWordTag = hn::Full128<std::uint32_t>;
constexpr QuadTag kQuadTag;
constexpr QuadWordTag kQuadWordTag;

template <class V>
HWY_INLINE auto lowest_quad(V vector) {
  if constexpr (hn::MaxLanes(hn::DFromV<V>()) == 4) {
    return vector;
  } else {
    return lowest_quad(hn::LowerHalf(vector));
  }
}

/// Repeats a value for the groups of one block. May write three entries too many.
HWY_INLINE void spread_quad(hn::Vec<QuadTag> value, std::size_t groups_per_block,
                            float* HWY_RESTRICT groups) {
  for (std::size_t i = 0; i < groups_per_block; i += 4) hn::StoreU(value, kQuadTag, groups + i);
}

/// What the codes of one block are made with; see core::BlockScale.
struct QuadScale {
  hn::Vec<QuadWordTag> stored;
  hn::Vec<QuadTag> inverse;
};

HWY_INLINE hn::Mask<QuadWordTag> has_extent(hn::Vec<QuadWordTag> magnitude) {
  const hn::RebindToSigned<QuadWordTag> integer_tag;
  return hn::Not(hn::RebindMask(
      kQuadWordTag, hn::Lt(hn::BitCast(integer_tag, magnitude),
                           hn::Set(integer_tag, std::int32_t{core::kExtentFloorBits}))));
}

HWY_INLINE QuadScale quad_from_magnitude(hn::Vec<QuadWordTag> magnitude, hn::Vec<QuadTag> levels) {
  const auto present = has_extent(magnitude);
  const auto rounded =
      hn::Min(hn::ShiftRight<16>(hn::Add(magnitude, hn::Set(kQuadWordTag, 0xFFFFu))),
              hn::Set(kQuadWordTag, core::kLargestBfloat16));
  const auto scale = hn::BitCast(kQuadTag, hn::ShiftLeft<16>(rounded));
  return {hn::IfThenElseZero(present, rounded),
          hn::IfThenElseZero(hn::RebindMask(kQuadTag, present), hn::Div(levels, scale))};
}

/// A scale that is not negative, as a bfloat16 in the low bits: rounded to nearest, finite.
HWY_INLINE hn::Vec<QuadWordTag> quad_to_bfloat16(hn::Vec<QuadTag> scale) {
  const auto bits = hn::BitCast(kQuadWordTag, scale);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kQuadWordTag, 1u));
  const auto sum = hn::Add(hn::Add(bits, hn::Set(kQuadWordTag, 0x7FFFu)), odd);
  return hn::Min(hn::ShiftRight<16>(sum), hn::Set(kQuadWordTag, core::kLargestBfloat16));
}

/// For one bit, rounded to nearest. `mean` is that of the magnitudes, `magnitude` the largest.
HWY_INLINE QuadScale quad_from_mean(hn::Vec<QuadWordTag> magnitude, hn::Vec<QuadTag> mean) {
  return {hn::IfThenElseZero(has_extent(magnitude), quad_to_bfloat16(mean)), hn::Zero(kQuadTag)};
}

/// The value of one step of the uniform grid.
template <int kBits>
HWY_INLINE hn::Vec<QuadTag> quad_unit(hn::Vec<QuadWordTag> stored) {
  const auto scale = hn::BitCast(kQuadTag, hn::ShiftLeft<16>(stored));
  if constexpr (kBits == 1) {
    return scale;
  } else {
    constexpr float kLevels = static_cast<float>((1 << (kBits - 1)) - 1);
    return hn::Div(scale, hn::Set(kQuadTag, kLevels));
  }
}

/// The sum of all lanes, in every lane: halves are added first, neighbours last.
template <class V>
HWY_INLINE hn::Vec<QuadTag> sum_halves(V vector) {
  const hn::DFromV<V> d;
  if constexpr (hn::MaxLanes(d) == 4) {
    const auto pairs = hn::Add(vector, hn::Shuffle1032(vector));
    return hn::Add(pairs, hn::Shuffle2301(pairs));
  } else {
    const hn::Half<hn::DFromV<V>> half;
    return sum_halves(hn::Add(hn::LowerHalf(half, vector), hn::UpperHalf(half, vector)));
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
