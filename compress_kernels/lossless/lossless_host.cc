// The kernels of lossless for every instruction set of this build.
#include "compress_kernels/lossless/lossless.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/lossless/lossless_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/lossless/lossless_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(lossless, KernelSet)

#endif
