#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {

void average_models(void* values, const void* theirs, std::size_t count, DType dtype) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      // The halves first: the sum of two large values may be none. The same on both sides.
      const float sum = 0.5F * core::load_wide<T>(values, i) + 0.5F * core::load_wide<T>(theirs, i);
      core::store_wide<T>(values, i, sum);
    }
  });
}

void add_values(const void* values, std::size_t count, DType dtype, float* sum) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) sum[i] += core::load_wide<T>(values, i);
  });
}

void subtract_values(const void* values, std::size_t count, DType dtype, float* sum) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) sum[i] -= core::load_wide<T>(values, i);
  });
}

void narrow_values(const float* values, std::size_t count, DType dtype, void* to) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) core::store_wide<T>(to, i, values[i]);
  });
}

void take_difference(const void* values, const float* base, std::size_t count, DType dtype,
                     float* difference) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) difference[i] = core::load_wide<T>(values, i) - base[i];
  });
}

void add_half_difference(void* values, const float* own, const float* theirs, std::size_t count,
                         DType dtype) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      core::store_wide<T>(values, i, core::load_wide<T>(values, i) + 0.5F * (theirs[i] - own[i]));
    }
  });
}

}  // namespace ringpress::compress_kernels
