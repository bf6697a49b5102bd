// From values to codes and back (grid.h), a tile at a time. Compiled once per target.
#if defined(COMPRESS_KERNELS_QSGD_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_QSGD_QUANTISE_INL_H_
#undef COMPRESS_KERNELS_QSGD_QUANTISE_INL_H_
#else
#define COMPRESS_KERNELS_QSGD_QUANTISE_INL_H_
#endif

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/qsgd/dither-inl.h"
#include "compress_kernels/qsgd/lane_pack-inl.h"
#include "compress_kernels/qsgd/tile_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::qsgd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using IntegerTag = hn::RebindToSigned<core::HWY_NAMESPACE::WordTag>;
using Integers = hn::Vec<IntegerTag>;
constexpr IntegerTag kIntegerTag;

/// Toward zero, of numbers that fit: Highway's ConvertTo also handles those that do not, at the
/// price of more operations.
HWY_INLINE Integers truncated_integers(Floats x) {
#if HWY_TARGET == HWY_AVX3
  return Integers{_mm512_maskz_cvttps_epi32(0xFFFF, x.raw)};  // The plain form warns in GCC 12.
#else
  return Integers{_mm256_cvttps_epi32(x.raw)};
#endif
}

/// As limited() in grid.h: NaN becomes `low`, by the order of the operands.
HWY_INLINE Floats limit(Floats value, Floats low, Floats high) {
  return hn::Min(hn::Max(value, low), high);
}

/// factors[j][row] of each value's grid j.
template <bool kHasLevels>
HWY_INLINE Floats choose_factor(const float (*factors)[kRows], const Grids& grids, std::size_t row,
                                std::size_t lane) {
  Floats factor = hn::Set(kFloatTag, factors[0][row]);
  if constexpr (kHasLevels) {
    const Words level = hn::Load(kWordTag, grids.levels + row * kPackLanes + lane);
    for (std::size_t j = 1; j < grids.grids; ++j) {
      const auto is_finer = hn::Gt(hn::BitCast(kIntegerTag, level),
                                   hn::Set(kIntegerTag, static_cast<std::int32_t>(j) - 1));
      factor = hn::IfThenElse(hn::RebindMask(kFloatTag, is_finer),
                              hn::Set(kFloatTag, factors[j][row]), factor);
    }
  }
  return factor;
}

/// Byte kByte of each word. A shuffle does what else takes a shift and an and.
template <int kByte>
HWY_INLINE Words get_byte(Words words) {
  if constexpr (kByte == 0) return hn::And(words, hn::Set(kWordTag, 0xFFu));
  if constexpr (kByte == 3) return hn::ShiftRight<24>(words);
  const hn::Repartition<std::uint8_t, core::HWY_NAMESPACE::WordTag> bytes;
  alignas(16) static constexpr std::uint8_t kOrder[16] = {
      kByte,     0x80, 0x80, 0x80, kByte + 4,  0x80, 0x80, 0x80,
      kByte + 8, 0x80, 0x80, 0x80, kByte + 12, 0x80, 0x80, 0x80};
  return hn::BitCast(
      kWordTag, hn::TableLookupBytes(hn::BitCast(bytes, words), hn::LoadDup128(bytes, kOrder)));
}

/// 256 (code + steps) and a fraction, from the byte kByte of `random`.
template <int kByte>
HWY_INLINE Words quantise_stochastic(Floats x, Floats inverse, const QuantiseArgs& args,
                                     Words random) {
  const Floats largest = hn::Set(kFloatTag, static_cast<float>(512u * args.grids.steps));
  const Floats y = hn::Add(hn::Mul(x, inverse), hn::Set(kFloatTag, args.dither.bias));
  const Integers position = truncated_integers(limit(y, hn::Zero(kFloatTag), largest));
  return hn::Add(hn::BitCast(kWordTag, position), get_byte<kByte>(random));
}

