// The usual encodings in one pass over memory: blocks of 128 that stay in registers from their
// values to their codes. Compiled once per target; of use where a block fits the registers.
//
// The tiles of encoder-inl.h are measured first and quantised afterwards: the processor waits for
// memory in one phase and leaves memory idle in the other. Here every few hundred instructions do
// both, so that it overlaps the arithmetic of one block with the loads of the next.
#if defined(COMPRESS_KERNELS_UNIFORM_FUSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_FUSED_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_FUSED_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_FUSED_INL_H_
#endif

#include <cstring>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/pack-inl.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/uniform/dequantise-inl.h"
#include "compress_kernels/uniform/fit-inl.h"
#include "compress_kernels/uniform/measure-inl.h"
#include "compress_kernels/uniform/quad_scale-inl.h"
#include "compress_kernels/uniform/quantise-inl.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

constexpr std::size_t kFusedBlock = 128;
/// A block takes 8 of 32 registers with AVX-512; with shorter vectors it would take all there are.
constexpr bool kFusesBlocks = kLanes == 16;

/// A run of whole blocks. Pointers are to its start; arrays may have any alignment.
struct FusedArgs {
  std::size_t blocks = 0;
  const void* values = nullptr;
  const std::byte* added_units = nullptr;  // The scales of a contribution that is added, and
  const std::uint8_t* added_codes =
      nullptr;  // Codes of what is added. Loads may reach 16 bytes past the last.
  std::byte* units = nullptr;
  std::uint8_t* codes = nullptr;  // Stores may reach kSlack bytes past the last code.
  float* residual = nullptr;      // Extra::kResidual only.
  void* decoded = nullptr;        // Extra::kDecoded only; may be `values`.
};

/// What pack_codes() takes.
struct Pack {
  Floats a, b, c, d;
};
struct Block {
  Pack low, high;
};

HWY_INLINE Words find_magnitude(const Pack& x) {
  return hn::Max(hn::Max(magnitudes(x.a), magnitudes(x.b)),
                 hn::Max(magnitudes(x.c), magnitudes(x.d)));
}

/// The largest magnitude of the block, in every lane.
HWY_INLINE hn::Vec<QuadWordTag> find_magnitude(const Block& x) {
  return lowest_quad(
      hn::MaxOfLanes(kWordTag, hn::Max(find_magnitude(x.low), find_magnitude(x.high))));
}

/// Adds scaled magnitudes in the order of core::scale_from_mean().
HWY_INLINE Floats add_magnitudes(Floats sum, const Pack& x) {
  const Floats factor = hn::Set(kFloatTag, 1.0f / static_cast<float>(kFusedBlock));
  sum = hn::Add(sum, hn::Mul(hn::Abs(x.a), factor));
  sum = hn::Add(sum, hn::Mul(hn::Abs(x.b), factor));
  sum = hn::Add(sum, hn::Mul(hn::Abs(x.c), factor));
  return hn::Add(sum, hn::Mul(hn::Abs(x.d), factor));
}

/// The mean magnitude of the block, in every lane.
HWY_INLINE hn::Vec<QuadTag> find_mean(const Block& x) {
  return sum_halves(add_magnitudes(add_magnitudes(hn::Zero(kFloatTag), x.low), x.high));
}

template <int kBits>
HWY_INLINE QuadScale find_scale(const Block& x, hn::Vec<QuadWordTag> magnitude) {
  if constexpr (kBits == 1) {
    return quad_from_mean(magnitude, find_mean(x));
  } else {
    constexpr float kLevels = static_cast<float>((1 << (kBits - 1)) - 1);
    return quad_from_magnitude(magnitude, hn::Set(kQuadTag, kLevels));
  }
}

HWY_INLINE Floats spread(hn::Vec<QuadTag> equal_lanes) {
  return hn::Set(kFloatTag, hn::GetLane(equal_lanes));
}

/// Whether scales are fitted: choose_fused() takes no others.
template <int kBits>
constexpr bool kFits = kBits > 1 && kBits <= core::kMostFittedBits;

HWY_INLINE void add_to_fit(const Pack& x, FitVectors& fit) {
  fit.add(x.a);
  fit.add(x.b);
  fit.add(x.c);
  fit.add(x.d);
}

/// The scale that is stored for the codes of `x`.
template <int kBits>
HWY_INLINE hn::Vec<QuadWordTag> find_stored(const Block& x, hn::Vec<QuadWordTag> stored,
                                            Floats inverse) {
  if constexpr (kFits<kBits>) {
    FitVectors fit(inverse, core::fit_rounding(kBits));
    add_to_fit(x.low, fit);
    add_to_fit(x.high, fit);
    return fit.scale(stored);
  } else {
    return stored;
  }
}

