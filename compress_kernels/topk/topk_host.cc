// The kernels of topk for every instruction set of this build.
#include "compress_kernels/topk/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/topk/topk_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/topk/topk_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(topk, Kernels)

#endif
