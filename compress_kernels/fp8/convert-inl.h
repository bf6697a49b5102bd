// Vectors of float32 to float8 codes and back, exactly as codes.h does. Compiled once per target.
#if defined(COMPRESS_KERNELS_FP8_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_FP8_CONVERT_INL_H_
#undef COMPRESS_KERNELS_FP8_CONVERT_INL_H_
#else
#define COMPRESS_KERNELS_FP8_CONVERT_INL_H_
#endif

#include "compress_kernels/core/pack-inl.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/fp8/codes.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::fp8 {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::FloatTag, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag,
    arrays::Words;

/// Four vectors of codes to bytes: the lowest byte of each lane, with the sign of the highest.
HWY_INLINE void store_codes(Words a, Words b, Words c, Words d, std::uint8_t* HWY_RESTRICT bytes) {
  const hn::Repartition<std::uint8_t, FloatTag> byte_tag;
  const hn::Repartition<std::uint64_t, FloatTag> long_tag;
  alignas(16) static constexpr std::uint8_t kOuterBytes[16] = {
      0, 4, 8, 12, 3, 7, 11, 15, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
  const auto table = hn::LoadDup128(byte_tag, kOuterBytes);
  const auto outer = [&](Words words) HWY_ATTR {
    return hn::BitCast(kWordTag, hn::TableLookupBytes(hn::BitCast(byte_tag, words), table));
  };
  const auto ab = hn::BitCast(long_tag, hn::InterleaveLower(kWordTag, outer(a), outer(b)));
  const auto cd = hn::BitCast(long_tag, hn::InterleaveLower(kWordTag, outer(c), outer(d)));
  const auto low = hn::BitCast(kWordTag, hn::InterleaveLower(long_tag, ab, cd));
  const auto high = hn::BitCast(kWordTag, hn::InterleaveUpper(long_tag, ab, cd));
  const auto codes = hn::OrAnd(low, high, hn::Set(kWordTag, 0x80808080u));
  const auto ordered =
      core::HWY_NAMESPACE::order_sources(hn::BitCast(core::HWY_NAMESPACE::kIntegerTag, codes));
  hn::StoreU(hn::BitCast(byte_tag, ordered), byte_tag, bytes);
}

/// Rounds to nearest even by adding a number M so large that the sum's last bit is one step of y's
/// binade: the low bits of the sum count the steps n. Then code = n + 2^m (exponent - smallest),
/// for subnormal results too, and the second term can be read off M's exponent, up to a multiple of
/// 256 that is dropped, once y is scaled by a suitable power of two: 2^kShift.
template <Float8Format kFormat>
class Nearest {
 public:
  HWY_INLINE Nearest() {
    mask_ = hn::Set(kWordTag, core::kSignBit | kExponentMask);
    smallest_ = hn::Set(kWordTag, exponent_bits(F::kSmallestExponent + kShift));
    lift_ = hn::Set(kWordTag, std::uint32_t{kLift} << 23);
  }

  HWY_INLINE void set_inverse(float inverse) {
    inverse_ = hn::Set(kFloatTag, inverse * core::float_of(exponent_bits(kShift)));
  }

  /// For store_codes(). x: all finite, |x| * inverse <= 1.01 * kLargest.
  HWY_INLINE Words codes(Floats x, const std::uint16_t*) const {
    const Floats y = hn::Mul(x, inverse_);
    const Words large = hn::Add(signed_exponent(y), lift_);
    const Words sum = hn::BitCast(kWordTag, hn::Add(y, hn::BitCast(kFloatTag, large)));
    return hn::Add(sum, hn::ShiftRight<23 - F::kMantissa>(large));
  }

 private:
  using F = Format<kFormat>;
  static constexpr int kLift = 23 - F::kMantissa;
  /// 2^m (kSmallestExponent + kShift + kLift + 127) must be a multiple of 256; small enough a shift
  /// that neither inverse nor y leaves the normal floats.
  static constexpr int kShift = kFormat == Float8Format::kE4m3 ? 19 : -6;
  /// Codes count from the smallest normal exponent, whose steps are the subnormal ones.
  static_assert(((F::kSmallestExponent + kShift + kLift + 127) << F::kMantissa) % 256 == 0);

  /// Sign and exponent of y, but not less than the smallest exponent.
  HWY_INLINE Words signed_exponent(Floats y) const {
#if HWY_TARGET == HWY_AVX3
    constexpr int kLargerMagnitude = 3;  // With the sign of the first operand.
    const auto larger = _mm512_maskz_range_ps(0xFFFF, y.raw, hn::BitCast(kFloatTag, smallest_).raw,
                                              kLargerMagnitude);
    return hn::And(hn::BitCast(kWordTag, Floats{larger}), mask_);
#else
    const Words bits = hn::And(hn::BitCast(kWordTag, y), mask_);
    const Words sign = hn::Set(kWordTag, core::kSignBit);
    return hn::OrAnd(hn::Max(hn::AndNot(sign, bits), smallest_), bits, sign);
#endif
  }

  static constexpr std::uint32_t exponent_bits(int exponent) {
    return static_cast<std::uint32_t>(127 + exponent) << 23;
  }

  Words mask_;
  Words smallest_;
  Words lift_;
  Floats inverse_;
};

template <Float8Format kFormat>
class Stochastic {
 public:
  HWY_INLINE Stochastic() : inverse_(hn::Zero(kFloatTag)) {}
  HWY_INLINE void set_inverse(float inverse) { inverse_ = hn::Set(kFloatTag, inverse); }

  /// As Nearest::codes(); `random`: 16 bits per element.
  HWY_INLINE Words codes(Floats x, const std::uint16_t* random) const {
    const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
    const Words smallest =
        hn::Set(kWordTag, static_cast<std::uint32_t>(127 + F::kSmallestExponent) << 23);
    const Floats y = hn::Mul(x, inverse_);
    const Floats magnitude = hn::Min(hn::Abs(y), hn::Set(kFloatTag, F::kLargest));
    const Words exponent = hn::Max(
        hn::And(hn::BitCast(kWordTag, magnitude), hn::Set(kWordTag, kExponentMask)), smallest);
    const Words top = hn::Set(kWordTag, static_cast<std::uint32_t>(254 + F::kMantissa) << 23);
    const Floats steps_per_one = hn::BitCast(kFloatTag, hn::Sub(top, exponent));
    const Floats steps = hn::Add(hn::Mul(magnitude, steps_per_one), units(random));
    const Words whole = hn::BitCast(kWordTag, hn::ConvertTo(integer_tag, steps));
    const Words code =
        hn::Add(whole, hn::ShiftRight<23 - F::kMantissa>(hn::Sub(exponent, smallest)));
    return hn::OrAnd(code, hn::BitCast(kWordTag, y), hn::Set(kWordTag, core::kSignBit));
  }

 private:
  using F = Format<kFormat>;

  /// core::unit_interval()
  static HWY_INLINE Floats units(const std::uint16_t* random) {
    const hn::Rebind<std::uint16_t, FloatTag> halves;
    const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
    const auto integers = hn::PromoteTo(integer_tag, hn::LoadU(halves, random));
    const Floats middle = hn::Add(hn::ConvertTo(kFloatTag, integers), hn::Set(kFloatTag, 0.5f));
    return hn::Mul(middle, hn::Set(kFloatTag, 1.0f / 65536.0f));
  }

  Floats inverse_;
};

/// core::widen() of kLanes codes. By way of float16, whose conversion also takes subnormal numbers,
/// whatever the host program does to subnormal float32.
template <Float8Format kFormat>
HWY_INLINE Floats widen_codes(const std::uint8_t* bytes) {
  const hn::Rebind<hwy::float16_t, FloatTag> half_tag;
  const hn::Rebind<std::int16_t, FloatTag> short_tag;
  const hn::Rebind<std::int8_t, FloatTag> byte_tag;
  const auto codes = hn::LoadU(byte_tag, reinterpret_cast<const std::int8_t*>(bytes));
  const auto shorts = hn::PromoteTo(short_tag, codes);
  if constexpr (kFormat == Float8Format::kE5m2) {
    return hn::PromoteTo(kFloatTag, hn::BitCast(half_tag, hn::ShiftLeft<8>(shorts)));
  } else {
    // Bit 14, a copy of the sign, goes; exponents are 8 too small, and 480 stands for NaN.
    const auto halves =
        hn::And(hn::ShiftLeft<7>(shorts), hn::Set(short_tag, static_cast<std::int16_t>(0xBFFF)));
    const Floats value = hn::Mul(hn::PromoteTo(kFloatTag, hn::BitCast(half_tag, halves)),
                                 hn::Set(kFloatTag, 256.0f));
    const auto is_nan = hn::Eq(hn::Abs(value), hn::Set(kFloatTag, 480.0f));
    const Floats nan = hn::BitCast(kFloatTag, hn::Set(kWordTag, core::kCanonicalNanBits));
    return hn::IfThenElse(is_nan, nan, value);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::fp8
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
