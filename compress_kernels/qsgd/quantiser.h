// From the own values of a chunk to codes, and what that leaves for the next call.
#ifndef COMPRESS_KERNELS_QSGD_QUANTISER_H_
#define COMPRESS_KERNELS_QSGD_QUANTISER_H_

#include <algorithm>
#include <cstring>

#include "compress_kernels/qsgd/tile_walk.h"

namespace ringpress::compress_kernels::qsgd {

/// Own values, wherever an operation takes them from.
struct Source {
  DType dtype;
  const void* values;
  const float* residual;
};

/// A whole tile of float32 without a residual lies in the caller's memory as kernels want it.
inline const float* load(const TileKernels& kernels, const Source& source, Span span,
                         float* scratch) {
  if (source.dtype == DType::kFloat32 && source.residual == nullptr && span.is_whole()) {
    return reinterpret_cast<const float*>(static_cast<const std::byte*>(source.values) +
                                          span.first * sizeof(float));
  }
  kernels.load(source.dtype, source.values, source.residual, span.first, span.count, scratch);
  return scratch;
}

/// Turns the values of one chunk into codes.
class Quantiser {
 public:
  /// All but the values must outlive this object.
  Quantiser(const Parameters& parameters, const TileKernels& kernels, const RandomKey& random,
            float* residual)
      : parameters_(parameters),
        kernels_(kernels),
        random_(random),
        residual_(residual),
        bias_(parameters_.is_stochastic ? dither_bias(random, parameters_.steps[0]) : 0.0f) {}

  /// scratch.codes = codes of x, plus steps; updates the residual. Scales and levels are in the
  /// scratch memory. `x` may be scratch.x or scratch.sum.
  void quantise(const float* x, Span span, Scratch& scratch) const {
    const QuantiseArgs args = arguments(x, span, scratch);
    kernels_.quantise(args, scratch.codes);
    if (residual_ != nullptr) update_residual(args, span, scratch);
  }

  /// Packs the codes of a whole tile and updates the residual, which `values` is still without.
  /// Only for one grid.
  void encode(const float* values, Span span, int width, std::byte* packed,
              Scratch& scratch) const {
    QuantiseArgs args = arguments(values, span, scratch);
    if (residual_ != nullptr) {
      auto* residual = reinterpret_cast<std::byte*>(residual_) + span.first * sizeof(float);
      args.residual = reinterpret_cast<float*>(residual);
    }
    kernels_.encode(args, width, packed + packed_bytes(span.first, width));
  }

 private:
  QuantiseArgs arguments(const float* x, Span span, Scratch& scratch) const {
    QuantiseArgs args;
    args.x = scratch.scales.any_is_lost ? clear_lost(x, span, scratch) : x;
    args.grids = grids_of(parameters_, scratch);
    args.is_stochastic = parameters_.is_stochastic;
    if (args.is_stochastic) args.dither = dither_of_tile(random_, span.first, bias_);
    return args;
  }

  /// A copy of x with zeros in rows that decode to NaN: their codes are 0.
  const float* clear_lost(const float* x, Span span, Scratch& scratch) const {
    if (x != scratch.x) std::memcpy(scratch.x, x, sizeof scratch.x);
    for (std::size_t row = 0; row < span.rows(); ++row) {
      if (is_lost(scratch.scales, row)) {
        std::fill_n(scratch.x + row * kRowElements, kRowElements, 0.0f);
      }
    }
    return scratch.x;
  }

  void update_residual(const QuantiseArgs& args, Span span, Scratch& scratch) const {
    const DequantiseArgs own{scratch.codes, parameters_.steps[0], args.grids};
    auto* residual = reinterpret_cast<std::byte*>(residual_) + span.first * sizeof(float);
    if (!scratch.scales.any_is_lost) {
      kernels_.subtract(args.x, own, span.count, reinterpret_cast<float*>(residual));
      return;
    }
    kernels_.dequantise(own, scratch.values);
    for (std::size_t i = 0; i < span.count; ++i) {
      if (is_lost(scratch.scales, i / kRowElements)) continue;
      core::store_element<float>(residual, i,
                                 core::load_element<float>(args.x, i) - scratch.values[i]);
    }
  }

  const Parameters& parameters_;
  const TileKernels& kernels_;
  const RandomKey random_;
  float* const residual_;
  const float bias_;
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_QUANTISER_H_
