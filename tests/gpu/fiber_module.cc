// Stands in for libringpress-cuda.so: a device whose kernels run on fibers of the host.
#include <memory>
#include <utility>

#include "compress_kernels/cuda/module.h"
#include "tests/compress_kernels/fiber_device.h"

namespace ringpress::compress_kernels::testing {
namespace {

/// Asks the program for codecs, as the module of CUDA does: the registry is there.
class ModuleDevice final : public FiberDevice {
 public:
  explicit ModuleDevice(const cuda::PlanMakers& make_plan) : make_plan_(make_plan) {}

  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(PlannedCodec planned, make_plan_.codec(specification, dtype, op));
    return make_device_codec(std::move(planned), FiberBackend{});
  }
  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string& specification,
                                                            DType dtype, ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(PlannedCodec planned,
                               make_plan_.projection(specification, dtype, op));
    return make_device_projection(std::move(planned), FiberBackend{});
  }

 private:
  cuda::PlanMakers make_plan_;
};

}  // namespace
}  // namespace ringpress::compress_kernels::testing

/// ModuleLayout and ModuleEntry of module.h.
extern "C" __attribute__((visibility("default"))) std::uint64_t ringpress_cuda_layout() {
  return ringpress::compress_kernels::cuda::kLayout;
}
extern "C" __attribute__((visibility("default"))) void ringpress_cuda_open(
    int, const ringpress::compress_kernels::cuda::PlanMakers& make_plan,
    ringpress::Result<std::unique_ptr<ringpress::Device>>* opened) {
  *opened = std::unique_ptr<ringpress::Device>(
      std::make_unique<ringpress::compress_kernels::testing::ModuleDevice>(make_plan));
}
