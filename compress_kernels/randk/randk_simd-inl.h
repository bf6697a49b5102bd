// What randk does with all values of a tensor, for one target. Compiled once per target.
#if defined(COMPRESS_KERNELS_RANDK_RANDK_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_RANDK_RANDK_SIMD_INL_H_
#undef COMPRESS_KERNELS_RANDK_RANDK_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_RANDK_RANDK_SIMD_INL_H_
#endif

#include <algorithm>

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/randk/randk.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::randk {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag;

/// kLanes values from element i on, plus their residual.
template <typename T>
HWY_INLINE Floats load_vector(const core::ChunkValues& values, std::size_t i) {
  const Floats own = arrays::load_floats<T>(values.values, i);
  if (values.residual == nullptr) return own;
  return hn::Add(own, arrays::load_floats<float>(values.residual, i));
}

template <typename T>
bool all_finite_of(const core::ChunkValues& values) {
  std::size_t i = 0;
  while (i + kLanes <= values.count) {
    // Looked at once per tile: a branch per vector would cost more than the rest.
    const std::size_t end = std::min(values.count, i + kTileElements);
    auto largest = hn::Zero(kWordTag);
    for (; i + kLanes <= end; i += kLanes) {
      const auto bits = hn::BitCast(kWordTag, load_vector<T>(values, i));
      largest = hn::Max(largest, hn::And(bits, hn::Set(kWordTag, core::kMagnitudeMask)));
    }
    const auto infinity = hn::Set(kWordTag, core::kInfinityBits);
    if (!hn::AllTrue(kWordTag, hn::Lt(largest, infinity))) return false;
  }
  for (; i < values.count; ++i) {
    if (!core::is_finite(load_one(values, i))) return false;
  }
  return true;
}

template <typename T>
void keep_all_of(const core::ChunkValues& values, float* residual) {
  std::size_t i = 0;
  for (; i + kLanes <= values.count; i += kLanes) {
    const Floats x = load_vector<T>(values, i);
    const Floats old = arrays::load_floats<float>(residual, i);
    arrays::store_floats<float>(hn::IfThenElse(hn::IsFinite(x), x, old), residual, i);
  }
  for (; i < values.count; ++i) {
    const float x = load_one(values, i);
    if (core::is_finite(x)) core::store_element<float>(residual, i, x);
  }
}

inline bool all_finite(const core::ChunkValues& values) {
  if (values.dtype == DType::kFloat16) return all_finite_of<core::Float16>(values);
  if (values.dtype == DType::kBfloat16) return all_finite_of<core::Bfloat16>(values);
  return all_finite_of<float>(values);
}

inline void keep_all(const core::ChunkValues& values, float* residual) {
  if (values.dtype == DType::kFloat16) return keep_all_of<core::Float16>(values, residual);
  if (values.dtype == DType::kBfloat16) return keep_all_of<core::Bfloat16>(values, residual);
  keep_all_of<float>(values, residual);
}

inline const Kernels& kernels() {
  static constexpr Kernels kKernels{all_finite, keep_all};
  return kKernels;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::randk
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
