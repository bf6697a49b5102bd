#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/q/regridding_agent.cuh"

namespace ringpress::compress_kernels::cuda {

// Only hops lead from one grid to another: hop_parameters() alone makes such parameters.
template <>
int launch(const core::EncodeTask<RegriddingParameters>&, const Target&) {
  return cudaErrorInvalidValue;
}
template <>
int launch(const core::DecodeTask<RegriddingParameters>&, const Target&) {
  return cudaErrorInvalidValue;
}
RINGPRESS_CUDA_LAUNCH(core::HopTask, RegriddingParameters, q)

}  // namespace ringpress::compress_kernels::cuda
