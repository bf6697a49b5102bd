// From magnitudes to levels and codes, and back, a vector at a time: levels.h. Compiled once per
// target.
#if defined(COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_
#undef COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_
#else
#define COMPRESS_KERNELS_LLOYD_LOOKUP_INL_H_
#endif

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
      low_ = hn::Combine(kFloatTag, lower, lower);
    } else {
      low_ = hn::LoadU(kFloatTag, entries);
      if constexpr (kLanes == 4) high_ = hn::LoadU(kFloatTag, entries + 4);
    }
  }

  HWY_INLINE Floats look_up(Words index) const {
#if HWY_TARGET == HWY_AVX3
    return Floats{_mm512_maskz_permutexvar_ps(0xFFFF, index.raw, low_.raw)};
#else
    if constexpr (kLanes == 4) {
      // Two tables of four.
      const Words low_bits = hn::And(index, hn::Set(kWordTag, 3u));
      const auto lanes = hn::IndicesFromVec(kFloatTag, low_bits);
      const auto is_high = hn::RebindMask(kFloatTag, hn::Gt(index, hn::Set(kWordTag, 3u)));
      return hn::IfThenElse(is_high, hn::TableLookupLanes(high_, lanes),
                            hn::TableLookupLanes(low_, lanes));
    } else {
      return hn::TableLookupLanes(low_, hn::IndicesFromVec(kFloatTag, index));
    }
#endif
  }

 private:
  Floats low_;
  Floats high_;  // With four lanes.
};

/// Magnitude indices and the levels that they stand for.
struct Levels {
  Words index;
  Floats value;
};

template <int kBits>
class LevelFinder {
 public:
  HWY_INLINE explicit LevelFinder(const LevelTable& table)
      : starts_(table.starts),
        lowest_(table.lowest_levels),
        steps_(table.steps),
        inverse_steps_(table.inverse_steps),
        next_starts_(table.starts + 1),
        middle_(hn::Set(kFloatTag, table.starts[kUsed / 2])),
        lower_(hn::Set(kFloatTag, table.starts[kUsed / 4])),
        upper_(hn::Set(kFloatTag, table.starts[kUsed / 2 + kUsed / 4])) {}

  HWY_INLINE Levels nearest(Floats magnitude) const {
    if constexpr (kBits == 1) {
      return {hn::Zero(kWordTag), lowest_.look_up(hn::Zero(kWordTag))};
    } else {
      const Words segment = find_segment(magnitude);
      if constexpr (kCellBits == 0) {
        return {segment, lowest_.look_up(segment)};
      } else {
        const Floats offset =
            hn::Mul(hn::Sub(magnitude, starts_.look_up(segment)), inverse_steps_.look_up(segment));
        constexpr float kLast = static_cast<float>((1 << kCellBits) - 1);
        // Truncated after the limit: the same as before it, for offsets of zero and more.
        const auto cell = truncate(hn::Min(offset, hn::Set(kFloatTag, kLast)));
        return {hn::Add(hn::ShiftLeft<kCellBits>(segment), hn::BitCast(kWordTag, cell)),
                level(segment, hn::ConvertTo(kFloatTag, cell))};
      }
    }
  }

  /// The levels of magnitude indices.
  HWY_INLINE Floats value(Words index) const {
    if constexpr (kCellBits == 0) {
      return lowest_.look_up(index);
    } else {
      const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
      const Words cell = hn::And(index, hn::Set(kWordTag, (1u << kCellBits) - 1u));
      return level(hn::ShiftRight<kCellBits>(index),
                   hn::ConvertTo(kFloatTag, hn::BitCast(integer_tag, cell)));
    }
  }

 private:
  static constexpr int kCellBits = kBits > 4 ? kBits - 4 : 0;
  static constexpr std::size_t kUsed = std::size_t{1} << (kBits > 4 ? 3 : kBits - 1);

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

  /// segment + amount in the lanes whose magnitude reaches `start`.
  static HWY_INLINE Words advance(Words segment, Floats magnitude, Floats start,
                                  std::uint32_t amount) {
#if HWY_TARGET == HWY_AVX3
    const __mmask16 reached = _mm512_cmp_ps_mask(magnitude.raw, start.raw, _CMP_GE_OQ);
    return Words{_mm512_mask_add_epi32(segment.raw, reached, segment.raw,
                                       _mm512_set1_epi32(static_cast<int>(amount)))};
#else
    const auto reached = hn::RebindMask(kWordTag, hn::Ge(magnitude, start));
    return hn::Add(segment, hn::IfThenElseZero(reached, hn::Set(kWordTag, amount)));
#endif
  }

  /// By bisection. The second step has two starts to choose from, the third looks its start up.
  HWY_INLINE Words find_segment(Floats magnitude) const {
    Words segment = advance(hn::Zero(kWordTag), magnitude, middle_, kUsed / 2);
    if constexpr (kUsed >= 4) {
      const Floats start = hn::IfThenElse(hn::Ge(magnitude, middle_), upper_, lower_);
      segment = advance(segment, magnitude, start, kUsed / 4);
    }
    if constexpr (kUsed == 8) {
      segment = advance(segment, magnitude, next_starts_.look_up(segment), 1);
    }
    return segment;
  }

  SegmentTable starts_;
  SegmentTable lowest_;
  SegmentTable steps_;
  SegmentTable inverse_steps_;
  SegmentTable next_starts_;  // Of the segment after the one that is looked up.
  Floats middle_;
  Floats lower_;
  Floats upper_;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lloyd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
