// The kernels of fp8 for every instruction set of this build.
#include "compress_kernels/fp8/fp8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/fp8/fp8_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/fp8/fp8_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(fp8, KernelTable<Fp8Parameters>)

#endif
