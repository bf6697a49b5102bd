// Element types in memory: the C++ type behind each DType, unaligned access, and the type in which
// its sums are taken.
#ifndef COMPRESS_KERNELS_CORE_ELEMENT_H_
#define COMPRESS_KERNELS_CORE_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::core {

template <typename T>
inline constexpr bool kIsNarrowFloat =
    std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float8e4m3> ||
    std::is_same_v<T, Float8e5m2>;

/// Narrow floats are reduced in float32 and rounded once per hop; all others in their own type.
template <typename T>
using Wide = std::conditional_t<kIsNarrowFloat<T>, float, T>;

template <typename T>
RINGPRESS_HOST_DEVICE inline T load_element(const void* array, std::size_t index) {
  T element;
  std::memcpy(&element, static_cast<const std::byte*>(array) + index * sizeof(T), sizeof(T));
  return element;
}

template <typename T>
RINGPRESS_HOST_DEVICE inline void store_element(void* array, std::size_t index, T element) {
  std::memcpy(static_cast<std::byte*>(array) + index * sizeof(T), &element, sizeof(T));
}

template <typename T>
RINGPRESS_HOST_DEVICE inline Wide<T> load_wide(const void* array, std::size_t index) {
  if constexpr (kIsNarrowFloat<T>) {
    return widen(load_element<T>(array, index));
  } else {
    return load_element<T>(array, index);
  }
}

template <typename T>
RINGPRESS_HOST_DEVICE inline void store_wide(void* array, std::size_t index, Wide<T> value) {
  if constexpr (kIsNarrowFloat<T>) {
    store_element<T>(array, index, narrow<T>(value));
  } else {
    store_element<T>(array, index, value);
  }
}

/// Carries a type through a generic lambda.
template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls visitor(TypeTag<T>) with the C++ type of `dtype`.
template <typename Visitor>
decltype(auto) visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kInt8:
      return visitor(TypeTag<std::int8_t>{});
    case DType::kUint8:
      return visitor(TypeTag<std::uint8_t>{});
    case DType::kInt32:
      return visitor(TypeTag<std::int32_t>{});
    case DType::kUint32:
      return visitor(TypeTag<std::uint32_t>{});
    case DType::kInt64:
      return visitor(TypeTag<std::int64_t>{});
    case DType::kUint64:
      return visitor(TypeTag<std::uint64_t>{});
    case DType::kFloat16:
      return visitor(TypeTag<Float16>{});
    case DType::kFloat32:
      return visitor(TypeTag<float>{});
    case DType::kFloat64:
      return visitor(TypeTag<double>{});
    case DType::kBfloat16:
      return visitor(TypeTag<Bfloat16>{});
    case DType::kFloat8e4m3:
      return visitor(TypeTag<Float8e4m3>{});
    case DType::kFloat8e5m2:
      return visitor(TypeTag<Float8e5m2>{});
  }
  throw std::logic_error("visit_dtype: not a DType");
}

/// As visit_dtype, for the three types that codecs compress.
template <typename Visitor>
decltype(auto) visit_compressible(DType dtype, Visitor&& visitor) {
  if (dtype == DType::kFloat16) return visitor(TypeTag<Float16>{});
  if (dtype == DType::kBfloat16) return visitor(TypeTag<Bfloat16>{});
  if (dtype == DType::kFloat32) return visitor(TypeTag<float>{});
  throw std::logic_error("visit_compressible: a type that codecs do not compress");
}

/// As the functions above, of a type that is known at run time and that codecs compress.
inline float load_wide(DType dtype, const void* array, std::size_t index) {
  return visit_compressible(dtype, [&](auto tag) -> float {
    return load_wide<typename decltype(tag)::type>(array, index);
  });
}
inline void store_wide(DType dtype, void* array, std::size_t index, float value) {
  visit_compressible(
      dtype, [&](auto tag) { store_wide<typename decltype(tag)::type>(array, index, value); });
}

/// Calls use(index, value) for all elements of an array.
template <typename Use>
void for_each_value(DType dtype, const void* array, std::size_t count, Use&& use) {
  visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < count; ++i)
      use(i, load_wide<typename decltype(tag)::type>(array, i));
  });
}

/// Each element of an array becomes value(index).
template <typename Value>
void store_values(DType dtype, void* array, std::size_t count, Value&& value) {
  visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < count; ++i)
      store_wide<typename decltype(tag)::type>(array, i, value(i));
  });
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_ELEMENT_H_
