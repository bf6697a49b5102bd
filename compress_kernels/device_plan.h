// Which kernels of a device make the bytes of a specification, and with which parameters.
#ifndef COMPRESS_KERNELS_DEVICE_PLAN_H_
#define COMPRESS_KERNELS_DEVICE_PLAN_H_

#include <cstddef>
#include <string>
#include <variant>

#include "compress_kernels/cast/cast.h"
#include "compress_kernels/chunk_topk/device_parameters.h"
#include "compress_kernels/fp8/fp8.h"
#include "compress_kernels/lloyd/device_parameters.h"
#include "compress_kernels/q/regridding_parameters.h"
#include "compress_kernels/qsgd/device_parameters.h"
#include "compress_kernels/tern/tern.h"
#include "compress_kernels/uniform/uniform.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

/// One type for each agent (NAME/NAME_agent.cuh).
using DeviceParameters = std::variant<UniformParameters, CastParameters, Fp8Parameters,
                                      TernParameters, LloydDeviceParameters, RegriddingParameters,
                                      QsgdDeviceParameters, ChunkTopkDeviceParameters>;

struct DevicePlan {
  /// How partial sums of a ring are encoded.
  enum class PartialSums {
    kSame,       // As everything else.
    kWider,      // In more bits: q/widening_codec.h.
    kRegridded,  // On another grid: q/regridding_codec.h.
  };

  DeviceParameters parameters;
  PartialSums partial_sums = PartialSums::kSame;
};

/// kUnsupported: no kernels for this codec. Other errors are those of make_codec().
Result<DevicePlan> make_device_plan(const std::string& specification, DType dtype);

/// The parameters of a form that is encoded from values or decoded.
DeviceParameters form_parameters(const DevicePlan& plan, Contributions form);

/// Those of a hop from wires that are sums of `wire_contributions` to `form`.
DeviceParameters hop_parameters(const DevicePlan& plan, Contributions form,
                                std::size_t wire_contributions);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_DEVICE_PLAN_H_
