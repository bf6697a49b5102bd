// The four operations of a codec with one scale per block as walks over the tiles of a chunk. A
// coder says how one tile is encoded and decoded:
//
//   Coder(parameters, count, random)
//   void encode(TileInput, wire)                      one tile, or a run of whole ones
//   void decode<Target>(wire, span, addend, values)   touches span.elements rounded up to
//                                                     kTilePad floats
//   bool streams                                      encode() may write around the cache
//
// Compiled once per target.
#if defined(COMPRESS_KERNELS_CORE_TILE_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CORE_TILE_WALK_INL_H_
#undef COMPRESS_KERNELS_CORE_TILE_WALK_INL_H_
#else
#define COMPRESS_KERNELS_CORE_TILE_WALK_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "compress_kernels/core/block_reference.h"
#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/kernel_codec.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::core {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Part of a chunk: the tile that starts at element `first`.
struct TileSpan {
  std::size_t first = 0;
  std::size_t elements = 0;
};

/// What is done with decoded values: stored, added to others, or stored around the cache.
enum class TileTarget { kStore, kAdd, kStream };

template <TileTarget kTarget>
HWY_INLINE void put_floats(Floats value, const float* addend, float* values, std::size_t i) {
  if constexpr (kTarget == TileTarget::kAdd) value = hn::Add(load_floats<float>(addend, i), value);
  if constexpr (kTarget == TileTarget::kStream) {
    hn::Stream(value, kFloatTag, values + i);
  } else {
    store_floats<float>(value, values, i);
  }
}

/// The values of a tile or of a run of whole tiles, and where they come from. Elements have 2 or 4
/// bytes.
class TileInput {
 public:
  TileSpan span;
  const float* x = nullptr;           // Whole tiles, zeros after span.elements. Any alignment.
  const std::byte* values = nullptr;  // The caller's elements.
  std::size_t element_bytes = 0;
  const float* residual = nullptr;  // The caller's, or null.

  /// Asks for what the arrays hold some tiles after elements i to i + kElements.
  template <std::size_t kElements>
  HWY_INLINE void prefetch(std::size_t i) const {
    if (element_bytes == sizeof(float)) {
      prefetch_lines<kElements * 4 / kLineBytes>(values + i * 4);
    } else {
      prefetch_lines<kElements * 2 / kLineBytes>(values + i * 2);
    }
    if (residual != nullptr) prefetch_lines<kElements * 4 / kLineBytes>(residual + i);
  }

 private:
  static constexpr std::size_t kLineBytes = 64;

  template <std::size_t kLines>
  static HWY_INLINE void prefetch_lines(const void* address) {
    HWY_UNROLL(8)
    for (std::size_t line = 0; line < kLines; ++line) {
      prefetch_ahead(static_cast<const std::byte*>(address) + line * kLineBytes);
    }
  }
};

/// The largest magnitude of x[0 .. count), as bits. `count` is a multiple of 32.
HWY_INLINE std::uint32_t largest_magnitude(const float* x, std::size_t count) {
  const Words mask = hn::Set(kWordTag, kMagnitudeMask);
  Words even = hn::Zero(kWordTag);
  Words odd = hn::Zero(kWordTag);
  for (std::size_t i = 0; i < count; i += 2 * kLanes) {
    even = hn::Max(even, hn::And(hn::BitCast(kWordTag, load_floats<float>(x, i)), mask));
    odd = hn::Max(odd, hn::And(hn::BitCast(kWordTag, load_floats<float>(x, i + kLanes)), mask));
  }
  return hn::GetLane(hn::MaxOfLanes(kWordTag, hn::Max(even, odd)));
}

template <typename Parameters, typename Coder>
class TileWalk {
 public:
  static constexpr KernelTable<Parameters> table() {
    return {encode, decode, decode_add, decode_add_encode};
  }

 private:
  /// Arrays from here on are written around the cache: nobody reads them soon.
  static constexpr std::size_t kStreamBytes = std::size_t{256} << 10;

  struct Tile {
    alignas(64) float x[kTileElements];
    alignas(64) float decoded[kTileElements];
  };

  struct Output : EncodeOutput {
    const void* values = nullptr;  // Where the input comes from, for prefetching.
  };

  static TileSpan tile_at(std::size_t first, std::size_t count) {
    return {first, std::min(kTileElements, count - first)};
  }

  static TileInput input_of(DType dtype, TileSpan span, const float* x, const Output& output) {
    TileInput input;
    input.span = span;
    input.x = x;
    input.element_bytes = dtype_size(dtype);
    input.values = static_cast<const std::byte*>(output.values) + span.first * input.element_bytes;
    if (output.residual != nullptr) input.residual = output.residual + span.first;
    return input;
  }

  /// Encodes the values in tile.x.
  static void encode_tile(const Coder& coder, DType dtype, TileSpan span, const Output& output,
                          Tile& tile) {
    if (span.elements < kTileElements) {
      std::fill(tile.x + span.elements, tile.x + kTileElements, 0.0f);
    }
    coder.encode(input_of(dtype, span, tile.x, output), output.wire);
    if (!wants_values(output)) return;
    coder.template decode<TileTarget::kStore>(output.wire, span, nullptr, tile.decoded);
    if (output.residual != nullptr) {
      store_new_residual(tile.x, tile.decoded, span.elements, output.residual + span.first);
    }
    if (output.decoded != nullptr) {
      store_array(dtype, tile.decoded, span.elements, output.decoded, span.first);
    }
  }

