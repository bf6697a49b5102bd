// The extremes of the blocks of a tile and the scales that follow from them, as block_scale.h
// defines them. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_MEASURE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_MEASURE_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_MEASURE_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_MEASURE_INL_H_
#endif

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/uniform/fit-inl.h"
#include "compress_kernels/uniform/quad_scale-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using arrays::load_floats, arrays::store_floats;

/// The blocks to measure: x may have any alignment; the last block may be shorter than the others,
/// padded to its full length (with zeros; for minmax with its last value).
struct MeasureArgs {
  const UniformParameters* parameters = nullptr;
  const float* x = nullptr;
  std::size_t block_count = 0;
  std::size_t last_block_elements = 0;
};

HWY_INLINE Words magnitudes(Floats x) {
  return hn::And(hn::BitCast(kWordTag, x), hn::Set(kWordTag, core::kMagnitudeMask));
}

/// The largest magnitude of x[first .. first + block), in every lane.
HWY_INLINE Words find_magnitude(const float* x, std::size_t first, std::size_t block) {
  Words even = hn::Zero(kWordTag);
  Words odd = hn::Zero(kWordTag);
  for (std::size_t i = first; i < first + block; i += 2 * kLanes) {
    even = hn::Max(even, magnitudes(load_floats<float>(x, i)));
    odd = hn::Max(odd, magnitudes(load_floats<float>(x, i + kLanes)));
  }
  return hn::MaxOfLanes(kWordTag, hn::Max(even, odd));
}

inline void find_magnitudes(const MeasureArgs& args, BlockScales& scales) {
  const std::size_t block = args.parameters->block;
  for (std::size_t b = 0; b < args.block_count; ++b) {
    scales.magnitude[b] = hn::GetLane(find_magnitude(args.x, b * block, block));
  }
}

inline void find_ranges(const MeasureArgs& args, BlockScales& scales) {
  const std::size_t block = args.parameters->block;
  for (std::size_t b = 0; b < args.block_count; ++b) {
    Words magnitude = hn::Zero(kWordTag);
    Floats minimum = load_floats<float>(args.x, b * block);
    Floats maximum = minimum;
    for (std::size_t i = b * block; i < (b + 1) * block; i += kLanes) {
      const Floats x = load_floats<float>(args.x, i);
      magnitude = hn::Max(magnitude, magnitudes(x));
      minimum = hn::Min(minimum, x);
      maximum = hn::Max(maximum, x);
    }
    scales.magnitude[b] = hn::GetLane(hn::MaxOfLanes(kWordTag, magnitude));
    scales.minimum[b] = hn::GetLane(hn::MinOfLanes(kFloatTag, minimum));
    scales.maximum[b] = hn::GetLane(hn::MaxOfLanes(kFloatTag, maximum));
  }
}

/// lanes[i] += lanes[i + kDistance] for i < kDistance, then the same with half the distance.
template <std::size_t kDistance>
HWY_INLINE void fold_lanes(float* HWY_RESTRICT lanes) {
  const hn::CappedTag<float, kDistance> d;
  for (std::size_t i = 0; i < kDistance; i += hn::MaxLanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, lanes + i), hn::LoadU(d, lanes + i + kDistance)), d, lanes + i);
  }
  if constexpr (kDistance > 1) fold_lanes<kDistance / 2>(lanes);
}

