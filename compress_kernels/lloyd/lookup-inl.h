// From magnitudes to levels and codes, and back, a vector at a time: levels.h. Compiled once per
// target.
#if defined(COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_
#undef COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_
#else
#define COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_
#endif

#include <array>

#include "compress_kernels/lloyd/hadamard-inl.h"
#include "compress_kernels/lloyd/levels.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lloyd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Eight floats, looked up by lanes of indices from 0 to 7.
class SegmentTable {
 public:
  HWY_INLINE explicit SegmentTable(const float* entries) {
    if constexpr (kLanes == 16) {
      const hn::Half<core::HWY_NAMESPACE::FloatTag> half;
      const auto lower = hn::LoadU(half, entries);
      entries_ = hn::Combine(kFloatTag, lower, lower);
    } else {
      entries_ = hn::LoadU(kFloatTag, entries);
    }
  }

  HWY_INLINE Floats look_up(Words index) const {
#if HWY_TARGET == HWY_AVX3
    return Floats{_mm512_maskz_permutexvar_ps(0xFFFF, index.raw, entries_.raw)};
#else
    return hn::TableLookupLanes(entries_, hn::IndicesFromVec(kFloatTag, index));
#endif
  }

 private:
  Floats entries_;
};

/// Codes and the levels that they stand for.
struct Levels {
  Words code;
  Floats value;
};

/// `code` + amount in the lanes that reach `start`.
HWY_INLINE Words advance(Words code, Floats value, Floats start, std::uint32_t amount) {
#if HWY_TARGET == HWY_AVX3
  const __mmask16 reached = _mm512_cmp_ps_mask(value.raw, start.raw, _CMP_GE_OQ);
  return Words{_mm512_mask_add_epi32(code.raw, reached, code.raw,
                                     _mm512_set1_epi32(static_cast<int>(amount)))};
#else
  const auto reached = hn::RebindMask(kWordTag, hn::Ge(value, start));
  return hn::Add(code, hn::IfThenElseZero(reached, hn::Set(kWordTag, amount)));
#endif
}

/// A code's index among the magnitudes and its sign.
struct SignedIndex {
  Words index;
  Words sign;
};

/// `code` may have other bits set above its own.
template <int kBits>
HWY_INLINE SignedIndex split_code(Words code) {
  const Words sign = hn::AndNot(hn::ShiftLeft<32 - kBits>(code), hn::Set(kWordTag, core::kSignBit));
  const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
  // All ones where it is negative: there indices fall as codes rise.
  const Words flip = hn::BitCast(kWordTag, hn::ShiftRight<31>(hn::BitCast(integer_tag, sign)));
  return {hn::And(hn::Xor(code, flip), hn::Set(kWordTag, (1u << (kBits - 1)) - 1u)), sign};
}

#if HWY_TARGET == HWY_AVX3
/// Up to 4 bits, where all tables fit registers: by cells (levels.h).
template <int kBits>
class NarrowLevelFinder {
 public:
  /// For value() alone any deviation will do.
  HWY_INLINE explicit NarrowLevelFinder(float deviation = 1) {
    const CellTable& table = kCellTables[kBits - 1];
    const __m512 deviations = _mm512_set1_ps(deviation);
    limit_ = _mm512_set1_ps(kCellLimit / kCellsPerDeviation * deviation);
    cells_per_unit_ = _mm512_set1_ps(kCellsPerDeviation / deviation);
    low_starts_ = _mm512_mul_ps(_mm512_loadu_ps(table.starts), deviations);
    high_starts_ = _mm512_mul_ps(_mm512_loadu_ps(table.starts + 16), deviations);
    low_codes_ = _mm512_loadu_si512(table.codes);
    high_codes_ = _mm512_loadu_si512(table.codes + 16);
    levels_ = _mm512_loadu_ps(table.levels);
  }

