// Which kernels of a device project as a specification says, and with which parameters.
#ifndef COMPRESS_KERNELS_PROJECTION_PLAN_H_
#define COMPRESS_KERNELS_PROJECTION_PLAN_H_

#include <memory>
#include <string>
#include <variant>

#include "compress_kernels/powersgd/task_projection.h"
#include "compress_kernels/randk/task_projection.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

struct ProjectionPlan {
  std::variant<randk::DeviceParameters, powersgd::DeviceParameters> parameters;
};

/// kUnsupported: no kernels that project for this codec. Other errors are those of make_codec().
Result<ProjectionPlan> make_projection_plan(const std::string& specification, DType dtype);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_PROJECTION_PLAN_H_
