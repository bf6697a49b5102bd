// The kernels of qsgd for every instruction set of this build.
#include "compress_kernels/qsgd/tile_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress_kernels/qsgd/qsgd_host.cc"
#include <hwy/foreach_target.h>

#include "compress_kernels/qsgd/qsgd_simd-inl.h"

#if HWY_ONCE

#include "compress_kernels/core/simd_targets.h"

RINGPRESS_SIMD_KERNELS(qsgd, TileKernels)

#endif
