// The kernels of fp16 and bf16 for every instruction set of this build.
#include "compress_kernels/cast/cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/cast/cast_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/cast/cast_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(cast, KernelTable<CastParameters>)

#endif
