// The kernels of tern for every instruction set of this build.
#include "compress_kernels/tern/tern.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/tern/tern_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/tern/tern_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(tern, KernelTable<TernParameters>)

#endif
