// A hop between the grids of q/regridding_codec.h, for core/tile_agent.cuh: parts on one of them,
// the result on the other.
#ifndef COMPRESS_KERNELS_Q_REGRIDDING_AGENT_CUH_
#define COMPRESS_KERNELS_Q_REGRIDDING_AGENT_CUH_

#include <cstddef>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/lloyd/lloyd_agent.cuh"
#include "compress_kernels/q/regridding_parameters.h"
#include "compress_kernels/uniform/uniform_agent.cuh"

namespace ringpress::compress_kernels::q {

template <typename Simt>
using AnyUniform = uniform::UniformFormat<Simt>;
template <typename Simt>
using AnyLloyd = lloyd::LloydFormat<Simt, lloyd::AnyParameters>;

/// From values or codes of the uniform grids to partial sums.
template <typename Simt>
class ToSumsFormat : public AnyLloyd<Simt> {
 public:
  using Parameters = RegriddingParameters;
  RINGPRESS_DEVICE ToSumsFormat(const Simt& simt, const Parameters& parameters, std::size_t count)
      : AnyLloyd<Simt>(simt, parameters.sums, count) {}
  RINGPRESS_DEVICE static AnyUniform<Simt> of_parts(const Simt& simt, const Parameters& parameters,
                                                    std::size_t count) {
    return AnyUniform<Simt>(simt, parameters.uniform, count);
  }
};

/// From partial sums back.
template <typename Simt>
class FromSumsFormat : public AnyUniform<Simt> {
 public:
  using Parameters = RegriddingParameters;
  static constexpr std::size_t kWarpMemory = AnyLloyd<Simt>::kWarpMemory;
  RINGPRESS_DEVICE FromSumsFormat(const Simt& simt, const Parameters& parameters, std::size_t count)
      : AnyUniform<Simt>(simt, parameters.uniform, count) {}
  RINGPRESS_DEVICE static AnyLloyd<Simt> of_parts(const Simt& simt, const Parameters& parameters,
                                                  std::size_t count) {
    return AnyLloyd<Simt>(simt, parameters.sums, count);
  }
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const RegriddingParameters& parameters, Visitor&& visitor) {
  if (parameters.to_sums) return visitor(core::TypeTag<ToSumsFormat<Simt>>{});
  return visitor(core::TypeTag<FromSumsFormat<Simt>>{});
}

}  // namespace ringpress::compress_kernels::q

#endif  // COMPRESS_KERNELS_Q_REGRIDDING_AGENT_CUH_