inline void find_means(const MeasureArgs& args, BlockScales& scales) {
  static_assert(core::kSumLanes % kLanes == 0);
  constexpr std::size_t kVectors = core::kSumLanes / kLanes;
  const std::size_t block = args.parameters->block;
  const Floats factor = hn::Set(kFloatTag, 1.0f / static_cast<float>(block));
  HWY_ALIGN float lanes[kGroups][core::kSumLanes];
  for (std::size_t b = 0; b < args.block_count; ++b) {
    Words magnitude = hn::Zero(kWordTag);
    for (std::size_t lane = 0; lane < kVectors; ++lane) {
      Floats sum = hn::Zero(kFloatTag);
      for (std::size_t i = b * block + lane * kLanes; i < (b + 1) * block; i += core::kSumLanes) {
        const Words bits = magnitudes(load_floats<float>(args.x, i));
        magnitude = hn::Max(magnitude, bits);
        sum = hn::Add(sum, hn::Mul(hn::BitCast(kFloatTag, bits), factor));
      }
      hn::Store(sum, kFloatTag, lanes[b] + lane * kLanes);
    }
    scales.magnitude[b] = hn::GetLane(hn::MaxOfLanes(kWordTag, magnitude));
  }
  for (std::size_t b = 0; b < args.block_count; ++b) {
    fold_lanes<core::kSumLanes / 2>(lanes[b]);
    const std::size_t elements = b + 1 == args.block_count ? args.last_block_elements : block;
    scales.mean[b] = lanes[b][0] * (static_cast<float>(block) / static_cast<float>(elements));
  }
}

/// a >= b for numbers below 2^31.
HWY_INLINE hn::Mask<core::HWY_NAMESPACE::WordTag> at_least(Words a, std::uint32_t b) {
  const hn::RebindToSigned<core::HWY_NAMESPACE::WordTag> integer_tag;
  const auto below = hn::Set(integer_tag, static_cast<std::int32_t>(b) - 1);
  return hn::RebindMask(kWordTag, hn::Gt(hn::BitCast(integer_tag, a), below));
}

HWY_INLINE Words round_up_to_bfloat16(Words magnitude) {
  const Words rounded = hn::ShiftRight<16>(hn::Add(magnitude, hn::Set(kWordTag, 0xFFFFu)));
  return hn::Min(rounded, hn::Set(kWordTag, core::kLargestBfloat16));
}

HWY_INLINE Floats widen_stored(Words stored) {
  return hn::BitCast(kFloatTag, hn::ShiftLeft<16>(stored));
}

/// What vectors of blocks get; see core::BlockScale.
struct ScaleVectors {
  Words stored;
  Floats inverse;
  Floats low;
};

HWY_INLINE ScaleVectors scales_from_range(const BlockScales& scales, std::size_t b, Floats levels) {
  const Floats limit = hn::Set(kFloatTag, core::kMinMaxLimit);
  const Floats zero = hn::Zero(kFloatTag);
  const Floats minimum = hn::Clamp(hn::Load(kFloatTag, scales.minimum + b), hn::Neg(limit), limit);
  const Floats maximum = hn::Clamp(hn::Load(kFloatTag, scales.maximum + b), hn::Neg(limit), limit);
  const Floats low = hn::Add(minimum, zero);
  const Floats range = hn::Sub(maximum, low);
  const auto present = at_least(hn::BitCast(kWordTag, range), core::kExtentFloorBits);
  const Words step = round_up_to_bfloat16(hn::BitCast(kWordTag, hn::Div(range, levels)));
  const Words stored = hn::IfThenElseZero(present, step);
  const Floats inverse = hn::Div(hn::Set(kFloatTag, 1.0f), widen_stored(step));
  return {stored, hn::IfThenElseZero(hn::RebindMask(kFloatTag, present), inverse), low};
}

HWY_INLINE ScaleVectors scales_from_mean(const BlockScales& scales, std::size_t b,
                                         Words magnitude) {
  const Words mean = hn::BitCast(kWordTag, hn::Load(kFloatTag, scales.mean + b));
  const Words odd = hn::And(hn::ShiftRight<16>(mean), hn::Set(kWordTag, 1u));
  const Words sum = hn::Add(hn::Add(mean, hn::Set(kWordTag, 0x7FFFu)), odd);
  const Words rounded = hn::Min(hn::ShiftRight<16>(sum), hn::Set(kWordTag, core::kLargestBfloat16));
  const auto present = at_least(magnitude, core::kExtentFloorBits);
  return {hn::IfThenElseZero(present, rounded), hn::Zero(kFloatTag), hn::Zero(kFloatTag)};
}

