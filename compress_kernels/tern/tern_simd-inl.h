// tern for one target: its tiles for tile_walk-inl.h. Compiled once per target.
#if defined(COMPRESS_KERNELS_TERN_TERN_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TERN_TERN_SIMD_INL_H_
#undef COMPRESS_KERNELS_TERN_TERN_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_TERN_TERN_SIMD_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "compress_kernels/core/tile_walk-inl.h"
#include "compress_kernels/tern/pack_digits-inl.h"
#include "compress_kernels/tern/quantise-inl.h"
#include "compress_kernels/tern/tern.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::tern {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using arrays::TileInput, arrays::TileSpan, arrays::TileTarget;

class TileCoder {
 public:
  TileCoder(const TernParameters& parameters, std::size_t count, const RandomKey& random)
      : parameters_(parameters),
        unit_(std::max(parameters.block, kPart)),
        block_shift_(std::countr_zero(parameters.block)),
        random_(random),
        keys_(random),
        offset_(tern_digits_offset(parameters, count)) {}

  void encode(const TileInput& input, std::byte* wire) const {
    Scratch scratch;
    scratch.digits[kTileElements] = 0;
    for (std::size_t first = 0; first < input.span.elements; first += unit_) {
      first = parameters_.clip > 0 ? encode_usual<true>(input, first, wire, scratch)
                                   : encode_usual<false>(input, first, wire, scratch);
      if (first < input.span.elements) encode_unusual(input, first, wire, scratch);
    }
  }

  template <TileTarget kTarget>
  void decode(const std::byte* wire, TileSpan span, const float* addend, float* values) const {
    alignas(64) std::uint8_t digits[kDigitsPerByte * kTernTileBytes + 64];
    unpack_digits(digits_at(wire, span.first), tern_digit_bytes(span.elements), digits);
    std::memset(digits + span.elements, 1, 64);
    const std::byte* scales = wire + span.first / parameters_.block * sizeof(std::uint16_t);
    const hn::Rebind<std::int8_t, arrays::FloatTag> byte_tag;
    for (std::size_t first = 0, b = 0; first < span.elements; first += parameters_.block, ++b) {
      const auto stored = core::load_element<core::Bfloat16>(scales, b);
      const Floats scale = hn::Set(kFloatTag, core::widen(stored));
      const std::size_t end = std::min(first + parameters_.block, span.elements);
      for (std::size_t i = first; i < end; i += kLanes) {
        const auto digit = hn::LoadU(byte_tag, reinterpret_cast<const std::int8_t*>(digits) + i);
        const Integers steps = hn::Sub(hn::PromoteTo(kIntegerTag, digit), hn::Set(kIntegerTag, 1));
        const Floats value = hn::Mul(hn::ConvertTo(kFloatTag, steps), scale);
        arrays::put_floats<kTarget>(value, addend, values, i);
      }
    }
  }

  bool streams = false;  // A wire of 1.6 bits a value is too small to be written around the cache.

 private:
  struct Scratch {
    alignas(64) std::uint8_t digits[kTileElements + 64];
    RandomWords random;
  };

  /// What is known of one block, or of all blocks of one part, before it is quantised.
  struct Unit {
    float inverse[kSharing];  // For each run of kSharingDistance.
    bool clamps;              // A value may exceed its scale.
    bool finite;
  };

  /// Encodes from `first` on up to a unit that is not finite, or has to be clamped unless all are;
  /// gives its start, or a number past the last element. No function is called in this loop:
  /// constants stay in registers. Each unit is measured before the one in front of it is quantised:
  /// the processor then has something to do while it waits for the reduction and the division.
  template <bool kClamps>
  HWY_NOINLINE std::size_t encode_usual(const TileInput& caller_input, std::size_t first,
                                        std::byte* wire, Scratch& scratch) const {
    const TileCoder coder = *this;  // Copies that no store through a pointer can change.
    const TileInput input = caller_input;
    const std::size_t elements = input.span.elements;
    Unit units[2];  // The present one and the next, in turn.
    std::size_t turn = 0;
    coder.measure<kClamps>(input, first, wire, units[0]);
    for (; first < elements; first += coder.unit_) {
      const Unit& unit = units[turn];
      if (HWY_UNLIKELY(!unit.finite || (unit.clamps && !kClamps))) return first;
      turn = 1 - turn;
      if (first + coder.unit_ < elements)
        coder.measure<kClamps>(input, first + coder.unit_, wire, units[turn]);
      coder.quantise<kClamps>(input, first, unit.inverse, scratch);
      coder.finish_unit(input.span, first, scratch, wire);
    }
    return first;
  }

  HWY_NOINLINE void encode_unusual(const TileInput& input, std::size_t first, std::byte* wire,
                                   Scratch& scratch) const {
    Unit unit;
    measure<true>(input, first, wire, unit);
    quantise<true>(input, first, unit.inverse, scratch);
    clear_nonfinite(input, first, wire, scratch);
    finish_unit(input.span, first, scratch, wire);
  }

