// What gossip makes of single values, on processors and in kernels.
#ifndef COMPRESS_KERNELS_MODELS_ARITHMETIC_H_
#define COMPRESS_KERNELS_MODELS_ARITHMETIC_H_

#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::models {

/// The halves first: the sum of two large values may be none. The same on both sides.
RINGPRESS_HOST_DEVICE inline float mean_of(float own, float theirs) {
  return 0.5F * own + 0.5F * theirs;
}

/// Of values of float32, whose sum no double is too small for.
RINGPRESS_HOST_DEVICE inline float mean_of_sum(double sum, double divisor) {
  return static_cast<float>(sum / divisor);
}

/// A value moves by half of how far the two are from each other.
RINGPRESS_HOST_DEVICE inline float moved(float value, float own, float theirs) {
  return value + 0.5F * (theirs - own);
}

}  // namespace ringpress::compress_kernels::models

#endif  // COMPRESS_KERNELS_MODELS_ARITHMETIC_H_
