// sum_block() of block.h for whole blocks. Compiled once per target.
#if defined(COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_INL_H_
#undef COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_INL_H_
#else
#define COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/hadamard-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lloyd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Sums of neighbours: those of `low` in the lower half, those of `high` in the upper.
HWY_INLINE Floats add_neighbours(Floats low, Floats high) {
  return hn::Add(hn::ConcatEven(kFloatTag, high, low), hn::ConcatOdd(kFloatTag, high, low));
}

/// The sums of groups of 2^kLevels neighbours, a vector of them.
template <int kLevels>
HWY_INLINE Floats sum_neighbours(const float* lanes) {
  if constexpr (kLevels == 0) {
    return hn::Load(kFloatTag, lanes);
  } else {
    return add_neighbours(sum_neighbours<kLevels - 1>(lanes),
                          sum_neighbours<kLevels - 1>(lanes + (kLanes << (kLevels - 1))));
  }
}

/// Adds the halves of a vector, then of its lower half, and so on: the sum is in all lanes.
template <std::size_t kStride = kLanes / 2>
HWY_INLINE Floats add_halves(Floats v) {
  if constexpr (kStride == 0) {
    return v;
  } else {
    return add_halves<kStride / 2>(hn::Add(v, partners<kStride>(v)));
  }
}

/// sum_lanes() of kCount lanes, which may be overwritten.
template <std::size_t kCount>
HWY_INLINE float sum_vectors(float* lanes) {
  static_assert(kLaneGroup == 8);
  constexpr std::size_t kVectors = kCount / kLaneGroup / kLanes;  // Of sums of groups.
  if constexpr (kVectors == 0) {
    return sum_lanes(lanes, kCount);
  } else {
    Floats sums[kVectors];
    HWY_UNROLL(8)
    for (std::size_t k = 0; k < kVectors; ++k) {
      sums[k] = sum_neighbours<3>(lanes + k * kLaneGroup * kLanes);
    }
    HWY_UNROLL(3)
    for (std::size_t half = kVectors / 2; half > 0; half /= 2) {
      HWY_UNROLL(4)
      for (std::size_t k = 0; k < half; ++k) sums[k] = hn::Add(sums[k], sums[k + half]);
    }
    return hn::GetLane(add_halves(sums[0]));
  }
}
/// The same where the count is known at run time.
HWY_INLINE float sum_vectors(float* lanes, std::size_t count) {
  if (count == 64) return sum_vectors<64>(lanes);
  if (count == 128) return sum_vectors<128>(lanes);
  return sum_vectors<kBlockLanes>(lanes);
}

/// sum_block() of the squares of kBlock values.
template <std::size_t kBlock>
HWY_INLINE float sum_squares(const float* values) {
  constexpr std::size_t kWidth = std::min(kBlock, kBlockLanes);
  alignas(64) float lanes[kWidth];
  for (std::size_t i = 0; i < kWidth; i += kLanes) {
    Floats sum = hn::Load(kFloatTag, values + i);
    sum = hn::Mul(sum, sum);
    HWY_UNROLL(3)
    for (std::size_t row = kWidth; row < kBlock; row += kWidth) {
      const Floats value = hn::Load(kFloatTag, values + row + i);
      sum = hn::Add(sum, hn::Mul(value, value));
    }
    hn::Store(sum, kFloatTag, lanes + i);
  }
  return sum_vectors<kWidth>(lanes);
}

/// Lanes of sum_block(), of values that come in order. The first ones begin them.
struct LaneSums {
  alignas(64) float lanes[kBlockLanes];

  template <bool kBegins>
  HWY_INLINE void add(std::size_t lane, Floats values) {
    if constexpr (!kBegins) values = hn::Add(hn::Load(kFloatTag, lanes + lane), values);
    hn::Store(values, kFloatTag, lanes + lane);
  }
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lloyd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