  /// Packs the tile if it ends with this unit.
  HWY_INLINE void finish_unit(TileSpan span, std::size_t first, Scratch& scratch,
                              std::byte* wire) const {
    const std::size_t end = first + unit_;
    if (end % kTileElements != 0 && end < span.elements) return;
    store_tile(span, std::min(end, span.elements), scratch, wire);
  }

  std::uint8_t* digits_at(std::byte* wire, std::size_t first) const {
    return reinterpret_cast<std::uint8_t*>(wire) + offset_ + tern_digit_bytes(first);
  }
  const std::uint8_t* digits_at(const std::byte* wire, std::size_t first) const {
    return reinterpret_cast<const std::uint8_t*>(wire) + offset_ + tern_digit_bytes(first);
  }

  /// Stores the scales of a unit.
  template <bool kClips>
  HWY_INLINE void measure(const TileInput& input, std::size_t first, std::byte* wire,
                          Unit& unit) const {
    const std::size_t block = parameters_.block;
    if (block >= kPart) {
      const BlockScale scale = measure_block<kClips>(input, first, wire);
      for (float& inverse : unit.inverse) inverse = scale.inverse;
      unit.clamps = scale.clamps;
      unit.finite = scale.stored != core::kBfloat16Nan;
      return;
    }
    const std::size_t runs = block / kSharingDistance;
    unit.clamps = false;
    unit.finite = true;
    for (std::size_t run = 0; run < kSharing; run += runs) {
      const std::size_t i = first + run * kSharingDistance;
      BlockScale scale;
      if (i < input.span.elements) scale = measure_block<kClips>(input, i, wire);
      for (std::size_t r = run; r < run + runs; ++r) unit.inverse[r] = scale.inverse;
      unit.clamps = unit.clamps || scale.clamps;
      unit.finite = unit.finite && scale.stored != core::kBfloat16Nan;
    }
  }

  template <bool kClips>
  HWY_INLINE BlockScale measure_block(const TileInput& input, std::size_t first,
                                      std::byte* wire) const {
    const std::size_t block = parameters_.block;
    const float* x = input.x + first;
    const std::size_t count = std::min(block, input.span.elements - first);
    const BlockScale scale =
        scale_of(arrays::largest_magnitude(x, block), kClips ? parameters_.clip : 0, count,
                 [&](float factor) { return sum_of_squares(x, block, factor); });
    core::store_element(wire, (input.span.first + first) >> block_shift_, scale.stored);
    return scale;
  }

  template <bool kClamps>
  HWY_INLINE void quantise(const TileInput& input, std::size_t first, const float* inverse,
                           Scratch& scratch) const {
    for (std::size_t i = first; i < first + unit_; i += kPart) {
      const std::size_t part = i % kTileElements / kPart;
      if (part % kDrawnParts == 0) {
        const std::size_t tile = i / kTileElements * kTileElements;
        draw(random_, keys_, first_group(random_, input.span.first + tile), part, scratch.random);
      }
      quantise_part<kClamps>(input, i, inverse, scratch.random.words + part * kPartWords,
                             scratch.digits + part * kPart);
    }
  }

  /// Blocks with a NaN or an infinity have digits 1.
  void clear_nonfinite(const TileInput& input, std::size_t first, const std::byte* wire,
                       Scratch& scratch) const {
    const std::size_t block = parameters_.block;
    const std::size_t end = std::min(first + unit_, input.span.elements);
    for (std::size_t i = first; i < end; i += block) {
      const auto stored = core::load_element<std::uint16_t>(wire, (input.span.first + i) / block);
      if (stored != core::kBfloat16Nan) continue;
      std::memset(scratch.digits + i % kTileElements, 1, block);
    }
  }

  /// Packs the tile that ends at `end`.
  HWY_INLINE void store_tile(TileSpan span, std::size_t end, Scratch& scratch,
                             std::byte* wire) const {
    const std::size_t first = (end - 1) / kTileElements * kTileElements;
    const std::size_t elements = end - first;
    std::memset(scratch.digits + elements, 0, kDigitsPerByte);
    pack_digits(scratch.digits, tern_digit_bytes(elements), digits_at(wire, span.first + first));
  }

  const TernParameters parameters_;
  const std::size_t unit_;  // Elements that are measured at once.
  const int block_shift_;   // log2(block)
  const RandomKey random_;
  const arrays::PhiloxKeys keys_;
  const std::size_t offset_;
};

inline const KernelTable<TernParameters>& kernels() {
  static constexpr KernelTable<TernParameters> kTable =
      arrays::TileWalk<TernParameters, TileCoder>::table();
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::tern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