/// `levels` is what the scale is divided into; `largest` limits the stored scale.
HWY_INLINE ScaleVectors scales_from_magnitude(Words magnitude, float levels,
                                              std::uint32_t largest) {
  const Words rounded = hn::Min(round_up_to_bfloat16(magnitude), hn::Set(kWordTag, largest));
  const auto present = at_least(magnitude, core::kExtentFloorBits);
  const Floats inverse = hn::Div(hn::Set(kFloatTag, levels), widen_stored(rounded));
  return {hn::IfThenElseZero(present, rounded),
          hn::IfThenElseZero(hn::RebindMask(kFloatTag, present), inverse), hn::Zero(kFloatTag)};
}

HWY_INLINE Floats units_from_stored(const UniformParameters& parameters, Words stored) {
  const Floats scale = widen_stored(stored);
  if (parameters.grid == Grid::kMinMax || parameters.bits == 1) return scale;
  const float levels = static_cast<float>(core::uniform_levels(parameters.bits));
  return hn::Div(scale, hn::Set(kFloatTag, levels));
}

HWY_INLINE ScaleVectors scales_of(const UniformParameters& parameters, const BlockScales& scales,
                                  std::size_t b, Words magnitude) {
  if (parameters.grid == Grid::kMinMax) {
    const float levels = static_cast<float>(core::minmax_levels(parameters.bits));
    return scales_from_range(scales, b, hn::Set(kFloatTag, levels));
  }
  if (parameters.bits > 1) {
    const float levels = static_cast<float>(core::uniform_levels(parameters.bits));
    return scales_from_magnitude(magnitude, levels, core::kLargestBfloat16);
  }
  if (parameters.rounding == Rounding::kNearest) return scales_from_mean(scales, b, magnitude);
  return scales_from_magnitude(magnitude, 0.5f, core::kLargestOneBitScale);
}

/// Replaces the stored units, and the units, of finite blocks by those of least squares.
inline void fit_blocks(const MeasureArgs& args, BlockScales& scales) {
  const UniformParameters& parameters = *args.parameters;
  const std::size_t block = parameters.block;
  const float rounding = core::fit_rounding(parameters.bits);
  for (std::size_t b = 0; b < args.block_count; ++b) {
    const std::uint32_t stored = scales.stored_unit[b];
    if (stored == core::kBfloat16Nan) continue;
    const auto fitted = fit_block(args.x + b * block, block, hn::Set(kQuadWordTag, stored),
                                  scales.inverse[b], rounding);
    scales.stored_unit[b] = static_cast<std::uint16_t>(hn::GetLane(fitted));
    scales.unit[b] = core::uniform_unit(scales.stored_unit[b], parameters.bits);
  }
}

/// Fills `scales` for args.block_count blocks and returns whether all of them are finite. A
/// non-finite block gets NaN as its unit, and zero as inverse and low, so that quantising zeros
/// decodes to NaN.
inline bool measure_blocks(const MeasureArgs& args, BlockScales& scales) {
  const UniformParameters& parameters = *args.parameters;
  if (parameters.grid == Grid::kMinMax) {
    find_ranges(args, scales);
  } else if (parameters.bits == 1 && parameters.rounding == Rounding::kNearest) {
    find_means(args, scales);
  } else {
    find_magnitudes(args, scales);
  }
  const hn::Rebind<std::uint16_t, core::HWY_NAMESPACE::FloatTag> halves;
  bool all_finite = true;
  for (std::size_t b = args.block_count; b % kLanes != 0; ++b) scales.magnitude[b] = 0;
  for (std::size_t b = 0; b < args.block_count; b += kLanes) {
    const Words magnitude = hn::Load(kWordTag, scales.magnitude + b);
    ScaleVectors vectors = scales_of(parameters, scales, b, magnitude);
    const auto finite = hn::Not(at_least(magnitude, core::kInfinityBits));
    if (!hn::AllTrue(kWordTag, finite)) {
      all_finite = false;
      const auto finite_floats = hn::RebindMask(kFloatTag, finite);
      vectors.stored = hn::IfThenElse(finite, vectors.stored,
                                      hn::Set(kWordTag, std::uint32_t{core::kBfloat16Nan}));
      vectors.inverse = hn::IfThenElseZero(finite_floats, vectors.inverse);
      vectors.low = hn::IfThenElseZero(finite_floats, vectors.low);
    }
    hn::StoreU(hn::TruncateTo(halves, vectors.stored), halves, scales.stored_unit + b);
    hn::Store(vectors.inverse, kFloatTag, scales.inverse + b);
    hn::Store(vectors.low, kFloatTag, scales.low + b);
    hn::Store(units_from_stored(parameters, vectors.stored), kFloatTag, scales.unit + b);
  }
  if (takes_fit(parameters)) fit_blocks(args, scales);
  return all_finite;
}

