// Loops over arrays of compressible elements at the pace of the first-level cache. Arrays of the
// caller may have any alignment; `values` is aligned scratch with room for whole vectors. Compiled
// once per target.
#if defined(COMPRESS_KERNELS_CORE_FLOAT_ARRAYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CORE_FLOAT_ARRAYS_INL_H_
#undef COMPRESS_KERNELS_CORE_FLOAT_ARRAYS_INL_H_
#else
#define COMPRESS_KERNELS_CORE_FLOAT_ARRAYS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <bit>

#include "compress_kernels/core/reduce.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::core {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

template <typename T, bool kAdd>
void load_elements(const void* array, std::size_t first, std::size_t count, float* values) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats x = load_floats<T>(array, first + i);
    if constexpr (kAdd) x = hn::Add(hn::Load(kFloatTag, values + i), x);
    hn::Store(x, kFloatTag, values + i);
  }
  for (; i < count; ++i) {
    const float x = load_wide<T>(array, first + i);
    values[i] = kAdd ? values[i] + x : x;
  }
}

template <bool kAdd>
void load_elements(DType dtype, const void* array, std::size_t first, std::size_t count,
                   float* values) {
  if (dtype == DType::kFloat16) {
    load_elements<Float16, kAdd>(array, first, count, values);
  } else if (dtype == DType::kBfloat16) {
    load_elements<Bfloat16, kAdd>(array, first, count, values);
  } else {
    load_elements<float, kAdd>(array, first, count, values);
  }
}

/// residual[i] = new_residual(x[i], decoded[i], residual[i]); any alignment.
inline void store_new_residual(const float* x, const float* decoded, std::size_t count,
                               float* residual) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats lost = hn::Sub(load_floats<float>(x, i), hn::Load(kFloatTag, decoded + i));
    const Floats old = load_floats<float>(residual, i);
    store_floats<float>(hn::IfThenElse(hn::IsFinite(lost), lost, old), residual, i);
  }
  for (; i < count; ++i) {
    const float old = load_element<float>(residual, i);
    store_element<float>(residual, i, new_residual(x[i], decoded[i], old));
  }
}

/// values[i] = array[first + i]
inline void load_array(DType dtype, const void* array, std::size_t first, std::size_t count,
                       float* values) {
  load_elements<false>(dtype, array, first, count, values);
}

/// values[i] += array[first + i]
inline void add_array(DType dtype, const void* array, std::size_t first, std::size_t count,
                      float* values) {
  load_elements<true>(dtype, array, first, count, values);
}

inline void add_floats(const void* array, std::size_t first, std::size_t count, float* values) {
  load_elements<float, true>(array, first, count, values);
}

template <typename T>
void load_sum_of(const void* array, const void* floats, std::size_t first, std::size_t count,
                 float* values) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats x = load_floats<T>(array, first + i);
    hn::Store(hn::Add(x, load_floats<float>(floats, first + i)), kFloatTag, values + i);
  }
  for (; i < count; ++i) {
    values[i] = load_wide<T>(array, first + i) + load_element<float>(floats, first + i);
  }
}

/// values[i] = array[first + i] + floats[first + i]
inline void load_sum(DType dtype, const void* array, const void* floats, std::size_t first,
                     std::size_t count, float* values) {
  if (dtype == DType::kFloat16) {
    load_sum_of<Float16>(array, floats, first, count, values);
  } else if (dtype == DType::kBfloat16) {
    load_sum_of<Bfloat16>(array, floats, first, count, values);
  } else {
    load_sum_of<float>(array, floats, first, count, values);
  }
}

template <typename T>
void store_elements(const float* values, std::size_t count, void* array, std::size_t first) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store_floats<T>(hn::Load(kFloatTag, values + i), array, first + i);
  }
  for (; i < count; ++i) store_wide<T>(array, first + i, values[i]);
}

/// array[first + i] = values[i]
inline void store_array(DType dtype, const float* values, std::size_t count, void* array,
                        std::size_t first) {
  if (dtype == DType::kFloat16) {
    store_elements<Float16>(values, count, array, first);
  } else if (dtype == DType::kBfloat16) {
    store_elements<Bfloat16>(values, count, array, first);
  } else {
    store_elements<float>(values, count, array, first);
  }
}

/// difference[i] = a[i] - b[i]; all of any alignment.
inline void subtract_floats(const void* a, const void* b, std::size_t count, void* difference) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store_floats<float>(hn::Sub(load_floats<float>(a, i), load_floats<float>(b, i)), difference, i);
  }
  for (; i < count; ++i) {
    store_element<float>(difference, i, load_element<float>(a, i) - load_element<float>(b, i));
  }
}

/// Copies without reading `to` into the cache first. Call hwy::FlushStream() after the last one.
inline void stream_bytes(const void* from, void* to, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t kVectorBytes = hn::MaxLanes(d);
  const auto* source = static_cast<const std::uint8_t*>(from);
  auto* target = static_cast<std::uint8_t*>(to);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(target) % kVectorBytes;
  std::size_t i = misaligned == 0 ? 0 : std::min(bytes, kVectorBytes - misaligned);
  std::memcpy(target, source, i);
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) {
    hn::Stream(hn::LoadU(d, source + i), d, target + i);
  }
  std::memcpy(target + i, source + i, bytes - i);
}

/// Divides vectors by a whole number. A power of two is multiplied with its reciprocal, which
/// rounds alike.
class Divisor {
 public:
  explicit Divisor(std::size_t divisor) : exact_(std::has_single_bit(divisor)) {
    const float number = static_cast<float>(divisor);
    factor_ = exact_ ? 1.0f / number : number;
  }

  HWY_INLINE Floats divide(Floats x) const {
    const Floats factor = hn::Set(kFloatTag, factor_);
    return exact_ ? hn::Mul(x, factor) : hn::Div(x, factor);
  }

 private:
  bool exact_;
  float factor_;
};

/// values[i] /= divisor
inline void divide_floats(std::size_t divisor, std::size_t count, float* values) {
  const Divisor vector_divisor(divisor);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::Store(vector_divisor.divide(hn::Load(kFloatTag, values + i)), kFloatTag, values + i);
  }
  for (; i < count; ++i) values[i] = core::divide(values[i], divisor);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::core
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
