// How kernels are launched, as data.
#ifndef COMPRESS_KERNELS_CUDA_TUNING_H_
#define COMPRESS_KERNELS_CUDA_TUNING_H_

namespace ringpress::compress_kernels::cuda {

/// Threads of a block, and how many blocks a multiprocessor has to have room for. Known when
/// kernels are compiled: together they allow 168 registers, and 255 in kernels for all parameters,
/// with which nothing has to leave them.
inline constexpr unsigned kThreads = 128;
inline constexpr unsigned kBlocks = 3;
inline constexpr unsigned kBlocksOfGeneralKernels = 2;

struct Tuning {
  unsigned blocks_per_multiprocessor;  // The most of one launch; a warp then takes several tiles.
};

/// For kernels that do not ask how many blocks run at once (kernels.cuh). What comes after 8.0 has
/// more memory traffic per multiprocessor. From the latency of memory times its rate, over the
/// bytes that a block has under way.
constexpr Tuning tuning_for(int compute_capability) {
  if (compute_capability >= 90) return {16};
  if (compute_capability >= 80) return {12};
  return {8};
}

}  // namespace ringpress::compress_kernels::cuda

#endif  // COMPRESS_KERNELS_CUDA_TUNING_H_
