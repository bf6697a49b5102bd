// q1 .. q8 for one target: the four operations as walks over the tiles of a chunk. Compiled once
// per target.
#if defined(COMPRESS_KERNELS_UNIFORM_UNIFORM_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_UNIFORM_SIMD_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_UNIFORM_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_UNIFORM_SIMD_INL_H_
#endif

#include <cstring>

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/uniform/decoder-inl.h"
#include "compress_kernels/uniform/encoder-inl.h"
#include "compress_kernels/uniform/fused_encoder-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

inline void encode(const UniformParameters& parameters, const EncodeArgs& args) {
  const Output output{core::output_of(args), args.values};
  const Encoder encoder(parameters, args.count, output);
  const FusedEncoder fused(parameters, args.count, output);
  Tile tile;
  for (std::size_t first = 0; first < args.count; first += kTileElements) {
    const Span span = tile_at(first, args.count);
    if (fused.takes(span)) {
      fused.encode(span, tile);
      continue;
    }
    const bool direct = parameters.dtype == DType::kFloat32 && args.residual == nullptr &&
                        span.elements == kTileElements;
    if (direct) {
      encoder.encode(static_cast<const float*>(arrays::at<float>(args.values, first)), span, tile);
      continue;
    }
    if (args.residual == nullptr) {
      arrays::load_array(parameters.dtype, args.values, first, span.elements, tile.x);
    } else {
      arrays::load_sum(parameters.dtype, args.values, args.residual, first, span.elements, tile.x);
    }
    encoder.encode(tile.x, span, tile);
  }
  encoder.finish();
}

/// Writes tile.decoded to its place in a large array.
inline void stream_tile(DType dtype, Span span, Tile& tile, void* values) {
  const std::size_t element_bytes = dtype_size(dtype);
  const void* elements = tile.decoded;
  if (dtype != DType::kFloat32) {
    arrays::store_array(dtype, tile.decoded, span.elements, tile.x, 0);
    elements = tile.x;
  }
  std::byte* target = static_cast<std::byte*>(values) + span.first * element_bytes;
  arrays::stream_bytes(elements, target, span.elements * element_bytes);
}

/// How a tile may be decoded straight into the caller's array; otherwise it goes through scratch.
inline Target decode_target(const UniformParameters& parameters, const DecodeArgs& args) {
  const bool large = args.count * dtype_size(parameters.dtype) >= kStreamBytes;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.values) % (kLanes * sizeof(float)) == 0;
  return large && aligned && parameters.dtype == DType::kFloat32 ? Target::kStream : Target::kStore;
}

inline void decode(const UniformParameters& parameters, const DecodeArgs& args) {
  const Target target = decode_target(parameters, args);
  const bool large = args.count * dtype_size(parameters.dtype) >= kStreamBytes;
  const bool direct = parameters.dtype == DType::kFloat32 && (target == Target::kStream || !large);
  const Decoder to_caller(parameters, args.count, target);
  const Decoder to_scratch(parameters, args.count, Target::kStore);
  Tile tile;
  for (std::size_t first = 0; first < args.count; first += kTileElements) {
    const Span span = tile_at(first, args.count);
    if (direct && span.elements == kTileElements) {
      auto* values = static_cast<float*>(arrays::at<float>(args.values, first));
      to_caller.decode(args.wire, span, tile, values);
      continue;
    }
    to_scratch.decode(args.wire, span, tile, tile.decoded);
    if (large) {
      stream_tile(parameters.dtype, span, tile, args.values);
    } else {
      arrays::store_array(parameters.dtype, tile.decoded, span.elements, args.values, first);
    }
  }
  if (large) hwy::FlushStream();
}

inline void decode_add(const UniformParameters& parameters, const DecodeAddArgs& args) {
  const Decoder decoder(parameters, args.count, Target::kAdd);
  Tile tile;
  for (std::size_t first = 0; first < args.count; first += kTileElements) {
    const Span span = tile_at(first, args.count);
    auto* sum = static_cast<float*>(arrays::at<float>(args.sum, first));
    if (span.elements == kTileElements) {
      decoder.decode(args.wire, span, tile, sum, sum);
      continue;
    }
    std::memcpy(tile.decoded, static_cast<const void*>(sum), span.elements * sizeof(float));
    decoder.decode(args.wire, span, tile, tile.decoded, tile.decoded);
    std::memcpy(static_cast<void*>(sum), tile.decoded, span.elements * sizeof(float));
  }
}

/// The decoders of a hop.
struct HopDecoders {
  Decoder store;
  Decoder add;
};

/// tile.x = sum of the contributions in order.
inline void gather_sum(const HopDecoders& decoders, DType dtype, const DecodeAddEncodeArgs& args,
                       Span span, Tile& tile) {
  std::size_t position = 0;
  if (dtype == DType::kFloat32 && span.elements == kTileElements && args.own_position <= 1 &&
      !args.wires.empty()) {
    // A sum of two does not depend on their order: own values come straight from the caller's
    // memory.
    const auto* own = static_cast<const float*>(arrays::at<float>(args.values, span.first));
    decoders.add.decode(args.wires[0], span, tile, tile.x, own);
    position = 2;
  }
  for (; position <= args.wires.size(); ++position) {
    const std::size_t index = position > args.own_position ? position - 1 : position;
    if (position != args.own_position) {
      const Decoder& decoder = position == 0 ? decoders.store : decoders.add;
      decoder.decode(args.wires[index], span, tile, tile.x, tile.x);
    } else if (position == 0) {
      arrays::load_array(dtype, args.values, span.first, span.elements, tile.x);
    } else {
      arrays::add_array(dtype, args.values, span.first, span.elements, tile.x);
    }
  }
}

/// The contribution that a fused hop adds to the own values: there must be no other, nor a
/// division.
inline const std::byte* fused_contribution(const DecodeAddEncodeArgs& args) {
  const bool fuses = args.wires.size() == 1 && args.divisor == 1 && args.wire != nullptr;
  return fuses ? args.wires[0] : nullptr;
}

inline void decode_add_encode(const UniformParameters& parameters,
                              const DecodeAddEncodeArgs& args) {
  const UniformParameters part = parameters_of_parts(parameters);
  const HopDecoders decoders{Decoder(part, args.count, Target::kStore),
                             Decoder(part, args.count, Target::kAdd)};
  const Output output{core::output_of(args), args.values};
  const Encoder encoder(parameters, args.count, output);
  const std::byte* contribution = part.bits == parameters.bits ? fused_contribution(args) : nullptr;
  const FusedEncoder fused(parameters, args.count, output, contribution);
  Tile tile;
  for (std::size_t first = 0; first < args.count; first += kTileElements) {
    const Span span = tile_at(first, args.count);
    if (contribution != nullptr && fused.takes(span)) {
      fused.encode(span, tile);
      continue;
    }
    gather_sum(decoders, parameters.dtype, args, span, tile);
    if (args.divisor != 1) arrays::divide_floats(args.divisor, span.elements, tile.x);
    if (args.residual != nullptr) {
      arrays::add_floats(args.residual, first, span.elements, tile.x);
    }
    if (args.wire != nullptr) {
      encoder.encode(tile.x, span, tile);
    } else {
      arrays::store_array(parameters.dtype, tile.x, span.elements, args.decoded, first);
    }
  }
  if (args.wire != nullptr) encoder.finish();
}

inline const KernelTable<UniformParameters>& kernels() {
  static constexpr KernelTable<UniformParameters> kTable{encode, decode, decode_add,
                                                         decode_add_encode};
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
