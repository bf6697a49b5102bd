#include "compress_kernels/device_plan.h"

#include "compress_kernels/codec_family.h"
#include "compress_kernels/projection_plan.h"
#include "compress_kernels/specification.h"

namespace ringpress::compress_kernels {
namespace {

Status no_kernels(const Specification& codec, DType dtype) {
  return Status(Code::kUnsupported, "codec " + to_string(codec) + " has no kernels for " +
                                        dtype_name(dtype) + " on a device");
}

}  // namespace

Result<DevicePlan> make_device_plan(const std::string& specification, DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  const CodecFamily& family = *parsed.codec.family;
  DevicePlan plan;
  if (is_compressible(dtype) && family.plan_for_device != nullptr &&
      family.plan_for_device(parsed.codec, parsed.values, dtype, plan)) {
    return plan;
  }
  return no_kernels(parsed, dtype);
}

Result<ProjectionPlan> make_projection_plan(const std::string& specification, DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  const CodecFamily& family = *parsed.codec.family;
  if (!is_compressible(dtype) || family.plan_projection == nullptr) {
    return no_kernels(parsed, dtype);
  }
  ProjectionPlan plan;
  family.plan_projection(parsed.values, plan);
  return plan;
}

}  // namespace ringpress::compress_kernels
