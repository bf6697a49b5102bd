// From values and scales to packed codes. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_
#endif

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/uniform/pack-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// What a kernel writes besides the codes: nothing, the decoded values, or values minus decoded
/// values (the residual).
enum class Extra { kNone, kDecoded, kResidual };

/// An array of the caller whose next tiles are wanted in the cache while this one is quantised.
struct InputStream {
  const void* tile = nullptr;  // Where the array holds the present tile; null: no such array.
  std::size_t element_bytes = 0;
};

struct QuantiseArgs {
  const float* x = nullptr;  // Any alignment; a whole number of packs, all finite.
  std::size_t elements = 0;  // A multiple of 64.
  const GroupScales* scales = nullptr;
  const std::uint16_t* random = nullptr;  // 16 bits per element; stochastic rounding only.
  std::uint8_t* codes = nullptr;          // Stores may reach kSlack bytes past the last code.
  float* extra = nullptr;                 // Any alignment.
  InputStream inputs[2];
};

// 1.5 * 2^23: adding it rounds to the nearest integer, ties to even, and leaves that integer in the
// low bits.
constexpr float kRoundingShift = 12582912.0f;
constexpr std::int32_t kRoundingShiftBits = 0x4B400000;

HWY_INLINE Integers integers_of(Floats shifted) {
  return hn::Sub(hn::BitCast(kIntegerTag, shifted), hn::Set(kIntegerTag, kRoundingShiftBits));
}

HWY_INLINE Floats random_units(const std::uint16_t* random) {
  const hn::Rebind<std::uint16_t, core::HWY_NAMESPACE::FloatTag> halves;
  const Integers integers = hn::PromoteTo(kIntegerTag, hn::LoadU(halves, random));
  const Floats middle = hn::Add(hn::ConvertTo(kFloatTag, integers), hn::Set(kFloatTag, 0.5f));
  return hn::Mul(middle, hn::Set(kFloatTag, 1.0f / 65536.0f));
}

HWY_INLINE Floats floor_and_limit(Floats y, float largest) {
  return hn::Clamp(hn::Floor(y), hn::Zero(kFloatTag), hn::Set(kFloatTag, largest));
}

/// One vector of codes (minus the family's offset) and the values that they decode to.
struct Quantised {
  Integers code;
  Floats value;
};

/// What pack_codes() adds to the codes of quantise_vector().
template <int kBits, Grid kGrid>
constexpr int code_offset() {
  return kGrid == Grid::kUniform && kBits > 1 ? (1 << (kBits - 1)) - 1 : 0;
}

template <Rounding kRounding>
HWY_INLINE Quantised quantise_one_bit(Floats x, Floats inverse, Floats unit,
                                      const std::uint16_t* random) {
  const Floats one = hn::Set(kFloatTag, 1.0f);
  if constexpr (kRounding == Rounding::kNearest) {
    const auto positive = hn::Ge(x, hn::Zero(kFloatTag));
    const Integers code =
        hn::IfThenElseZero(hn::RebindMask(kIntegerTag, positive), hn::Set(kIntegerTag, 1));
    return {code, hn::Mul(hn::IfThenElse(positive, one, hn::Neg(one)), unit)};
  } else {
    const Floats y = hn::Add(hn::Mul(x, inverse), hn::Set(kFloatTag, 0.5f));
    const Floats code = floor_and_limit(hn::Add(y, random_units(random)), 1.0f);
    const Floats sign = hn::Sub(hn::Add(code, code), one);
    return {integers_of(hn::Add(code, hn::Set(kFloatTag, kRoundingShift))), hn::Mul(sign, unit)};
  }
}

template <int kBits, Rounding kRounding>
HWY_INLINE Quantised quantise_uniform(Floats x, Floats inverse, Floats unit,
                                      const std::uint16_t* random) {
  const Floats shift = hn::Set(kFloatTag, kRoundingShift);
  constexpr float kLevels = static_cast<float>((1 << (kBits - 1)) - 1);
  Floats shifted = hn::Mul(x, inverse);
  if constexpr (kRounding == Rounding::kNearest) {
    // No limit is needed: |x| is at most 1 + 2^-7.99 of the scale (at the very top of float32),
    // which rounds to kLevels for up to 127 levels.
    shifted = hn::Add(shifted, shift);
  } else {
    const Floats levels = hn::Set(kFloatTag, kLevels);
    const Floats y = hn::Add(hn::Add(shifted, levels), random_units(random));
    shifted = hn::Add(hn::Sub(floor_and_limit(y, 2 * kLevels), levels), shift);
  }
  return {integers_of(shifted), hn::Mul(hn::Sub(shifted, shift), unit)};
}

