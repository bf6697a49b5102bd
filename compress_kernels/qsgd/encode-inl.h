// Values to packed codes in one pass, without scratch memory between: forms of one contribution and
// one grid, which is what most values are encoded to. Compiled once per target.
#if defined(COMPRESS_KERNELS_QSGD_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_QSGD_ENCODE_INL_H_
#undef COMPRESS_KERNELS_QSGD_ENCODE_INL_H_
#else
#define COMPRESS_KERNELS_QSGD_ENCODE_INL_H_
#endif

#include <atomic>

#include "compress_kernels/qsgd/quantise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::qsgd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

template <int kWidth, bool kStochastic, bool kResidual>
class Encoder {
 public:
  Encoder(const QuantiseArgs& args, std::byte* bytes, std::size_t lane)
      : args_(args), lane_(lane), packers_{{bytes, lane}, {bytes, lane + kLanes}} {}

  template <int... kRow>
  HWY_INLINE void encode(const DitherSource& dither, std::integer_sequence<int, kRow...>) {
    (encode_row<kRow>(dither), ...);
  }

 private:
  template <int kRow>
  HWY_INLINE void encode_row(const DitherSource& dither) {
    constexpr std::size_t kHalf = kRow / kDitherRows;
    for (std::size_t v = 0; v < kSideBySide; ++v) {
      if (kStochastic && kRow % kDitherRows == 0) {
        random_[v] = dither.draw(kHalf, lane_ + v * kLanes);
      }
      const std::size_t i = kRow * kPackLanes + lane_ + v * kLanes;
      arrays::prefetch_ahead(args_.x + i);
      if constexpr (kResidual) arrays::prefetch_ahead(args_.residual + i);
      encode_vector<kRow>(v, i);
    }
    // Else compilers issue all requests for memory at once, more than can be under way.
    if constexpr (kRow % 2 == 1) std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  template <int kRow>
  HWY_INLINE void encode_vector(std::size_t v, std::size_t i) {
    constexpr std::size_t kDitherRow = kRow % kDitherRows;
    Floats x = arrays::load_floats<float>(args_.x, i);
    if constexpr (kResidual) x = hn::Add(x, arrays::load_floats<float>(args_.residual, i));
    const Floats inverse = hn::Set(kFloatTag, args_.grids.scales->inverse[0][kRow]);
    if constexpr (kStochastic) {
      const Words word = random_[v].word[kDitherRow / 4];
      const Words code = quantise_stochastic<kDitherRow % 4>(x, inverse, args_, word);
      packers_[v].template put_high<kRow>(code);
      if constexpr (kResidual) store_residual<kRow>(x, hn::ShiftRight<8>(code), i);
    } else {
      const Words code = quantise_to_zero(x, inverse, args_);
      packers_[v].template put<kRow>(code);
      if constexpr (kResidual) store_residual<kRow>(x, code, i);
    }
  }

  template <int kRow>
  HWY_INLINE void store_residual(Floats x, Words code, std::size_t i) {
    const Words steps = hn::Set(kWordTag, args_.grids.steps);
    const Integers own = hn::BitCast(kIntegerTag, hn::Sub(code, steps));
    const Floats unit = hn::Set(kFloatTag, args_.grids.scales->unit[0][kRow]);
    const Floats value = hn::Mul(hn::ConvertTo(kFloatTag, own), unit);
    arrays::store_floats<float>(hn::Sub(x, value), args_.residual, i);
  }

  const QuantiseArgs args_;
  const std::size_t lane_;
  LanePacker<kWidth> packers_[2];
  DitherWords random_[2];
};

template <int kWidth, bool kStochastic, bool kResidual>
void encode_tile_of(const QuantiseArgs& args, std::byte* bytes) {
  const DitherSource dither(args.dither);
  for (std::size_t lane = 0; lane < kPackLanes; lane += kSideBySide * kLanes) {
    Encoder<kWidth, kStochastic, kResidual> encoder(args, bytes, lane);
    encoder.encode(dither, std::make_integer_sequence<int, kRows>());
  }
}

using EncodeFunction = void (*)(const QuantiseArgs&, std::byte*);

template <int kWidth>
constexpr std::array<EncodeFunction, 4> encode_functions_of() {
  return {encode_tile_of<kWidth, false, false>, encode_tile_of<kWidth, false, true>,
          encode_tile_of<kWidth, true, false>, encode_tile_of<kWidth, true, true>};
}

/// Widths that have functions of their own; the reference has the others.
#ifdef RINGPRESS_FEW_KERNELS
constexpr int kFirstWidth = 5;
constexpr int kWidths = 1;
#else
constexpr int kFirstWidth = 2;
constexpr int kWidths = kMostTransportBits;
#endif

template <int... kIndex>
constexpr auto encode_functions(std::integer_sequence<int, kIndex...>) {
  return std::array<std::array<EncodeFunction, 4>, sizeof...(kIndex)>{
      encode_functions_of<kIndex + kFirstWidth>()...};
}

inline void encode(const QuantiseArgs& args, int width, std::byte* bytes) {
  static constexpr auto kFunctions = encode_functions(std::make_integer_sequence<int, kWidths>());
  if (width < kFirstWidth || width >= kFirstWidth + kWidths) {
    return reference_kernels().encode(args, width, bytes);
  }
  const std::size_t kind = (args.is_stochastic ? 2 : 0) + (args.residual != nullptr ? 1 : 0);
  kFunctions[static_cast<std::size_t>(width - kFirstWidth)][kind](args, bytes);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::qsgd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
