// Encodes chunks tile by tile; the kernel is chosen once per chunk. What fused_encoder-inl.h takes
// does not come here. Compiled once per target.
//
// Phases of a tile of 1024 elements, all in the first-level cache:
//   1. gather    (the caller) own values, plus decoded contributions, plus residual, as float32
//   2. measure   extremes of each block -> scales
//   3. quantise  codes -> wire bytes; decoded values or new residual from the same registers
#if defined(COMPRESS_KERNELS_UNIFORM_ENCODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_ENCODER_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_ENCODER_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_ENCODER_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/core/random-inl.h"
#include "compress_kernels/uniform/code_sink-inl.h"
#include "compress_kernels/uniform/decoder-inl.h"
#include "compress_kernels/uniform/measure-inl.h"
#include "compress_kernels/uniform/quantise-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

inline QuantiseFunction choose_quantise(const UniformParameters& parameters, Extra extra) {
  switch (parameters.bits) {
    case 1:
      return quantise_function<1>(parameters, extra);
    case 2:
      return quantise_function<2>(parameters, extra);
    case 3:
      return quantise_function<3>(parameters, extra);
    case 4:
      return quantise_function<4>(parameters, extra);
    case 5:
      return quantise_function<5>(parameters, extra);
    case 6:
      return quantise_function<6>(parameters, extra);
    case 7:
      return quantise_function<7>(parameters, extra);
    case 8:
      return quantise_function<8>(parameters, extra);
    case 9:
      return quantise_function<9>(parameters, extra);
    case 10:
      return quantise_function<10>(parameters, extra);
  }
  return nullptr;
}

struct Output : core::EncodeOutput {
  const void* values = nullptr;  // Read by the caller, tile after tile; known here for prefetching.
};

inline Extra extra(const Output& output) {
  if (output.decoded != nullptr) return Extra::kDecoded;
  return output.residual != nullptr ? Extra::kResidual : Extra::kNone;
}

/// Encodes the tiles of one chunk.
class Encoder {
 public:
  Encoder(const UniformParameters& parameters, std::size_t count, const Output& output)
      : parameters_(parameters),
        layout_(uniform_layout(parameters, count)),
        sink_(parameters.bits, layout_, output.wire),
        output_(output),
        quantise_(choose_quantise(parameters, extra(output))) {}

  /// Encodes the tile whose values are at `x`: in tile.x, or, for a whole tile, anywhere.
  void encode(const float* x, Span span, Tile& tile) const {
    if (span.elements < kTileElements) pad(span, tile);
    const std::size_t blocks = round_up(span.elements, parameters_.block) / parameters_.block;
    const std::size_t last = span.elements - (blocks - 1) * parameters_.block;
    const bool all_finite = measure(MeasureArgs{&parameters_, x, blocks, last}, tile);
    store_scales(span, blocks, tile.blocks);
    if (all_finite) {
      quantise(x, span, tile);
    } else {
      quantise_around_nonfinite(x, span, blocks, tile);
    }
  }

  /// Makes everything visible to other threads. Call after the last tile.
  void finish() const { sink_.finish(); }

 private:
  /// Fills the scales of the blocks and of the groups; returns whether all blocks are finite.
  bool measure(const MeasureArgs& args, Tile& tile) const {
    const bool usual = parameters_.grid == Grid::kUniform && parameters_.bits > 1;
    if (usual && measure_magnitudes(args, extra(output_) != Extra::kNone, tile.blocks, tile.groups))
      return true;
    const bool all_finite = measure_blocks(args, tile.blocks);
    const std::size_t block = parameters_.block;
    spread_to_groups(tile.blocks.inverse, args.block_count, block, tile.groups.inverse);
    spread_to_groups(tile.blocks.unit, args.block_count, block, tile.groups.unit);
    spread_to_groups(tile.blocks.low, args.block_count, block, tile.groups.low);
    return all_finite;
  }

  /// Fills the rest of the last block, and of the last pack of the kernels, with values that leave
  /// the extremes as they are.
  void pad(Span span, Tile& tile) const {
    const std::size_t end =
        round_up(span.elements, std::max<std::size_t>(parameters_.block, kPadElements));
    const float value = parameters_.grid == Grid::kMinMax ? tile.x[span.elements - 1] : 0.0f;
    std::fill(tile.x + span.elements, tile.x + end, value);
  }