  static void encode(const Parameters& parameters, const EncodeArgs& args) {
    const Output output{output_of(args), args.values};
    Coder coder(parameters, args.count, args.random);
    coder.streams = coder.streams && !wants_values(output);
    std::size_t first = 0;
    if (parameters.dtype == DType::kFloat32 && !wants_values(output)) {
      first = args.count / kTileElements * kTileElements;
      const auto* x = static_cast<const float*>(args.values);
      if (first > 0) coder.encode(input_of(parameters.dtype, {0, first}, x, output), args.wire);
    }
    Tile tile;
    for (; first < args.count; first += kTileElements) {
      const TileSpan span = tile_at(first, args.count);
      if (args.residual == nullptr) {
        load_array(parameters.dtype, args.values, first, span.elements, tile.x);
      } else {
        load_sum(parameters.dtype, args.values, args.residual, first, span.elements, tile.x);
      }
      encode_tile(coder, parameters.dtype, span, output, tile);
    }
    if (coder.streams) hwy::FlushStream();
  }

  static void decode(const Parameters& parameters, const DecodeArgs& args) {
    const Coder coder(parameters, args.count, {});
    const std::size_t element_bytes = dtype_size(parameters.dtype);
    const bool large = args.count * element_bytes >= kStreamBytes;
    const bool is_float = parameters.dtype == DType::kFloat32;
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(args.values) % (kLanes * sizeof(float)) == 0;
    Tile tile;
    for (std::size_t first = 0; first < args.count; first += kTileElements) {
      const TileSpan span = tile_at(first, args.count);
      auto* floats = static_cast<float*>(at<float>(args.values, first));
      const bool direct = is_float && span.elements == kTileElements;
      if (direct && large && aligned) {
        coder.template decode<TileTarget::kStream>(args.wire, span, nullptr, floats);
      } else if (direct) {
        coder.template decode<TileTarget::kStore>(args.wire, span, nullptr, floats);
      } else {
        coder.template decode<TileTarget::kStore>(args.wire, span, nullptr, tile.decoded);
        store_tile(parameters.dtype, span, large, tile, args.values);
      }
    }
    if (large) hwy::FlushStream();
  }

  /// Writes tile.decoded to the caller's elements.
  static void store_tile(DType dtype, TileSpan span, bool large, Tile& tile, void* values) {
    if (!large || dtype == DType::kFloat32) {
      store_array(dtype, tile.decoded, span.elements, values, span.first);
      return;
    }
    store_array(dtype, tile.decoded, span.elements, tile.x, 0);
    const std::size_t element_bytes = dtype_size(dtype);
    stream_bytes(tile.x, static_cast<std::byte*>(values) + span.first * element_bytes,
                 span.elements * element_bytes);
  }

  static void decode_add(const Parameters& parameters, const DecodeAddArgs& args) {
    const Coder coder(parameters, args.count, {});
    Tile tile;
    for (std::size_t first = 0; first < args.count; first += kTileElements) {
      const TileSpan span = tile_at(first, args.count);
      auto* sum = static_cast<float*>(at<float>(args.sum, first));
      if (span.elements == kTileElements) {
        coder.template decode<TileTarget::kAdd>(args.wire, span, sum, sum);
        continue;
      }
      const std::size_t bytes = span.elements * sizeof(float);
      std::memcpy(tile.decoded, static_cast<const void*>(sum), bytes);
      coder.template decode<TileTarget::kAdd>(args.wire, span, tile.decoded, tile.decoded);
      std::memcpy(static_cast<void*>(sum), tile.decoded, bytes);
    }
  }

  /// tile.x = sum of the contributions in order.
  static void gather_sum(const Coder& coder, DType dtype, const DecodeAddEncodeArgs& args,
                         TileSpan span, Tile& tile) {
    std::size_t position = 0;
    if (dtype == DType::kFloat32 && span.elements == kTileElements && args.own_position <= 1 &&
        !args.wires.empty()) {
      // A sum of two does not depend on their order: own values come straight from the caller.
      const auto* own = static_cast<const float*>(at<float>(args.values, span.first));
      coder.template decode<TileTarget::kAdd>(args.wires[0], span, own, tile.x);
      position = 2;
    }
    for (; position <= args.wires.size(); ++position) {
      const std::size_t index = position > args.own_position ? position - 1 : position;
      if (position == args.own_position && position == 0) {
        load_array(dtype, args.values, span.first, span.elements, tile.x);
      } else if (position == args.own_position) {
        add_array(dtype, args.values, span.first, span.elements, tile.x);
      } else if (position == 0) {
        coder.template decode<TileTarget::kStore>(args.wires[index], span, nullptr, tile.x);
      } else {
        coder.template decode<TileTarget::kAdd>(args.wires[index], span, tile.x, tile.x);
      }
    }
  }

  static void decode_add_encode(const Parameters& parameters, const DecodeAddEncodeArgs& args) {
    const Output output{output_of(args), args.values};
    Coder coder(parameters, args.count, args.random);
    coder.streams = coder.streams && !wants_values(output);
    Tile tile;
    for (std::size_t first = 0; first < args.count; first += kTileElements) {
      const TileSpan span = tile_at(first, args.count);
      gather_sum(coder, parameters.dtype, args, span, tile);
      if (args.divisor != 1) divide_floats(args.divisor, span.elements, tile.x);
      if (args.residual != nullptr) add_floats(args.residual, first, span.elements, tile.x);
      if (args.wire != nullptr) {
        encode_tile(coder, parameters.dtype, span, output, tile);
      } else {
        store_array(parameters.dtype, tile.x, span.elements, args.decoded, first);
      }
    }
    if (coder.streams) hwy::FlushStream();
  }
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::core
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
