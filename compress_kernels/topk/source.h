// Single elements of a Source.
#ifndef COMPRESS_KERNELS_TOPK_SOURCE_H_
#define COMPRESS_KERNELS_TOPK_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/topk/kernels.h"

namespace ringpress::compress_kernels::topk {

template <typename T>
float value_at(const Source& source, std::size_t index) {
  const float value = core::load_wide<T>(source.values, index);
  if (source.residual == nullptr) return value;
  return value + core::load_element<float>(source.residual, index);
}

inline float value_at(const Source& source, std::size_t index) {
  return core::visit_compressible(source.dtype, [&](auto tag) -> float {
    return value_at<typename decltype(tag)::type>(source, index);
  });
}

template <typename T>
std::uint64_t key_at(const Source& source, std::size_t index) {
  return key_of(core::magnitude_bits(value_at<T>(source, index)), source.first_element + index);
}

inline std::uint64_t key_at(const Source& source, std::size_t index) {
  return key_of(core::magnitude_bits(value_at(source, index)), source.first_element + index);
}

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_SOURCE_H_
