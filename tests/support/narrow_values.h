// Values of a tensor, from float32.
#ifndef TESTS_SUPPORT_NARROW_VALUES_H_
#define TESTS_SUPPORT_NARROW_VALUES_H_

#include <cstddef>

#include "compress_kernels/core/element.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

/// to = values, rounded once to the type.
inline void narrow_values(const float* values, std::size_t count, DType dtype, void* to) {
  core::store_values(dtype, to, count, [&](std::size_t i) { return values[i]; });
}

}  // namespace ringpress::compress_kernels

#endif  // TESTS_SUPPORT_NARROW_VALUES_H_
