// The kernels of "none" for every instruction set of this build.
#include "compress_kernels/none/none.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/none/none_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/none/none_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(none, KernelTable<NoneParameters>)

#endif
