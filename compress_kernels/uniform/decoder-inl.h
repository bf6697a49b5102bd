// Decodes chunks tile by tile; the kernel is chosen once per chunk. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_DECODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_DECODER_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_DECODER_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_DECODER_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/uniform/dequantise-inl.h"
#include "compress_kernels/uniform/measure-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

constexpr std::size_t kPadElements = 64;  // Kernels take tiles in multiples of this.
constexpr std::size_t kLoadSlack = 16;    // Bytes that dequantise_tile() may read too far.

/// Arrays and wires from these sizes on are written around the cache: nobody reads them soon, and
/// fetching each line before it is overwritten would cost as much as writing it. The chunks of a
/// collective have wires far smaller than this, which are sent while they are in the cache.
constexpr std::size_t kStreamBytes = std::size_t{256} << 10;
constexpr std::size_t kStreamWireBytes = std::size_t{1} << 20;

HWY_INLINE std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Part of a chunk: the tile that starts at element `first`.
struct Span {
  std::size_t first = 0;
  std::size_t elements = 0;
};

inline Span tile_at(std::size_t first, std::size_t count) {
  return {first, std::min(kTileElements, count - first)};
}

inline DequantiseFunction choose_dequantise(const UniformParameters& parameters, Target target) {
  switch (parameters.bits) {
    case 1:
      return dequantise_function<1>(parameters.grid, target);
    case 2:
      return dequantise_function<2>(parameters.grid, target);
    case 3:
      return dequantise_function<3>(parameters.grid, target);
    case 4:
      return dequantise_function<4>(parameters.grid, target);
    case 5:
      return dequantise_function<5>(parameters.grid, target);
    case 6:
      return dequantise_function<6>(parameters.grid, target);
    case 7:
      return dequantise_function<7>(parameters.grid, target);
    case 8:
      return dequantise_function<8>(parameters.grid, target);
    case 9:
      return dequantise_function<9>(parameters.grid, target);
    case 10:
      return dequantise_function<10>(parameters.grid, target);
  }
  return nullptr;
}

/// Decodes tiles of one chunk layout; any number of wires. One object for each target.
class Decoder {
 public:
  Decoder(const UniformParameters& parameters, std::size_t count, Target target)
      : parameters_(parameters),
        layout_(uniform_layout(parameters, count)),
        dequantise_(choose_dequantise(parameters, target)) {}

  /// Sends the tile's values to `values`, where they touch span.elements rounded up to 16 floats.
  /// `addend` is used by Target::kAdd alone.
  void decode(const std::byte* wire, Span span, Tile& tile, float* values,
              const float* addend = nullptr) const {
    load_scales(wire, span, tile);
    const std::size_t elements = round_up(span.elements, kStepElements);
    dequantise_({find_codes(wire, span, tile), elements, &tile.groups, addend, values});
  }

 private:
  /// The tile's codes, where kLoadSlack bytes more may be read. A tile that has none behind its
  /// last plane is the last one of the chunk or near to it.
  core::Planes<const std::uint8_t> find_codes(const std::byte* wire, Span span, Tile& tile) const {
    const int high_bits = core::high_plane_bits(parameters_.bits);
    const int low_bits = core::low_plane_bits(parameters_.bits);
    const std::size_t high = layout_.codes_offset + core::plane_bytes(span.first, high_bits);
    const std::size_t low = layout_.low_codes_offset + core::plane_bytes(span.first, low_bits);
    const std::size_t high_bytes = core::plane_bytes(span.elements, high_bits);
    const std::size_t low_bytes = core::plane_bytes(span.elements, low_bits);
    const std::size_t end = low_bits == 0 ? high + high_bytes : low + low_bytes;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(wire);
    if (end + kLoadSlack <= layout_.total_bytes) return {bytes + high, bytes + low};
    std::memcpy(tile.codes, bytes + high, high_bytes);
    if (low_bits != 0) std::memcpy(tile.low_codes, bytes + low, low_bytes);
    return {tile.codes, tile.low_codes};
  }

  void load_scales(const std::byte* wire, Span span, Tile& tile) const {
    const std::size_t first_block = span.first / parameters_.block;
    const std::size_t blocks = round_up(span.elements, parameters_.block) / parameters_.block;
    const std::byte* units = wire + layout_.units_offset + first_block * sizeof(std::uint16_t);
    const std::byte* lows = wire + first_block * sizeof(float);
    load_group_scales(parameters_, units, lows, blocks, tile.groups);
  }

  const UniformParameters& parameters_;
  UniformLayout layout_;
  DequantiseFunction dequantise_;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