  void store_scales(Span span, std::size_t blocks, const BlockScales& scales) const {
    const std::size_t first_block = span.first / parameters_.block;
    std::byte* units = output_.wire + layout_.units_offset + first_block * sizeof(std::uint16_t);
    std::memcpy(units, scales.stored_unit, blocks * sizeof(std::uint16_t));
    if (parameters_.grid == Grid::kUniform) return;
    std::byte* lows = output_.wire + first_block * sizeof(float);
    std::memcpy(lows, scales.low, blocks * sizeof(float));
    for (std::size_t b = 0; b < blocks; ++b) {
      if (scales.stored_unit[b] != core::kBfloat16Nan) continue;
      core::store_element<float>(lows, b, core::float_of(core::kCanonicalNanBits));
    }
  }

  void quantise(const float* x, Span span, Tile& tile) const {
    const std::uint16_t* random = tile.random;
    if (parameters_.rounding == Rounding::kStochastic) random = draw(span, tile);
    QuantiseArgs args;
    args.x = x;
    args.elements = round_up(span.elements, kPadElements);
    args.scales = &tile.groups;
    args.random = random;
    args.codes = sink_.target(span, tile);
    args.extra = choose_extra(span, tile);
    const std::size_t element_bytes = dtype_size(parameters_.dtype);
    args.values = {static_cast<const std::byte*>(output_.values) + span.first * element_bytes,
                   element_bytes};
    args.residual = {residual_at(span), sizeof(float)};
    quantise_(args);
    sink_.store(span, tile);
    finish_extra(x, span, tile);
  }

  /// Random numbers of the tile's elements.
  const std::uint16_t* draw(Span span, Tile& tile) const {
    const std::uint64_t first = output_.random.first_element + span.first;
    const std::size_t offset = first % core::kElementsPerGroup;
    const std::size_t groups =
        round_up(offset + span.elements, core::kElementsPerGroup) / core::kElementsPerGroup;
    core::HWY_NAMESPACE::random_halves(output_.random, first / core::kElementsPerGroup, groups,
                                       tile.random);
    return tile.random + offset;
  }

  /// Kernels write whole packs: only a whole tile may go straight to the caller's memory.
  float* choose_extra(Span span, Tile& tile) const {
    if (span.elements < kTileElements) return tile.decoded;
    if (output_.decoded == nullptr) return residual_at(span);
    if (parameters_.dtype != DType::kFloat32) return tile.decoded;
    return static_cast<float*>(arrays::at<float>(output_.decoded, span.first));
  }

  float* residual_at(Span span) const {
    if (output_.residual == nullptr) return nullptr;
    return static_cast<float*>(arrays::at<float>(output_.residual, span.first));
  }

  /// Moves decoded values and residual from where the kernel left them to where they belong.
  void finish_extra(const float* x, Span span, Tile& tile) const {
    const float* extra_values = choose_extra(span, tile);
    if (output_.decoded == nullptr) {
      if (output_.residual != nullptr && extra_values == tile.decoded) {
        std::memcpy(static_cast<void*>(residual_at(span)), tile.decoded,
                    span.elements * sizeof(float));
      }
      return;
    }
    if (output_.residual != nullptr) {
      arrays::subtract_floats(x, extra_values, span.elements, residual_at(span));
    }
    if (extra_values == tile.decoded) {
      arrays::store_array(parameters_.dtype, tile.decoded, span.elements, output_.decoded,
                          span.first);
    }
  }

  /// Quantises a tile in which some blocks are not finite: with zeros in their place, whose codes
  /// are then cleared; their residual stays as it was.
  void quantise_around_nonfinite(const float* x, Span span, std::size_t blocks, Tile& tile) const {
    const std::size_t block = parameters_.block;
    if (x != tile.x) std::memcpy(tile.x, static_cast<const void*>(x), sizeof tile.x);
    float kept_residual[kTileElements];
    if (output_.residual != nullptr) {
      std::memcpy(kept_residual, static_cast<const void*>(residual_at(span)),
                  span.elements * sizeof(float));
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      if (is_finite_block(tile, b)) continue;
      std::fill_n(tile.x + b * block, block, 0.0f);
    }
    quantise(tile.x, span, tile);
    for (std::size_t b = 0; b < blocks; ++b) {
      if (is_finite_block(tile, b)) continue;
      const std::size_t length = std::min(block, span.elements - b * block);
      sink_.clear({span.first + b * block, length});
      if (output_.residual == nullptr) continue;
      std::memcpy(arrays::at<float>(static_cast<void*>(residual_at(span)), b * block),
                  kept_residual + b * block, length * sizeof(float));
    }
  }

  static bool is_finite_block(const Tile& tile, std::size_t b) {
    return tile.blocks.stored_unit[b] != core::kBfloat16Nan;
  }

  const UniformParameters& parameters_;
  UniformLayout layout_;
  CodeSink sink_;
  const Output& output_;
  QuantiseFunction quantise_;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
