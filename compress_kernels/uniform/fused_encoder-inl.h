// Chooses and feeds the kernels of fused-inl.h. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_FUSED_ENCODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_FUSED_ENCODER_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_FUSED_ENCODER_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_FUSED_ENCODER_INL_H_
#endif

#include "compress_kernels/uniform/code_sink-inl.h"
#include "compress_kernels/uniform/encoder-inl.h"
#include "compress_kernels/uniform/fused-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Null where there is no fused kernel: none has codes of more than 8 bits.
inline FusedFunction choose_fused(const UniformParameters& parameters, bool adds, Extra extra) {
  const bool usual = parameters.grid == Grid::kUniform && parameters.block == kFusedBlock &&
                     parameters.rounding == Rounding::kNearest;
  const bool may_fit = parameters.bits > 1 && parameters.bits <= core::kMostFittedBits;
  if (!usual || takes_fit(parameters) != may_fit) return nullptr;
#ifdef RINGPRESS_FEW_KERNELS
  // With sanitizers compilers take minutes over them all.
  return parameters.bits == 4 ? fused_function<4>(parameters.dtype, adds, extra) : nullptr;
#else
  switch (parameters.bits) {
    case 1:
      return fused_function<1>(parameters.dtype, adds, extra);
    case 2:
      return fused_function<2>(parameters.dtype, adds, extra);
    case 3:
      return fused_function<3>(parameters.dtype, adds, extra);
    case 4:
      return fused_function<4>(parameters.dtype, adds, extra);
    case 5:
      return fused_function<5>(parameters.dtype, adds, extra);
    case 6:
      return fused_function<6>(parameters.dtype, adds, extra);
    case 7:
      return fused_function<7>(parameters.dtype, adds, extra);
    case 8:
      return fused_function<8>(parameters.dtype, adds, extra);
  }
  return nullptr;
#endif
}

/// Encodes whole tiles of one chunk: own values, plus one contribution if `added` is not null.
class FusedEncoder {
 public:
  FusedEncoder(const UniformParameters& parameters, std::size_t count, const Output& output,
               const std::byte* added = nullptr)
      : parameters_(parameters),
        layout_(uniform_layout(parameters, count)),
        sink_(parameters.bits, layout_, output.wire),
        output_(output),
        added_(added) {
    const bool two_extras = output.decoded != nullptr && output.residual != nullptr;
    if (!two_extras) encode_ = choose_fused(parameters, added != nullptr, extra(output));
  }

  bool takes(Span span) const {
    return encode_ != nullptr && span.elements == kTileElements && sink_.has_slack(span);
  }

  /// Only for tiles that it takes.
  void encode(Span span, Tile& tile) const {
    const std::size_t units =
        layout_.units_offset + span.first / kFusedBlock * sizeof(std::uint16_t);
    const std::size_t element_bytes = dtype_size(parameters_.dtype);
    FusedArgs args;
    args.blocks = kTileElements / kFusedBlock;
    args.values = static_cast<const std::byte*>(output_.values) + span.first * element_bytes;
    if (added_ != nullptr) {
      args.added_units = added_ + units;
      args.added_codes = reinterpret_cast<const std::uint8_t*>(added_) + sink_.code_offset(span);
    }
    args.units = output_.wire + units;
    args.codes = sink_.target(span, tile).high;
    if (output_.residual != nullptr) args.residual = output_.residual + span.first;
    if (output_.decoded != nullptr) {
      args.decoded = static_cast<std::byte*>(output_.decoded) + span.first * element_bytes;
    }
    encode_(args);
    sink_.store(span, tile);
  }

 private:
  const UniformParameters& parameters_;
  UniformLayout layout_;
  CodeSink sink_;
  const Output& output_;
  const std::byte* added_;
  FusedFunction encode_ = nullptr;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
