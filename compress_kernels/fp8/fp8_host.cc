// The kernels of fp8 for every instruction set of this build.
#include "compress_kernels/fp8/fp8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/fp8/fp8_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/fp8/fp8_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

namespace ringpress::compress_kernels::fp8 {

const KernelTable<Fp8Parameters>* simd_kernels(std::int64_t target) {
  RINGPRESS_SELECT_TARGET(target, kernel_table);
}

}  // namespace ringpress::compress_kernels::fp8

#endif