  HWY_INLINE Levels nearest(Floats values) const {
    constexpr int kSmallerMagnitudeWithFirstSign = 2;
    // A number so large that the lowest bits of a sum are its integer part.
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    const __m512 limited = _mm512_range_ps(values.raw, limit_, kSmallerMagnitudeWithFirstSign);
    // Fused or not: which of two neighbouring cells is found does not matter.
    const __m512i cell = _mm512_castps_si512(_mm512_fmadd_ps(limited, cells_per_unit_, magic));
    const Floats start{_mm512_permutex2var_ps(low_starts_, cell, high_starts_)};
    const Words first{_mm512_permutex2var_epi32(low_codes_, cell, high_codes_)};
    const Words code = advance(first, values, start, 1);
    return {code, value(code)};
  }

  HWY_INLINE Floats value(Words code) const {
    return Floats{_mm512_maskz_permutexvar_ps(0xFFFF, code.raw, levels_)};
  }

 private:
  __m512 limit_;
  __m512 cells_per_unit_;
  __m512 low_starts_;
  __m512 high_starts_;
  __m512i low_codes_;
  __m512i high_codes_;
  __m512 levels_;
};
#else
/// Up to 4 bits: bisection among the codes' starts.
template <int kBits>
class NarrowLevelFinder {
 public:
  /// For value() alone any deviation will do.
  HWY_INLINE explicit NarrowLevelFinder(float deviation = 1)
      : levels_(level_table(kBits).lowest_levels),
        halves_(starts_of_step(kBits - 2, deviation).data()),
        quarters_(starts_of_step(kBits - 3, deviation).data()),
        eighths_(starts_of_step(kBits - 4, deviation).data()) {}

  HWY_INLINE Levels nearest(Floats values) const {
    constexpr std::uint32_t kCodes = 1u << kBits;
    Words code = advance(hn::Zero(kWordTag), values, hn::Zero(kFloatTag), kCodes / 2);
    if constexpr (kBits >= 2) code = step<kBits - 2>(code, values, halves_);
    if constexpr (kBits >= 3) code = step<kBits - 3>(code, values, quarters_);
    if constexpr (kBits >= 4) code = step<kBits - 4>(code, values, eighths_);
    return {code, value(code)};
  }

  HWY_INLINE Floats value(Words code) const {
    const SignedIndex split = split_code<kBits>(code);
    return hn::Or(levels_.look_up(split.index), hn::BitCast(kFloatTag, split.sign));
  }

 private:
  /// Where the codes begin that a step of 2^shift leads to.
  static std::array<float, 8> starts_of_step(int shift, float deviation) {
    std::array<float, 8> starts{};
    if (shift < 0) return starts;
    const std::uint32_t step = 1u << shift;
    for (std::uint32_t i = 0; (2 * i + 1) * step < (1u << kBits); ++i) {
      starts[i] = code_start(kBits, (2 * i + 1) * step) * deviation;
    }
    return starts;
  }

  template <int kShift>
  static HWY_INLINE Words step(Words code, Floats values, const SegmentTable& starts) {
    return advance(code, values, starts.look_up(hn::ShiftRight<kShift + 1>(code)), 1u << kShift);
  }

  SegmentTable levels_;
  SegmentTable halves_;
  SegmentTable quarters_;
  SegmentTable eighths_;
};
#endif

/// More than 4 bits: segments of equal cells.
template <int kBits>
class WideLevelFinder {
 public:
  HWY_INLINE WideLevelFinder(const LevelTable& table, float deviation)
      : inverse_(hn::Set(kFloatTag, 1.0f / deviation)),
        starts_(table.starts),
        lowest_(table.lowest_levels),
        steps_(table.steps),
        inverse_steps_(table.inverse_steps),
        next_starts_(table.starts + 1),
        middle_(hn::Set(kFloatTag, table.starts[kSegments / 2])),
        lower_(hn::Set(kFloatTag, table.starts[kSegments / 4])),
        upper_(hn::Set(kFloatTag, table.starts[kSegments / 2 + kSegments / 4])) {}