/// For each lane the entry of `table` that the lowest bits of its index name.
HWY_INLINE Floats look_up(Floats table, Words indices) {
#if HWY_TARGET == HWY_AVX3
  // Highway's form asks for indices without higher bits.
  return Floats{_mm512_maskz_permutexvar_ps(0xFFFF, indices.raw, table.raw)};
#else
  const Words lowest = hn::And(indices, hn::Set(kWordTag, std::uint32_t{kLanes - 1}));
  return hn::TableLookupLanes(table, hn::IndicesFromVec(kFloatTag, lowest));
#endif
}

/// Decodes vectors of one block. All values of up to 4 bits fit one register: they are made once
/// per block and looked up, which takes fewer operations than making them.
template <int kBits>
class BlockDecoder {
 public:
  HWY_INLINE explicit BlockDecoder(std::uint16_t stored_unit) {
    const auto stored = hn::Set(kQuadWordTag, std::uint32_t{stored_unit});
    const Floats unit = spread(quad_unit<kBits>(stored));
    unit_or_table_ = kLooksUp ? value_of_code<kBits>(convert(hn::Iota(kWordTag, 0)), unit) : unit;
  }

  /// The vector whose codes begin at `codes`.
  HWY_INLINE Floats decode(const std::uint8_t* codes) const {
    const hn::Repartition<std::uint8_t, core::HWY_NAMESPACE::FloatTag> byte_tag;
    const Words aligned = align_codes<kBits, 0>(hn::LoadDup128(byte_tag, codes));
    if constexpr (kLooksUp) {
      return look_up(unit_or_table_, aligned);
    } else {
      return value_of_code<kBits>(convert(aligned), unit_or_table_);
    }
  }

 private:
  static constexpr bool kLooksUp = kBits <= 4;

  static HWY_INLINE Floats convert(Words aligned) {
    return convert_codes<kBits, Grid::kUniform>(aligned);
  }

  Floats unit_or_table_;
};

/// Asks for what comes some blocks after the one at `address`.
template <std::size_t kBytes>
HWY_INLINE void prefetch_block(const void* address) {
  constexpr std::size_t kLineBytes = 64;
  HWY_UNROLL(8)
  for (std::size_t offset = 0; offset < kBytes; offset += kLineBytes) {
    core::HWY_NAMESPACE::prefetch_ahead(static_cast<const std::byte*>(address) + offset);
  }
}

/// What the run's values are made of is known at compile time.
template <int kBits, typename Element, bool kAdds, Extra kExtra>
class FusedEncoding {
 public:
  static void encode(const FusedArgs& caller_args) {
    const FusedArgs args = caller_args;  // A copy that no store through a pointer can change.
    for (std::size_t b = 0; b < args.blocks; ++b) encode_block(args, b);
  }

 private:
  struct Scale {
    Floats inverse;
    Floats unit;
  };

  static HWY_INLINE void encode_block(const FusedArgs& args, std::size_t b) {
    prefetch_inputs(args, b);
    const Block x = gather(args, b);
    const auto magnitude = find_magnitude(x);
    if (HWY_UNLIKELY(hn::GetLane(magnitude) >= core::kInfinityBits)) {
      encode_nonfinite(args, b);
      return;
    }
    const auto [of_codes, inverse] = find_scale<kBits>(x, magnitude);
    const Floats inverses = spread(inverse);
    const auto stored = find_stored<kBits>(x, of_codes, inverses);
    const core::Bfloat16 stored_unit{static_cast<std::uint16_t>(hn::GetLane(stored))};
    core::store_element<core::Bfloat16>(args.units, b, stored_unit);
    const Scale scale{inverses, spread(quad_unit<kBits>(stored))};
    quantise(args, scale, x.low, b * kFusedBlock);
    quantise(args, scale, x.high, b * kFusedBlock + kPackElements);
  }

  static HWY_INLINE void prefetch_inputs(const FusedArgs& args, std::size_t b) {
    namespace io = core::HWY_NAMESPACE;
    constexpr std::size_t kCodeBytes = kFusedBlock * kBits / 8;
    prefetch_block<kFusedBlock * sizeof(Element)>(io::at<Element>(args.values, b * kFusedBlock));
    // Stores that miss hold up the loads behind them.
    prefetch_block<kCodeBytes>(args.codes + b * kCodeBytes);
    if constexpr (kAdds) prefetch_block<kCodeBytes>(args.added_codes + b * kCodeBytes);
    if constexpr (kExtra == Extra::kResidual) {
      prefetch_block<kFusedBlock * sizeof(float)>(args.residual + b * kFusedBlock);
    }
  }

