// The kernels of powersgd for every instruction set of this build.
#include "compress_kernels/powersgd/powersgd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/powersgd/powersgd_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/powersgd/powersgd_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(powersgd, Kernels)

#endif
