// The kernels of qB:grid=lloyd for every instruction set of this build.
#include "compress_kernels/lloyd/lloyd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/lloyd/lloyd_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/lloyd/lloyd_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(lloyd, KernelTable<LloydParameters>)

#endif
