// Codecs of a device whose kernels run on fibers (tests/support/simt.h).
#ifndef TESTS_COMPRESS_KERNELS_FIBER_DEVICE_H_
#define TESTS_COMPRESS_KERNELS_FIBER_DEVICE_H_

#include <memory>
#include <string>
#include <utility>

#include "compress_kernels/device_family.h"
#include "compress_kernels/device_plan.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/models/task_models.h"
#include "compress_kernels/scales/task_scales.h"
#include "ringpress/internal/device.h"
#include "tests/compress_kernels/fiber_backend.h"
#include "tests/compress_kernels/host_memory_device.h"

namespace ringpress::compress_kernels::testing {

/// kUnsupported where there are no kernels.
inline Result<std::unique_ptr<DeviceCodec>> make_fiber_codec(const std::string& specification,
                                                             DType dtype, FiberBackend backend) {
  RINGPRESS_ASSIGN_OR_RETURN(const DevicePlan plan, make_device_plan(specification, dtype));
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, ReduceOp::kSum));
  return make_device_codec(PlannedCodec{std::move(codec), plan}, backend);
}

inline Result<std::unique_ptr<DeviceProjection>> make_fiber_projection(
    const std::string& specification, DType dtype, ReduceOp op, FiberBackend backend) {
  RINGPRESS_ASSIGN_OR_RETURN(const DevicePlan plan, make_projection_plan(specification, dtype));
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, op));
  return make_device_projection(PlannedCodec{std::move(codec), plan}, backend);
}

/// Host memory, on which kernels run at once.
class FiberDevice : public HostMemoryDevice {
 public:
  explicit FiberDevice(FiberBackend backend = {}) : backend_(backend) {}

  const char* name() const override { return "fibers"; }
  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp) override {
    return make_fiber_codec(specification, dtype, backend_);
  }
  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string& specification,
                                                            DType dtype, ReduceOp op) override {
    return make_fiber_projection(specification, dtype, op, backend_);
  }

  Result<std::unique_ptr<DeviceModels>> make_models() override {
    return std::unique_ptr<DeviceModels>(
        std::make_unique<models::TaskModels<FiberBackend>>(backend_));
  }
  Result<std::unique_ptr<DeviceScales>> make_scales() override {
    return std::unique_ptr<DeviceScales>(
        std::make_unique<scales::TaskScales<FiberBackend>>(backend_));
  }

 private:
  FiberBackend backend_;
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_FIBER_DEVICE_H_
