// The kernels of q1 .. q8 for every instruction set of this build.
#include "compress_kernels/uniform/uniform.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/uniform/uniform_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/uniform/uniform_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(uniform, KernelTable<UniformParameters>)

#endif