/// code + steps
HWY_INLINE Words quantise_to_zero(Floats x, Floats inverse, const QuantiseArgs& args) {
  const Floats largest = hn::Set(kFloatTag, static_cast<float>(args.grids.steps));
  const Floats y = hn::Mul(hn::Mul(x, inverse), hn::Set(kFloatTag, 0x1p-8f));
  const Integers code = truncated_integers(limit(y, hn::Neg(largest), largest));
  return hn::Add(hn::BitCast(kWordTag, code), hn::Set(kWordTag, args.grids.steps));
}

/// Vectors of a row that are quantised side by side, so that memory is read in order.
constexpr std::size_t kSideBySide = 2;
static_assert(kPackLanes % (kSideBySide * kLanes) == 0);

template <bool kHasLevels, int kByte>
HWY_INLINE void quantise_row(const QuantiseArgs& args, std::size_t row, std::size_t lane,
                             Words random, std::uint32_t* codes) {
  const std::size_t i = row * kPackLanes + lane;
  arrays::prefetch_ahead(args.x + i);
  const Floats inverse =
      choose_factor<kHasLevels>(args.grids.scales->inverse, args.grids, row, lane);
  const Floats x = arrays::load_floats<float>(args.x, i);
  const Words code = quantise_stochastic<kByte>(x, inverse, args, random);
  hn::Store(hn::ShiftRight<8>(code), kWordTag, codes + i);
}

/// The 16 rows of one half of kSideBySide vectors.
template <bool kHasLevels>
HWY_INLINE void quantise_half(const QuantiseArgs& args, const DitherSource& dither,
                              std::size_t half, std::size_t lane, std::uint32_t* codes) {
  const DitherWords random[] = {dither.draw(half, lane), dither.draw(half, lane + kLanes)};
  for (std::size_t word = 0; word < 4; ++word) {
    const std::size_t row = half * kDitherRows + 4 * word;
    for (std::size_t v = 0; v < kSideBySide; ++v) {
      const std::size_t first = lane + v * kLanes;
      quantise_row<kHasLevels, 0>(args, row, first, random[v].word[word], codes);
      quantise_row<kHasLevels, 1>(args, row + 1, first, random[v].word[word], codes);
      quantise_row<kHasLevels, 2>(args, row + 2, first, random[v].word[word], codes);
      quantise_row<kHasLevels, 3>(args, row + 3, first, random[v].word[word], codes);
    }
  }
}

template <bool kHasLevels>
void quantise_tile_stochastic(const QuantiseArgs& caller_args, std::uint32_t* HWY_RESTRICT codes) {
  const QuantiseArgs args = caller_args;
  const DitherSource dither(args.dither);
  for (std::size_t half = 0; half < kRows / kDitherRows; ++half) {
    for (std::size_t lane = 0; lane < kPackLanes; lane += kSideBySide * kLanes) {
      quantise_half<kHasLevels>(args, dither, half, lane, codes);
    }
  }
}

template <bool kHasLevels>
void quantise_tile_to_zero(const QuantiseArgs& caller_args, std::uint32_t* HWY_RESTRICT codes) {
  const QuantiseArgs args = caller_args;
  for (std::size_t i = 0; i < kTileElements; i += kLanes) {
    arrays::prefetch_ahead(args.x + i);
    const Floats inverse = choose_factor<kHasLevels>(args.grids.scales->inverse, args.grids,
                                                     i / kPackLanes, i % kPackLanes);
    const Floats x = arrays::load_floats<float>(args.x, i);
    hn::Store(quantise_to_zero(x, inverse, args), kWordTag, codes + i);
  }
}

inline void quantise(const QuantiseArgs& args, std::uint32_t* codes) {
  if (args.is_stochastic) {
    return args.grids.levels == nullptr ? quantise_tile_stochastic<false>(args, codes)
                                        : quantise_tile_stochastic<true>(args, codes);
  }
  return args.grids.levels == nullptr ? quantise_tile_to_zero<false>(args, codes)
                                      : quantise_tile_to_zero<true>(args, codes);
}

