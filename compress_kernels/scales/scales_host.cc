#include "compress_kernels/scales/scales.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/scales/scales_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/scales/scales_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(scales, ScaleKernels)

#endif
