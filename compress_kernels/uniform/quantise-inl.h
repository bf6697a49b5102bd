// From values and scales to packed codes. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_QUANTISE_INL_H_
#endif

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/pack-inl.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace arrays = core::HWY_NAMESPACE;
using arrays::Integers, arrays::IntegerTag, arrays::kIntegerTag, arrays::kPackElements,
    arrays::nearest_integers, arrays::pack_codes, arrays::pack_planes;

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
  core::Planes<std::uint8_t> codes;       // Stores may reach kSlack bytes past the last code.
  float* extra = nullptr;                 // Any alignment.
  InputStream values;                     // Never null.
  InputStream residual;                   // Null without error feedback.
};

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
    return {nearest_integers(code), hn::Mul(sign, unit)};
  }
}

template <int kBits, Rounding kRounding>
HWY_INLINE Quantised quantise_uniform(Floats x, Floats inverse, Floats unit,
                                      const std::uint16_t* random) {
  constexpr float kLevels = static_cast<float>((1 << (kBits - 1)) - 1);
  Floats y = hn::Mul(x, inverse);
  // Nearest needs no limit up to 127 levels: |x| is at most 1 + 2^-7.99 times the scale (at the
  // very top of float32), which rounds to kLevels.
  if constexpr (kRounding == Rounding::kNearest && kBits > 8) {
    y = hn::Clamp(y, hn::Set(kFloatTag, -kLevels), hn::Set(kFloatTag, kLevels));
  }
  if constexpr (kRounding == Rounding::kStochastic) {
    const Floats levels = hn::Set(kFloatTag, kLevels);
    y = hn::Add(hn::Add(y, levels), random_units(random));
    y = hn::Sub(floor_and_limit(y, 2 * kLevels), levels);
  }
  const Integers steps = nearest_integers(y);
  return {steps, hn::Mul(hn::ConvertTo(kFloatTag, steps), unit)};
}

template <int kBits, Rounding kRounding>
HWY_INLINE Quantised quantise_minmax(Floats x, Floats inverse, Floats unit, Floats low,
                                     const std::uint16_t* random) {
  constexpr float kLargest = static_cast<float>((1 << kBits) - 1);
  Floats y = hn::Mul(hn::Sub(x, low), inverse);
  y = hn::Clamp(y, hn::Zero(kFloatTag), hn::Set(kFloatTag, kLargest));
  if constexpr (kRounding == Rounding::kStochastic) {
    y = floor_and_limit(hn::Add(y, random_units(random)), kLargest);
  }
  const Integers code = nearest_integers(y);
  return {code, hn::Add(low, hn::Mul(hn::ConvertTo(kFloatTag, code), unit))};
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

/// Asks for what the array holds some tiles after elements i to i + kPackElements. The number of
/// requests is fixed: a loop whose length depends on the element type costs more than it saves.
HWY_INLINE void prefetch_input(const InputStream& input, std::size_t i) {
  constexpr std::size_t kLineElements = 16;
  static_assert(kPackElements % kLineElements == 0);
  const auto* start = static_cast<const std::byte*>(input.tile);
  HWY_UNROLL(4)
  for (std::size_t line = 0; line < kPackElements; line += kLineElements) {
    core::HWY_NAMESPACE::prefetch_ahead(start + (i + line) * input.element_bytes);
  }
}

/// Spreads requests for memory evenly over the work on a tile.
HWY_INLINE void prefetch_inputs(const QuantiseArgs& args, std::size_t i) {
  prefetch_input(args.values, i);
  if (args.residual.tile != nullptr) prefetch_input(args.residual, i);
}

template <int kBits, Grid kGrid, Rounding kRounding, Extra kExtra>
void quantise_tile(const QuantiseArgs& caller_args) {
  const QuantiseArgs args = caller_args;  // A copy that no store through a pointer can change.
  core::Planes<std::uint8_t> codes = args.codes;
  for (std::size_t i = 0; i < args.elements; i += kPackElements) {
    prefetch_inputs(args, i);
    const Integers a = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i);
    const Integers b = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i + kLanes);
    const Integers c = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i + 2 * kLanes);
    const Integers d = quantise_and_store<kBits, kGrid, kRounding, kExtra>(args, i + 3 * kLanes);
    pack_planes<kBits, code_offset<kBits, kGrid>()>(a, b, c, d, codes);
    codes.high += kPackElements * core::high_plane_bits(kBits) / 8;
    codes.low += kPackElements * core::low_plane_bits(kBits) / 8;
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
