// The kernels on fibers. Those for CUDA are the same two lines in NAME/NAME.cu, with
// cuda/kernels.cuh and RINGPRESS_CUDA_KERNELS; RINGPRESS_DEVICE_CODEC comes after them.
#include "tests/compress_kernels/fiber_kernels.h"
#include "tests/examples/codec/fixed_agent.cuh"

RINGPRESS_FIBER_KERNELS(FixedParameters, fixed)
