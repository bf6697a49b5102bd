#include "compress_kernels/core/element.h"
#include "compress_kernels/randk/randk.h"

namespace ringpress::compress_kernels::randk {
namespace {

bool all_finite(const core::ChunkValues& values) {
  for (std::size_t i = 0; i < values.count; ++i) {
    if (!core::is_finite(load_one(values, i))) return false;
  }
  return true;
}

void keep_all(const core::ChunkValues& values, float* residual) {
  for (std::size_t i = 0; i < values.count; ++i) {
    const float x = load_one(values, i);
    if (core::is_finite(x)) core::store_element<float>(residual, i, x);
  }
}

}  // namespace

float load_one(const core::ChunkValues& values, std::size_t index) {
  const float value = core::load_wide(values.dtype, values.values, index);
  if (values.residual == nullptr) return value;
  return value + core::load_element<float>(values.residual, index);
}

const Kernels& reference_kernels() {
  static constexpr Kernels kKernels{all_finite, keep_all};
  return kKernels;
}

}  // namespace ringpress::compress_kernels::randk
