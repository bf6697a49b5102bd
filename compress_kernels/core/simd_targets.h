// Picks, at run time, what was compiled for one Highway target. The choice is kept by the caller (a
// codec object keeps its kernels), so no state of Highway is involved.
#ifndef COMPRESS_KERNELS_CORE_SIMD_TARGETS_H_
#define COMPRESS_KERNELS_CORE_SIMD_TARGETS_H_

#include <hwy/highway.h>

#if HWY_TARGETS & HWY_AVX2
#define RINGPRESS_CASE_AVX2(function) \
  case HWY_AVX2:                      \
    return &N_AVX2::function();
#else
#define RINGPRESS_CASE_AVX2(function)
#endif
#if HWY_TARGETS & HWY_AVX3
#define RINGPRESS_CASE_AVX3(function) \
  case HWY_AVX3:                      \
    return &N_AVX3::function();
#else
#define RINGPRESS_CASE_AVX3(function)
#endif

/// Body of a function that returns the address of what `function` of that target returns, or null.
#define RINGPRESS_SELECT_TARGET(target, function) \
  switch (target) {                               \
    RINGPRESS_CASE_AVX2(function)                 \
    RINGPRESS_CASE_AVX3(function)                 \
  }                                               \
  return nullptr

#endif  // COMPRESS_KERNELS_CORE_SIMD_TARGETS_H_
