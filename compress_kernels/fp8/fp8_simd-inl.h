// fp8 for one target: its tiles for tile_walk-inl.h. Compiled once per target.
#if defined(COMPRESS_KERNELS_FP8_FP8_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_FP8_FP8_SIMD_INL_H_
#undef COMPRESS_KERNELS_FP8_FP8_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_FP8_FP8_SIMD_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "compress_kernels/core/random-inl.h"
#include "compress_kernels/core/tile_walk-inl.h"
#include "compress_kernels/fp8/convert-inl.h"
#include "compress_kernels/fp8/fp8.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::fp8 {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using arrays::load_floats, arrays::TileInput, arrays::TileSpan, arrays::TileTarget;

class TileCoder {
 public:
  TileCoder(const Fp8Parameters& parameters, std::size_t count, const RandomKey& random)
      : streams(encoded_bytes(parameters, count) >= kStreamWireBytes),
        parameters_(parameters),
        random_(random),
        codes_offset_(fp8_codes_offset(parameters, count)) {}

  void encode(const TileInput& input, std::byte* wire) const {
    if (parameters_.format == Float8Format::kE4m3) {
      encode_as<Float8Format::kE4m3>(input, wire);
    } else {
      encode_as<Float8Format::kE5m2>(input, wire);
    }
  }

  template <TileTarget kTarget>
  void decode(const std::byte* wire, TileSpan span, const float* addend, float* values) const {
    alignas(64) std::uint8_t scratch[kTileElements];
    const auto* codes = reinterpret_cast<const std::uint8_t*>(wire) + codes_offset_ + span.first;
    if (span.elements < kTileElements) {
      std::memcpy(scratch, codes, span.elements);
      std::memset(scratch + span.elements, 0, kTileElements - span.elements);
      codes = scratch;
    }
    const std::byte* units = wire + span.first / parameters_.block * sizeof(std::uint16_t);
    if (parameters_.format == Float8Format::kE4m3) {
      decode_as<Float8Format::kE4m3, kTarget>(units, codes, span.elements, addend, values);
    } else {
      decode_as<Float8Format::kE5m2, kTarget>(units, codes, span.elements, addend, values);
    }
  }

  bool streams;

 private:
  static constexpr std::size_t kStreamWireBytes = std::size_t{1} << 20;
  static constexpr std::size_t kStep = 4 * kLanes;  // Elements that are quantised at a time.

  template <Float8Format kFormat>
  void encode_as(const TileInput& input, std::byte* wire) const {
    if (!parameters_.stochastic) {
      encode_run<kFormat, false>(input, wire);
      return;
    }
    TileInput tile = input;  // One tile at a time has its random numbers in the cache.
    for (std::size_t first = 0; first < input.span.elements; first += kTileElements) {
      tile.span = {input.span.first + first, std::min(kTileElements, input.span.elements - first)};
      tile.x = input.x + first;
      tile.values = input.values + first * input.element_bytes;
      encode_run<kFormat, true>(tile, wire);
    }
  }

  /// Codes of one tile on their way to the wire: straight, or by way of scratch memory where stores
  /// of whole vectors would spill over its end or where a large wire is written around the cache.
  struct CodeTile {
    alignas(64) std::uint8_t scratch[kTileElements + kStep];
    bool direct = false;
    std::uint8_t* wire = nullptr;

    std::uint8_t* target() { return direct ? wire : scratch; }
  };

  CodeTile begin_tile(TileSpan span, std::byte* wire) const {
    CodeTile tile;
    tile.direct = !streams && span.elements % kTileElements == 0 && parameters_.block >= kStep;
    tile.wire = reinterpret_cast<std::uint8_t*>(wire) + codes_offset_ + span.first;
    return tile;
  }

  /// Stores the tile that ends with element `end` of the run.
  HWY_INLINE void store_tile(CodeTile& tile, std::size_t end) const {
    const std::size_t elements = (end - 1) % kTileElements + 1;
    if (streams) {
      arrays::stream_bytes(tile.scratch, tile.wire, elements);
    } else if (!tile.direct) {
      std::memcpy(tile.wire, tile.scratch, elements);
    }
    tile.wire += elements;
  }

  /// Random numbers of the tile's elements.
  const std::uint16_t* draw(TileSpan span, std::uint16_t* random) const {
    const std::uint64_t first = random_.first_element + span.first;
    const std::size_t offset = first % core::kElementsPerGroup;
    const std::size_t groups =
        (offset + span.elements + core::kElementsPerGroup - 1) / core::kElementsPerGroup;
    arrays::random_halves(random_, first / core::kElementsPerGroup, groups, random);
    return random + offset;
  }

