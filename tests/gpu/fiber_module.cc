// Stands in for libringpress-cuda.so: a device whose kernels run on fibers of the host.
#include <memory>
#include <utility>

#include "compress_kernels/cuda/module.h"
#include "compress_kernels/task_codec.h"
#include "tests/compress_kernels/fiber_device.h"

namespace ringpress::compress_kernels::testing {
namespace {

/// Asks the program for codecs, as the module of CUDA does: the registry is there.
class ModuleDevice final : public FiberDevice {
 public:
  explicit ModuleDevice(cuda::PlanMaker make_plan) : make_plan_(make_plan) {}

  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(cuda::PlannedCodec planned, make_plan_(specification, dtype, op));
    return std::unique_ptr<DeviceCodec>(std::make_unique<TaskCodec<FiberBackend>>(
        std::move(planned.codec), planned.plan, FiberBackend{}));
  }

 private:
  cuda::PlanMaker make_plan_;
};

}  // namespace
}  // namespace ringpress::compress_kernels::testing

/// ModuleEntry of module.h.
extern "C" __attribute__((visibility("default"))) void ringpress_cuda_open(
    int, ringpress::compress_kernels::cuda::PlanMaker make_plan,
    ringpress::Result<std::unique_ptr<ringpress::Device>>* opened) {
  *opened = std::unique_ptr<ringpress::Device>(
      std::make_unique<ringpress::compress_kernels::testing::ModuleDevice>(make_plan));
}