  static HWY_INLINE Block gather(const FusedArgs& args, std::size_t b) {
    const BlockDecoder<kBits> added(added_unit(args, b));
    const std::size_t i = b * kFusedBlock;
    return {gather_pack(args, added, i), gather_pack(args, added, i + kPackElements)};
  }

  static HWY_INLINE std::uint16_t added_unit(const FusedArgs& args, std::size_t b) {
    if constexpr (kAdds) {
      return core::load_element<core::Bfloat16>(args.added_units, b).bits;
    } else {
      return 0;
    }
  }

  static HWY_INLINE Pack gather_pack(const FusedArgs& args, const BlockDecoder<kBits>& added,
                                     std::size_t i) {
    return {gather_vector(args, added, i), gather_vector(args, added, i + kLanes),
            gather_vector(args, added, i + 2 * kLanes), gather_vector(args, added, i + 3 * kLanes)};
  }

  static HWY_INLINE Floats gather_vector(const FusedArgs& args, const BlockDecoder<kBits>& added,
                                         std::size_t i) {
    Floats x = load_floats<Element>(args.values, i);
    if constexpr (kAdds) x = hn::Add(x, added.decode(args.added_codes + i * kBits / 8));
    if constexpr (kExtra == Extra::kResidual) {
      x = hn::Add(x, load_floats<float>(args.residual, i));
    }
    return x;
  }

  static HWY_INLINE void quantise(const FusedArgs& args, const Scale& scale, const Pack& x,
                                  std::size_t i) {
    const Integers a = quantise_vector(args, scale, x.a, i);
    const Integers b = quantise_vector(args, scale, x.b, i + kLanes);
    const Integers c = quantise_vector(args, scale, x.c, i + 2 * kLanes);
    const Integers d = quantise_vector(args, scale, x.d, i + 3 * kLanes);
    pack_codes<kBits, code_offset<kBits, Grid::kUniform>()>(a, b, c, d, args.codes + i * kBits / 8);
  }

  static HWY_INLINE Integers quantise_vector(const FusedArgs& args, const Scale& scale, Floats x,
                                             std::size_t i) {
    Quantised result;
    if constexpr (kBits == 1) {
      result = quantise_one_bit<Rounding::kNearest>(x, scale.inverse, scale.unit, nullptr);
    } else {
      result = quantise_uniform<kBits, Rounding::kNearest>(x, scale.inverse, scale.unit, nullptr);
    }
    if constexpr (kExtra == Extra::kDecoded) store_floats<Element>(result.value, args.decoded, i);
    if constexpr (kExtra == Extra::kResidual) {
      store_floats<float>(hn::Sub(x, result.value), args.residual, i);
    }
    return result.code;
  }

  /// Scale NaN, codes 0; the residual stays as it was.
  static HWY_NOINLINE void encode_nonfinite(const FusedArgs& args, std::size_t b) {
    core::store_element<core::Bfloat16>(args.units, b, core::Bfloat16{core::kBfloat16Nan});
    constexpr std::size_t kCodeBytes = kFusedBlock * kBits / 8;
    std::memset(args.codes + b * kCodeBytes, 0, kCodeBytes);
    if constexpr (kExtra != Extra::kDecoded) return;
    const Floats nan = hn::BitCast(kFloatTag, hn::Set(kWordTag, core::kCanonicalNanBits));
    for (std::size_t i = b * kFusedBlock; i < (b + 1) * kFusedBlock; i += kLanes) {
      store_floats<Element>(nan, args.decoded, i);
    }
  }
};

using FusedFunction = void (*)(const FusedArgs&);

template <int kBits, typename Element, bool kAdds>
FusedFunction fused_function(Extra extra) {
  switch (extra) {
    case Extra::kNone:
      return FusedEncoding<kBits, Element, kAdds, Extra::kNone>::encode;
    case Extra::kDecoded:
      return FusedEncoding<kBits, Element, kAdds, Extra::kDecoded>::encode;
    case Extra::kResidual:
      return FusedEncoding<kBits, Element, kAdds, Extra::kResidual>::encode;
  }
  return nullptr;
}

template <int kBits, bool kAdds>
FusedFunction fused_function(DType dtype, Extra extra) {
  if (dtype == DType::kFloat16) return fused_function<kBits, core::Float16, kAdds>(extra);
  if (dtype == DType::kBfloat16) return fused_function<kBits, core::Bfloat16, kAdds>(extra);
  return fused_function<kBits, float, kAdds>(extra);
}

template <int kBits>
FusedFunction fused_function(DType dtype, bool adds, Extra extra) {
  if constexpr (kFusesBlocks) {
    return adds ? fused_function<kBits, true>(dtype, extra)
                : fused_function<kBits, false>(dtype, extra);
  } else {
    return nullptr;
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