  /// What is known of a block before its values are quantised.
  struct BlockUnit {
    std::uint32_t magnitude = 0;  // Of its largest value, as bits.
    std::uint16_t stored = 0;
    float inverse = 0;
  };

  template <Float8Format kFormat>
  static HWY_INLINE BlockUnit measure(const float* x, std::size_t block) {
    const std::uint32_t magnitude = arrays::largest_magnitude(x, block);
    const std::uint16_t stored = stored_unit<kFormat>(magnitude);
    return {magnitude, stored, inverse_unit(stored)};
  }

  /// Each block is measured before the one in front of it is quantised: the processor then has
  /// something to do while it waits for the reduction and the divisions.
  template <Float8Format kFormat, bool kStochastic>
  HWY_NOINLINE void encode_run(const TileInput& caller_input, std::byte* wire) const {
    const TileInput input = caller_input;  // A copy that no store through a pointer can change.
    const std::size_t block = parameters_.block;
    const std::size_t elements = input.span.elements;
    std::byte* units = wire + input.span.first / block * sizeof(std::uint16_t);
    CodeTile tile = begin_tile(input.span, wire);
    alignas(64) std::uint16_t memory[kStochastic ? kTileElements + 8 + 8 * kLanes : 1];
    const std::uint16_t* random = nullptr;
    if constexpr (kStochastic) random = draw(input.span, memory);
    std::conditional_t<kStochastic, Stochastic<kFormat>, Nearest<kFormat>> rounding;
    BlockUnit next = measure<kFormat>(input.x, block);
    for (std::size_t first = 0, b = 0; first < elements; first += block, ++b) {
      BlockUnit unit = next;
      const std::size_t end = first + block;
      if (end < elements) next = measure<kFormat>(input.x + end, block);
      std::uint8_t* codes = tile.target() + first % kTileElements;
      if (HWY_UNLIKELY(unit.magnitude >= core::kInfinityBits)) {
        unit.stored = encode_by_reference<kFormat, kStochastic>(caller_input, first, codes);
      } else {
        rounding.set_inverse(unit.inverse);
        encode_block(input, first, block, rounding, random, codes);
      }
      core::store_element(units, b, unit.stored);
      if (end % kTileElements == 0 || end >= elements) store_tile(tile, std::min(end, elements));
    }
  }

  template <Float8Format kFormat, bool kStochastic>
  HWY_NOINLINE std::uint16_t encode_by_reference(const TileInput& input, std::size_t first,
                                                 std::uint8_t* codes) const {
    const std::size_t count = std::min(parameters_.block, input.span.elements - first);
    float x[kTileElements];
    std::memcpy(x, static_cast<const void*>(input.x + first), count * sizeof(float));
    return fp8::encode_block<kFormat, kStochastic>(x, count, random_, input.span.first + first,
                                                   codes);
  }

  /// Quantises whole steps: where a block is shorter, half a step is of no use, and overwritten.
  template <typename Rounding>
  static HWY_INLINE void encode_block(const TileInput& input, std::size_t first, std::size_t block,
                                      const Rounding& rounding, const std::uint16_t* random,
                                      std::uint8_t* HWY_RESTRICT codes) {
    const auto code = [&](std::size_t i) HWY_ATTR {
      // There are none where rounding is to nearest.
      return rounding.codes(load_floats<float>(input.x, i),
                            random == nullptr ? nullptr : random + i);
    };
    const std::size_t upper = block < kStep ? 0 : 2 * kLanes;
    for (std::size_t i = first; i < first + block; i += kStep) {
      input.prefetch<std::max<std::size_t>(kStep, 32)>(i);
      store_codes(code(i), code(i + kLanes), code(i + upper), code(i + upper + kLanes),
                  codes + (i - first));
    }
  }

  template <Float8Format kFormat, TileTarget kTarget>
  void decode_as(const std::byte* units, const std::uint8_t* codes, std::size_t elements,
                 const float* addend, float* values) const {
    const std::size_t block = parameters_.block;
    for (std::size_t first = 0, b = 0; first < elements; first += block, ++b) {
      const auto stored = core::load_element<core::Bfloat16>(units, b);
      const Floats unit = hn::Set(kFloatTag, core::widen(stored));
      const std::size_t end = std::min(first + block, elements);
      for (std::size_t i = first; i < end; i += kLanes) {
        const Floats value = hn::Mul(widen_codes<kFormat>(codes + i), unit);
        arrays::put_floats<kTarget>(value, addend, values, i);
      }
    }
  }

  const Fp8Parameters parameters_;
  const RandomKey random_;
  const std::size_t codes_offset_;
};

inline const KernelTable<Fp8Parameters>& kernels() {
  static constexpr KernelTable<Fp8Parameters> kTable =
      arrays::TileWalk<Fp8Parameters, TileCoder>::table();
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::fp8
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
