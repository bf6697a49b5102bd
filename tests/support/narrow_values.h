// Values of a tensor, from float32.
#ifndef TESTS_SUPPORT_NARROW_VALUES_H_
#define TESTS_SUPPORT_NARROW_VALUES_H_

#include <cstddef>

#include "compress_kernels/core/element.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

/// to = values, rounded once to the type.
inline void narrow_values(const float* values, std::size_t count, DType dtype, void* to) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) core::store_wide<T>(to, i, values[i]);
  });
}

}  // namespace ringpress::compress_kernels

#endif  // TESTS_SUPPORT_NARROW_VALUES_H_