/// The values of kLanes codes.
template <bool kHasLevels>
HWY_INLINE Floats dequantise_vector(const DequantiseArgs& args, std::size_t i) {
  const Words code = hn::Sub(hn::Load(kWordTag, args.codes + i), hn::Set(kWordTag, args.offset));
  const Floats unit = choose_factor<kHasLevels>(args.grids.scales->unit, args.grids, i / kPackLanes,
                                                i % kPackLanes);
  return hn::Mul(hn::ConvertTo(kFloatTag, hn::BitCast(kIntegerTag, code)), unit);
}

template <bool kHasLevels, bool kDivides, bool kStreams>
void dequantise_tile(const DequantiseArgs& caller_args, float* HWY_RESTRICT values) {
  const DequantiseArgs args = caller_args;
  const arrays::Divisor divisor(args.divisor);
  for (std::size_t i = 0; i < kTileElements; i += kLanes) {
    Floats value = dequantise_vector<kHasLevels>(args, i);
    if constexpr (kDivides) value = divisor.divide(value);
    if constexpr (kStreams) {
      hn::Stream(value, kFloatTag, values + i);
    } else {
      arrays::store_floats<float>(value, values, i);
    }
  }
}

template <bool kHasLevels, bool kDivides>
void dequantise_tile(const DequantiseArgs& args, float* values) {
  return args.streams ? dequantise_tile<kHasLevels, kDivides, true>(args, values)
                      : dequantise_tile<kHasLevels, kDivides, false>(args, values);
}

inline void dequantise(const DequantiseArgs& args, float* values) {
  if (args.divisor != 1) {
    return args.grids.levels == nullptr ? dequantise_tile<false, true>(args, values)
                                        : dequantise_tile<true, true>(args, values);
  }
  return args.grids.levels == nullptr ? dequantise_tile<false, false>(args, values)
                                      : dequantise_tile<true, false>(args, values);
}

template <bool kHasLevels>
void subtract_tile(const float* x, const DequantiseArgs& caller_args, std::size_t count,
                   float* residual) {
  const DequantiseArgs args = caller_args;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats value = dequantise_vector<kHasLevels>(args, i);
    arrays::store_floats<float>(hn::Sub(arrays::load_floats<float>(x, i), value), residual, i);
  }
  if (i == count) return;
  HWY_ALIGN float values[kLanes];
  hn::Store(dequantise_vector<kHasLevels>(args, i), kFloatTag, values);
  for (std::size_t k = 0; i < count; ++i, ++k) {
    core::store_element(residual, i, core::load_element<float>(x, i) - values[k]);
  }
}

inline void subtract(const float* x, const DequantiseArgs& args, std::size_t count,
                     float* residual) {
  return args.grids.levels == nullptr ? subtract_tile<false>(x, args, count, residual)
                                      : subtract_tile<true>(x, args, count, residual);
}

inline void choose_levels(const float* x, const Grids& grids, std::uint32_t* levels) {
  const Floats largest = hn::Set(kFloatTag, static_cast<float>(256u * grids.steps));
  for (std::size_t i = 0; i < kTileElements; i += kLanes) {
    const Floats magnitude = hn::Abs(arrays::load_floats<float>(x, i));
    Words level = hn::Zero(kWordTag);
    for (std::size_t j = 1; j < grids.grids; ++j) {
      const Floats inverse = hn::Set(kFloatTag, grids.scales->inverse[j][i / kPackLanes]);
      const auto fits = hn::Le(hn::Mul(magnitude, inverse), largest);
      level =
          hn::Add(level, hn::IfThenElseZero(hn::RebindMask(kWordTag, fits), hn::Set(kWordTag, 1u)));
    }
    hn::Store(level, kWordTag, levels + i);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::qsgd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
