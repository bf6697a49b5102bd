// Picks, at run time, what was compiled for one Highway target. The choice is kept by the caller (a
// codec object keeps its kernels), so no state of Highway is involved.
#ifndef COMPRESS_KERNELS_CORE_SIMD_TARGETS_H_
#define COMPRESS_KERNELS_CORE_SIMD_TARGETS_H_

#include <hwy/highway.h>

#if HWY_TARGETS & HWY_AVX2
#define RINGPRESS_CASE_AVX2 \
  case HWY_AVX2:            \
    return &N_AVX2::kernels();
#else
#define RINGPRESS_CASE_AVX2
#endif
#if HWY_TARGETS & HWY_AVX3
#define RINGPRESS_CASE_AVX3 \
  case HWY_AVX3:            \
    return &N_AVX3::kernels();
#else
#define RINGPRESS_CASE_AVX3
#endif

/// Defines simd_kernels() of a codec's folder: the address of what kernels() of the target returns,
/// or null.
#define RINGPRESS_SIMD_KERNELS(folder, Kernels)      \
  namespace ringpress::compress_kernels::folder {    \
  const Kernels* simd_kernels(std::int64_t target) { \
    switch (target) {                                \
      RINGPRESS_CASE_AVX2                            \
      RINGPRESS_CASE_AVX3                            \
    }                                                \
    return nullptr;                                  \
  }                                                  \
  }

#endif  // COMPRESS_KERNELS_CORE_SIMD_TARGETS_H_