template <int kBits, Rounding kRounding>
HWY_INLINE Quantised quantise_minmax(Floats x, Floats inverse, Floats unit, Floats low,
                                     const std::uint16_t* random) {
  const Floats shift = hn::Set(kFloatTag, kRoundingShift);
  constexpr float kLargest = static_cast<float>((1 << kBits) - 1);
  Floats y = hn::Mul(hn::Sub(x, low), inverse);
  if constexpr (kRounding == Rounding::kNearest) {
    y = hn::Clamp(y, hn::Zero(kFloatTag), hn::Set(kFloatTag, kLargest));
  } else {
    y = hn::Clamp(y, hn::Zero(kFloatTag), hn::Set(kFloatTag, kLargest));
    y = floor_and_limit(hn::Add(y, random_units(random)), kLargest);
  }
  const Floats shifted = hn::Add(y, shift);
  const Floats code = hn::Sub(shifted, shift);
  return {integers_of(shifted), hn::Add(low, hn::Mul(code, unit))};
}

template <int kBits, Grid kGrid, Rounding kRounding>
HWY_INLINE Quantised quantise_vector(const QuantiseArgs& args, std::size_t i, Floats x) {
  const std::size_t group = i / kGroupElements;
  const Floats inverse = hn::Set(kFloatTag, args.scales->inverse[group]);
  const Floats unit = hn::Set(kFloatTag, args.scales->unit[group]);
  if constexpr (kGrid == Grid::kMinMax) {
    const Floats low = hn::Set(kFloatTag, args.scales->low[group]);
    return quantise_minmax<kBits, kRounding>(x, inverse, unit, low, args.random + i);
  } else if constexpr (kBits == 1) {
    return quantise_one_bit<kRounding>(x, inverse, unit, args.random + i);
  } else {
    return quantise_uniform<kBits, kRounding>(x, inverse, unit, args.random + i);
  }
}

template <int kBits, Grid kGrid, Rounding kRounding, Extra kExtra>
HWY_INLINE Integers quantise_and_store(const QuantiseArgs& args, std::size_t i) {
  const Floats x = load_floats<float>(args.x, i);
  const Quantised result = quantise_vector<kBits, kGrid, kRounding>(args, i, x);
  if constexpr (kExtra == Extra::kDecoded) store_floats<float>(result.value, args.extra, i);
  if constexpr (kExtra == Extra::kResidual) {
    store_floats<float>(hn::Sub(x, result.value), args.extra, i);
  }
  return result.code;
}

/// Spreads requests for memory evenly over the work on a tile.
HWY_INLINE void prefetch_inputs(const QuantiseArgs& args, std::size_t i) {
  constexpr std::size_t kLineBytes = 64;
  for (const InputStream& input : args.inputs) {
    if (input.tile == nullptr) return;
    const auto* start = static_cast<const std::byte*>(input.tile) + i * input.element_bytes;
    const std::size_t bytes = kPackElements * input.element_bytes;
    for (std::size_t offset = 0; offset < bytes; offset += kLineBytes) {
      core::HWY_NAMESPACE::prefetch_ahead(start + offset);
    }
  }
}

template <int kBits, Grid kGrid, Rounding kRounding, Extra kExtra>
void quantise_tile(const QuantiseArgs& args) {
  std::uint8_t* HWY_RESTRICT codes = args.codes;
  for (std::size_t i = 0; i < args.elements; i += kPackElements) {
    prefetch_inputs(args, i);
    const Integers a = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i);
    const Integers b = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i + kLanes);
    const Integers c = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i + 2 * kLanes);
    const Integers d = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i + 3 * kLanes);
    pack_codes<kBits, code_offset<kBits, kGrid>()>(a, b, c, d, codes);
    codes += kPackElements * kBits / 8;
  }
}

using QuantiseFunction = void (*)(const QuantiseArgs&);

template <int kBits, Grid kGrid, Rounding kRounding>
QuantiseFunction quantise_function(Extra extra) {
  switch (extra) {
    case Extra::kNone:
      return quantise_tile<kBits, kGrid, kRounding, Extra::kNone>;
    case Extra::kDecoded:
      return quantise_tile<kBits, kGrid, kRounding, Extra::kDecoded>;
    case Extra::kResidual:
      return quantise_tile<kBits, kGrid, kRounding, Extra::kResidual>;
  }
  return nullptr;
}

template <int kBits>
QuantiseFunction quantise_function(const UniformParameters& parameters, Extra extra) {
  const bool nearest = parameters.rounding == Rounding::kNearest;
  if (parameters.grid == Grid::kUniform) {
    return nearest ? quantise_function<kBits, Grid::kUniform, Rounding::kNearest>(extra)
                   : quantise_function<kBits, Grid::kUniform, Rounding::kStochastic>(extra);
  }
  return nearest ? quantise_function<kBits, Grid::kMinMax, Rounding::kNearest>(extra)
                 : quantise_function<kBits, Grid::kMinMax, Rounding::kStochastic>(extra);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