  HWY_INLINE Levels nearest(Floats values) const {
    const Floats magnitude = hn::Mul(hn::Abs(values), inverse_);
    const Words segment = find_segment(magnitude);
    const Floats offset =
        hn::Mul(hn::Sub(magnitude, starts_.look_up(segment)), inverse_steps_.look_up(segment));
    constexpr float kLast = static_cast<float>((1 << kCellBits) - 1);
    // Truncated after the limit: the same as before it, for offsets of zero and more.
    const auto cell = truncate(hn::Min(offset, hn::Set(kFloatTag, kLast)));
    const Words index = hn::Add(hn::ShiftLeft<kCellBits>(segment), hn::BitCast(kWordTag, cell));
    const Floats found = level(segment, hn::ConvertTo(kFloatTag, cell));
    const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
    const auto integers = hn::BitCast(integer_tag, values);
    const Words flip = hn::BitCast(kWordTag, hn::ShiftRight<31>(integers));
    constexpr std::uint32_t kMagnitudes = 1u << (kBits - 1);
    const Words code = hn::Xor(hn::Add(index, hn::Set(kWordTag, kMagnitudes)),
                               hn::And(flip, hn::Set(kWordTag, 2 * kMagnitudes - 1)));
    return {code, hn::CopySign(found, values)};
  }

  HWY_INLINE Floats value(Words code) const {
    const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
    const SignedIndex split = split_code<kBits>(code);
    const Words cell = hn::And(split.index, hn::Set(kWordTag, (1u << kCellBits) - 1u));
    const Floats found = level(hn::ShiftRight<kCellBits>(split.index),
                               hn::ConvertTo(kFloatTag, hn::BitCast(integer_tag, cell)));
    return hn::Or(found, hn::BitCast(kFloatTag, split.sign));
  }

 private:
  static constexpr int kCellBits = kBits - 4;

  static HWY_INLINE auto truncate(Floats offset) {
    const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
#if HWY_TARGET == HWY_AVX3
    return hn::Vec<decltype(integer_tag)>{_mm512_maskz_cvttps_epi32(0xFFFF, offset.raw)};
#else
    return hn::ConvertTo(integer_tag, offset);
#endif
  }

  HWY_INLINE Floats level(Words segment, Floats cell) const {
    return hn::Add(lowest_.look_up(segment), hn::Mul(cell, steps_.look_up(segment)));
  }

  /// By bisection. The second step has two starts to choose from, the third looks its start up.
  HWY_INLINE Words find_segment(Floats magnitude) const {
    Words segment = advance(hn::Zero(kWordTag), magnitude, middle_, kSegments / 2);
    const Floats start = hn::IfThenElse(hn::Ge(magnitude, middle_), upper_, lower_);
    segment = advance(segment, magnitude, start, kSegments / 4);
    return advance(segment, magnitude, next_starts_.look_up(segment), 1);
  }

  Floats inverse_;
  SegmentTable starts_;
  SegmentTable lowest_;
  SegmentTable steps_;
  SegmentTable inverse_steps_;
  SegmentTable next_starts_;  // Of the segment after the one that is looked up.
  Floats middle_;
  Floats lower_;
  Floats upper_;
};

template <int kBits>
class LevelFinder {
 public:
  /// For values of this deviation.
  HWY_INLINE explicit LevelFinder(float deviation = 1) : finder_(deviation) {}
  HWY_INLINE Levels nearest(Floats values) const { return finder_.nearest(values); }
  /// The levels of codes, which may have other bits set above their own.
  HWY_INLINE Floats value(Words code) const { return finder_.value(code); }

 private:
  NarrowLevelFinder<kBits> finder_;
};

template <int kBits>
requires(kBits > kMostCellBits) class LevelFinder<kBits> {
 public:
  HWY_INLINE explicit LevelFinder(float deviation = 1) : finder_(level_table(kBits), deviation) {}
  HWY_INLINE Levels nearest(Floats values) const { return finder_.nearest(values); }
  HWY_INLINE Floats value(Words code) const { return finder_.value(code); }

 private:
  WideLevelFinder<kBits> finder_;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lloyd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
