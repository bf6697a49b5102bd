#include "compress_kernels/core/element.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels::scales {
namespace {

void divide(DType dtype, const void* values, const std::uint8_t* codes, std::size_t count,
            float* scaled) {
  core::for_each_value(dtype, values, count, [&](std::size_t i, float value) {
    scaled[i] = value * inverse_scale_of(codes[i]);
  });
}

void multiply(DType dtype, const float* scaled, const std::uint8_t* codes, std::size_t count,
              void* values) {
  core::store_values(dtype, values, count,
                     [&](std::size_t i) { return scaled[i] * scale_of(codes[i]); });
}

}  // namespace

const ScaleKernels& reference_kernels() {
  static constexpr ScaleKernels kTable{divide, multiply};
  return kTable;
}

}  // namespace ringpress::compress_kernels::scales
