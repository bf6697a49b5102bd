// The kernels of qsgd for one target. Compiled once per target.
#if defined(COMPRESS_KERNELS_QSGD_QSGD_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_QSGD_QSGD_SIMD_INL_H_
#undef COMPRESS_KERNELS_QSGD_QSGD_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_QSGD_QSGD_SIMD_INL_H_
#endif

#include <algorithm>

#include "compress_kernels/qsgd/encode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::qsgd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

inline void load(DType dtype, const void* values, const float* residual, std::size_t first,
                 std::size_t count, float* x) {
  if (residual == nullptr) {
    arrays::load_array(dtype, values, first, count, x);
  } else {
    arrays::load_sum(dtype, values, residual, first, count, x);
  }
  std::fill(x + count, x + kTileElements, 0.0f);
}

inline void store(DType dtype, const float* values, std::size_t count, void* array,
                  std::size_t first) {
  arrays::store_array(dtype, values, count, array, first);
}

inline void add(const float* values, std::size_t count, float* sum) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats total =
        hn::Add(arrays::load_floats<float>(sum, i), hn::Load(kFloatTag, values + i));
    arrays::store_floats<float>(total, sum, i);
  }
  for (; i < count; ++i) {
    core::store_element<float>(sum, i, core::load_element<float>(sum, i) + values[i]);
  }
}

inline void flush() {
  hwy::FlushStream();
}

inline void divide(std::size_t divisor, std::size_t count, float* values) {
  arrays::divide_floats(divisor, count, values);
}

inline void measure(const float* x, std::uint32_t* magnitudes) {
  const Words mask = hn::Set(kWordTag, core::kMagnitudeMask);
  for (std::size_t row = 0; row < kRows; ++row) {
    Words largest = hn::Zero(kWordTag);
    for (std::size_t lane = 0; lane < kPackLanes; lane += kLanes) {
      const Floats value = arrays::load_floats<float>(x, row * kPackLanes + lane);
      arrays::prefetch_ahead(x + row * kPackLanes + lane);
      largest = hn::Max(largest, hn::And(hn::BitCast(kWordTag, value), mask));
    }
    magnitudes[row] = hn::GetLane(hn::MaxOfLanes(kWordTag, largest));
  }
}

inline void lift(std::uint32_t lift, std::uint32_t largest, std::uint32_t* codes) {
  for (std::size_t i = 0; i < kTileElements; i += kLanes) {
    const Words code = hn::Add(hn::Load(kWordTag, codes + i), hn::Set(kWordTag, lift));
    hn::Store(hn::Min(code, hn::Set(kWordTag, largest)), kWordTag, codes + i);
  }
}

inline const TileKernels& kernels() {
  static constexpr TileKernels kKernels{load,          store,    add,    divide,     measure,
                                        choose_levels, quantise, encode, dequantise, flush,
                                        subtract,      lift,     pack,   unpack,     unpack_add};
  return kKernels;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::qsgd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