/// Repeats each entry of `blocks` once per group of its block. May write kLanes entries too many.
inline void spread_to_groups(const float* HWY_RESTRICT blocks, std::size_t block_count,
                             std::size_t block_elements, float* HWY_RESTRICT groups) {
  const std::size_t repeats = block_elements / kGroupElements;
  for (std::size_t b = 0; b < block_count; ++b) {
    const Floats value = hn::Set(kFloatTag, blocks[b]);
    for (std::size_t r = 0; r < repeats; r += kLanes) {
      hn::StoreU(value, kFloatTag, groups + b * repeats + r);
    }
  }
}

/// The usual case of measure_blocks(), `uniform` with 2 bits and more, without waiting for all
/// blocks before the first division. Fills the stored units, the groups' inverses and, if needed,
/// their units; returns false if a block is not finite, and what was filled is then of no use.
inline bool measure_magnitudes(const MeasureArgs& args, bool needs_units, BlockScales& scales,
                               GroupScales& groups) {
  const std::size_t block = args.parameters->block;
  const std::size_t groups_per_block = block / kGroupElements;
  const auto levels =
      hn::Set(kQuadTag, static_cast<float>(core::uniform_levels(args.parameters->bits)));
  const bool fits = takes_fit(*args.parameters);
  const float rounding = core::fit_rounding(args.parameters->bits);
  Words largest = hn::Zero(kWordTag);
  for (std::size_t b = 0; b < args.block_count; ++b) {
    const Words magnitude = find_magnitude(args.x, b * block, block);
    largest = hn::Max(largest, magnitude);
    const auto quad = lowest_quad(magnitude);
    auto [stored, inverse] = quad_from_magnitude(quad, levels);
    if (fits) stored = fit_block(args.x + b * block, block, stored, hn::GetLane(inverse), rounding);
    scales.stored_unit[b] = static_cast<std::uint16_t>(hn::GetLane(stored));
    spread_quad(inverse, groups_per_block, groups.inverse + b * groups_per_block);
    if (!needs_units) continue;
    const auto unit = hn::Div(hn::BitCast(kQuadTag, hn::ShiftLeft<16>(stored)), levels);
    spread_quad(unit, groups_per_block, groups.unit + b * groups_per_block);
  }
  return hn::AllTrue(kWordTag, hn::Not(at_least(largest, core::kInfinityBits)));
}

/// Fills the groups' units, and lows for minmax, from what stands in a wire.
inline void load_group_scales(const UniformParameters& parameters, const std::byte* units,
                              const std::byte* lows, std::size_t block_count, GroupScales& groups) {
  const std::size_t groups_per_block = parameters.block / kGroupElements;
  const bool is_plain = parameters.grid == Grid::kMinMax || parameters.bits == 1;
  const float levels = is_plain ? 1.0f : static_cast<float>(core::uniform_levels(parameters.bits));
  const auto divisor = hn::Set(kQuadTag, levels);
  for (std::size_t b = 0; b < block_count; ++b) {
    const auto stored = core::load_element<core::Bfloat16>(units, b);
    const auto unit = hn::Div(hn::Set(kQuadTag, core::widen(stored)), divisor);
    spread_quad(unit, groups_per_block, groups.unit + b * groups_per_block);
  }
  if (parameters.grid == Grid::kUniform) return;
  for (std::size_t b = 0; b < block_count; ++b) {
    const auto low = hn::Set(kQuadTag, core::load_element<float>(lows, b));
    spread_quad(low, groups_per_block, groups.low + b * groups_per_block);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
