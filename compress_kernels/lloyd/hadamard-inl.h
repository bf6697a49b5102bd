// The Walsh-Hadamard transform of a block of 64 to 1024 floats, as rotation.h has it: strides from
// large to small, each sum and difference rounded once. Compiled once per target.
//
// Up to three strides are done at a time, on eight vectors in registers: a block of 1024 passes
// twice through the first-level cache with AVX-512. The last pass goes on within each vector and
// hands every vector of the result to a function.
#if defined(COMPRESS_KERNELS_LLOYD_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LLOYD_HADAMARD_INL_H_
#undef COMPRESS_KERNELS_LLOYD_HADAMARD_INL_H_
#else
#define COMPRESS_KERNELS_LLOYD_HADAMARD_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lloyd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag, arrays::Words;

/// Each lane's partner at a distance of kStride lanes.
template <std::size_t kStride>
HWY_INLINE Floats partners(Floats v) {
  if constexpr (kStride == 1) {
    return hn::Shuffle2301(v);
  } else if constexpr (kStride == 2) {
    return hn::Shuffle1032(v);
  } else if constexpr (kStride == 4) {
    return hn::SwapAdjacentBlocks(v);
  } else {
    static_assert(kStride == 8 && kLanes == 16);
    return hn::ConcatLowerUpper(kFloatTag, v, v);
  }
}

/// -1 in the lanes that subtract at this stride, 1 in the others.
template <std::size_t kStride>
HWY_INLINE Floats stride_signs() {
  const Words lane = hn::And(hn::Iota(kWordTag, 0), hn::Set(kWordTag, std::uint32_t{kStride}));
  constexpr int kShift = kStride == 8 ? 28 : kStride == 4 ? 29 : kStride == 2 ? 30 : 31;
  return hn::Or(hn::Set(kFloatTag, 1.0f), hn::BitCast(kFloatTag, hn::ShiftLeft<kShift>(lane)));
}

/// The strides below a vector. A product with 1 or -1 is exact: fused or not,
/// the sum has the bits of a sum or a difference.
template <std::size_t kStride>
HWY_INLINE Floats transform_within(Floats v) {
  if constexpr (kStride == 0) {
    return v;
  } else {
    return transform_within<kStride / 2>(
        hn::MulAdd(v, stride_signs<kStride>(), partners<kStride>(v)));
  }
}

/// 2^kStages vectors; strides from half of them down to one.
template <int kStages>
struct Bundle {
  static constexpr int kVectors = 1 << kStages;
  Floats v[kVectors];

  HWY_INLINE void transform() {
    HWY_UNROLL(3)
    for (int stride = kVectors / 2; stride > 0; stride /= 2) {
      HWY_UNROLL(8)
      for (int i = 0; i < kVectors; ++i) {
        if ((i & stride) != 0) continue;
        const Floats a = v[i];
        const Floats b = v[i + stride];
        v[i] = hn::Add(a, b);
        v[i + stride] = hn::Sub(a, b);
      }
    }
  }
};

/// One pass over `size` floats: strides from size / 2 down to size >> kStages. load(i) and
/// store(i, v) move the vector at element i.
template <int kStages, typename Load, typename Store>
HWY_INLINE void pass(std::size_t size, Load&& load, Store&& store) {
  using Vectors = Bundle<kStages>;
  const std::size_t distance = size >> kStages;
  for (std::size_t j = 0; j < distance; j += kLanes) {
    Vectors vectors;
    HWY_UNROLL(8)
    for (int k = 0; k < Vectors::kVectors; ++k) {
      vectors.v[k] = load(j + static_cast<std::size_t>(k) * distance);
    }
    vectors.transform();
    HWY_UNROLL(8)
    for (int k = 0; k < Vectors::kVectors; ++k) {
      store(j + static_cast<std::size_t>(k) * distance, vectors.v[k]);
    }
  }
}

constexpr int log2_of(std::size_t size) {
  return size <= 1 ? 0 : 1 + log2_of(size / 2);
}

/// Transforms kSize floats that load(i) gives; `scratch` has room for them. finish(i, v) gets every
/// vector of the result, in order.
template <std::size_t kSize, typename Load, typename Finish>
HWY_INLINE void hadamard(float* HWY_RESTRICT scratch, Load&& load, Finish&& finish) {
  constexpr int kAcross = log2_of(kSize / kLanes);  // Stages between vectors.
  constexpr int kLast = kAcross < 3 ? kAcross : 3;
  constexpr int kFirst = (kAcross - kLast) % 3;
  constexpr int kMiddle = (kAcross - kLast) / 3;
  static_assert(kMiddle <= 1 || kFirst == 0);
  const auto from_scratch = [&](std::size_t i) { return hn::Load(kFloatTag, scratch + i); };
  const auto to_scratch = [&](std::size_t i, Floats v) { hn::Store(v, kFloatTag, scratch + i); };
  const auto finish_within = [&](std::size_t i, Floats v) {
    finish(i, transform_within<kLanes / 2>(v));
  };
  if constexpr (kAcross == kLast) {
    pass<kLast>(kSize, load, finish_within);
    return;
  }
  constexpr int kOpening = kFirst > 0 ? kFirst : 3;
  pass<kOpening>(kSize, load, to_scratch);
  std::size_t size = kSize >> kOpening;
  for (int left = kAcross - kOpening - kLast; left > 0; left -= 3) {
    for (std::size_t first = 0; first < kSize; first += size) {
      const auto load_part = [&](std::size_t i) { return from_scratch(first + i); };
      const auto store_part = [&](std::size_t i, Floats v) { to_scratch(first + i, v); };
      pass<3>(size, load_part, store_part);
    }
    size >>= 3;
  }
  for (std::size_t first = 0; first < kSize; first += size) {
    const auto load_part = [&](std::size_t i) { return from_scratch(first + i); };
    const auto finish_part = [&](std::size_t i, Floats v) { finish_within(first + i, v); };
    pass<kLast>(size, load_part, finish_part);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lloyd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
