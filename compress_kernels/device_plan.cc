#include "compress_kernels/device_plan.h"

#include "compress_kernels/codec_family.h"
#include "compress_kernels/specification.h"

namespace ringpress::compress_kernels {
namespace {

/// `planner`: the member of CodecFamily that plans.
Result<DevicePlan> plan_with(DevicePlanner CodecFamily::*planner, const std::string& specification,
                             DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  const DevicePlanner make_plan = parsed.codec.family->*planner;
  if (is_compressible(dtype) && make_plan != nullptr) {
    const auto plan = make_plan(parsed.codec, parsed.values, dtype);
    if (plan.has_value()) return *plan;
  }
  return Status(Code::kUnsupported, "codec " + to_string(parsed) + " has no kernels for " +
                                        dtype_name(dtype) + " on a device");
}

}  // namespace

Result<DevicePlan> make_device_plan(const std::string& specification, DType dtype) {
  return plan_with(&CodecFamily::plan_for_device, specification, dtype);
}

Result<DevicePlan> make_projection_plan(const std::string& specification, DType dtype) {
  return plan_with(&CodecFamily::plan_projection, specification, dtype);
}

}  // namespace ringpress::compress_kernels
