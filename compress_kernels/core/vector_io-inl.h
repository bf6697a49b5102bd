// Vectors of float32 from and to memory of any alignment, converting from and to the three
// compressible types exactly as narrow_floats.h does. Compiled once per target.
#if defined(COMPRESS_KERNELS_CORE_VECTOR_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CORE_VECTOR_IO_INL_H_
#undef COMPRESS_KERNELS_CORE_VECTOR_IO_INL_H_
#else
#define COMPRESS_KERNELS_CORE_VECTOR_IO_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compress_kernels/core/element.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::core {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using WordTag = hn::ScalableTag<std::uint32_t>;
using Floats = hn::Vec<FloatTag>;
using Words = hn::Vec<WordTag>;

constexpr FloatTag kFloatTag;
constexpr WordTag kWordTag;
// Elements per vector; fixed at compile time on every target that this file is compiled for.
constexpr std::size_t kLanes = hn::MaxLanes(kFloatTag);

/// A vector of D's lanes from any address.
template <class D>
HWY_INLINE hn::Vec<D> load_any(D d, const void* address) {
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, static_cast<const std::uint8_t*>(address)));
}

template <class D>
HWY_INLINE void store_any(hn::Vec<D> vector, D d, void* address) {
  const hn::Repartition<std::uint8_t, D> bytes;
  (void)d;
  hn::StoreU(hn::BitCast(bytes, vector), bytes, static_cast<std::uint8_t*>(address));
}

/// Asks for cache lines ahead of a stream of loads: near ones into the first-level cache, far ones
/// into the second. Two distances keep more requests in flight than either alone. Any address is
/// allowed.
HWY_INLINE void prefetch_ahead(const void* address) {
  constexpr std::uintptr_t kNearBytes = 4096;
  constexpr std::uintptr_t kFarBytes = 8192;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  __builtin_prefetch(reinterpret_cast<const void*>(start + kNearBytes), 0, 3);
  __builtin_prefetch(reinterpret_cast<const void*>(start + kFarBytes), 0, 2);
}

template <typename T>
HWY_INLINE const void* at(const void* array, std::size_t index) {
  return static_cast<const std::byte*>(array) + index * sizeof(T);
}
template <typename T>
HWY_INLINE void* at(void* array, std::size_t index) {
  return static_cast<std::byte*>(array) + index * sizeof(T);
}

HWY_INLINE Floats widen_halves(const void* address) {
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  const hn::Rebind<std::uint16_t, FloatTag> bits;
  return hn::PromoteTo(kFloatTag, hn::BitCast(halves, load_any(bits, address)));
}

HWY_INLINE void narrow_halves(Floats values, void* address) {
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  const hn::Rebind<std::uint16_t, FloatTag> bits;
  store_any(hn::BitCast(bits, hn::DemoteTo(halves, values)), bits, address);
}

HWY_INLINE Floats widen_brains(const void* address) {
  const hn::Rebind<std::uint16_t, FloatTag> bits;
  const Words words = hn::PromoteTo(kWordTag, load_any(bits, address));
  return hn::BitCast(kFloatTag, hn::ShiftLeft<16>(words));
}

HWY_INLINE void narrow_brains(Floats values, void* address) {
  const hn::Rebind<std::uint16_t, FloatTag> bits;
  const Words words = hn::BitCast(kWordTag, values);
  const Words odd = hn::And(hn::ShiftRight<16>(words), hn::Set(kWordTag, 1u));
  const Words rounded = hn::Add(hn::Add(words, hn::Set(kWordTag, 0x7FFFu)), odd);
  const Words quiet = hn::Or(words, hn::Set(kWordTag, 0x400000u));
  const auto is_nan = hn::RebindMask(kWordTag, hn::IsNaN(values));
  const Words result = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  store_any(hn::TruncateTo(bits, result), bits, address);
}

/// kLanes elements of type T, starting with element `index`.
template <typename T>
HWY_INLINE Floats load_floats(const void* array, std::size_t index) {
  if constexpr (std::is_same_v<T, Float16>) {
    return widen_halves(at<T>(array, index));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return widen_brains(at<T>(array, index));
  } else {
    static_assert(std::is_same_v<T, float>);
    return load_any(kFloatTag, at<T>(array, index));
  }
}

template <typename T>
HWY_INLINE void store_floats(Floats values, void* array, std::size_t index) {
  if constexpr (std::is_same_v<T, Float16>) {
    narrow_halves(values, at<T>(array, index));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    narrow_brains(values, at<T>(array, index));
  } else {
    static_assert(std::is_same_v<T, float>);
    store_any(values, kFloatTag, at<T>(array, index));
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::core
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
