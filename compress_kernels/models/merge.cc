#include "compress_kernels/core/element.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/models/arithmetic.h"

namespace ringpress::compress_kernels {

void average_models(void* values, const void* theirs, std::size_t count, DType dtype) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      const float own = core::load_wide<T>(values, i);
      core::store_wide<T>(values, i, models::mean_of(own, core::load_wide<T>(theirs, i)));
    }
  });
}

void add_values(const void* values, std::size_t count, DType dtype, float* sum) {
  core::for_each_value(dtype, values, count, [&](std::size_t i, float value) { sum[i] += value; });
}

void write_total(const void* values, const float* sum, std::size_t count, DType dtype, void* to) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      core::store_wide<T>(to, i, sum[i] + core::load_wide<T>(values, i));
    }
  });
}

void widen_values(const void* values, std::size_t count, DType dtype, double* wide) {
  core::for_each_value(dtype, values, count,
                       [&](std::size_t i, float value) { wide[i] = static_cast<double>(value); });
}

void take_mean(const double* sums, double divisor, std::size_t count, DType dtype, void* values) {
  core::store_values(dtype, values, count,
                     [&](std::size_t i) { return models::mean_of_sum(sums[i], divisor); });
}

void take_difference(const void* values, const float* base, std::size_t count, DType dtype,
                     float* difference) {
  core::for_each_value(dtype, values, count,
                       [&](std::size_t i, float value) { difference[i] = value - base[i]; });
}

bool add_half_difference(void* values, const float* own, const float* theirs, std::size_t count,
                         DType dtype) {
  bool are_finite = true;
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_finite = core::is_finite(own[i]) && core::is_finite(theirs[i]);
      const float value = core::load_wide<T>(values, i);
      if (is_finite) core::store_wide<T>(values, i, models::moved(value, own[i], theirs[i]));
      are_finite &= is_finite;
    }
  });
  return are_finite;
}

}  // namespace ringpress::compress_kernels
