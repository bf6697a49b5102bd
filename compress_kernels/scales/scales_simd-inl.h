// Division by coordinate scales and multiplication with them, for one target. Compiled once per
// target.
#if defined(COMPRESS_KERNELS_SCALES_SCALES_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_SCALES_SCALES_SIMD_INL_H_
#undef COMPRESS_KERNELS_SCALES_SCALES_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_SCALES_SCALES_SIMD_INL_H_
#endif

#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/scales/scales.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::scales {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::Words, arrays::kFloatTag, arrays::kWordTag, arrays::kLanes;

/// Codes, as the halves of octaves that they add to a float's bits.
HWY_INLINE Words load_halves(const std::uint8_t* codes) {
  const hn::Rebind<std::uint8_t, arrays::WordTag> bytes;
  return hn::ShiftLeft<kScaleShift>(hn::PromoteTo(kWordTag, arrays::load_any(bytes, codes)));
}

/// scale_of()
HWY_INLINE Floats load_scales(const std::uint8_t* codes) {
  return hn::BitCast(kFloatTag, hn::Add(hn::Set(kWordTag, kOneBits), load_halves(codes)));
}

/// inverse_scale_of()
HWY_INLINE Floats load_inverses(const std::uint8_t* codes) {
  const Words halves = load_halves(codes);
  // The lowest bit of the code, all over the word.
  const Words odd = hn::BitCast(
      kWordTag, hn::ShiftRight<31>(hn::BitCast(hn::RebindToSigned<arrays::WordTag>(),
                                               hn::ShiftLeft<31 - kScaleShift>(halves))));
  const Words lower = hn::Add(halves, hn::And(odd, hn::Set(kWordTag, kOddBits)));
  return hn::BitCast(kFloatTag, hn::Sub(hn::Set(kWordTag, kOneBits), lower));
}

template <typename T>
void divide_as(const void* values, const std::uint8_t* codes, std::size_t count, float* scaled) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats x = arrays::load_floats<T>(values, i);
    hn::Store(hn::Mul(x, load_inverses(codes + i)), kFloatTag, scaled + i);
  }
  for (; i < count; ++i) scaled[i] = core::load_wide<T>(values, i) * inverse_scale_of(codes[i]);
}

template <typename T>
void multiply_as(const float* scaled, const std::uint8_t* codes, std::size_t count, void* values) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats x = hn::Mul(hn::Load(kFloatTag, scaled + i), load_scales(codes + i));
    arrays::store_floats<T>(x, values, i);
  }
  for (; i < count; ++i) core::store_wide<T>(values, i, scaled[i] * scale_of(codes[i]));
}

inline void divide(DType dtype, const void* values, const std::uint8_t* codes, std::size_t count,
                   float* scaled) {
  if (dtype == DType::kFloat16) return divide_as<core::Float16>(values, codes, count, scaled);
  if (dtype == DType::kBfloat16) return divide_as<core::Bfloat16>(values, codes, count, scaled);
  divide_as<float>(values, codes, count, scaled);
}

inline void multiply(DType dtype, const float* scaled, const std::uint8_t* codes, std::size_t count,
                     void* values) {
  if (dtype == DType::kFloat16) return multiply_as<core::Float16>(scaled, codes, count, values);
  if (dtype == DType::kBfloat16) return multiply_as<core::Bfloat16>(scaled, codes, count, values);
  multiply_as<float>(scaled, codes, count, values);
}

inline const ScaleKernels& kernels() {
  static constexpr ScaleKernels kTable{divide, multiply};
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::scales
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
