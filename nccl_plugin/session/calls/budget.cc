#include "nccl_plugin/session/calls/budget.h"

#include <memory>
#include <string>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {

Status check_budget(const Settings& settings) {
  const std::string& budget = settings.budget;
  const auto codec = compress_kernels::make_codec(budget, DType::kFloat32, ReduceOp::kSum);
  if (!codec.is_ok()) {
    return {Code::kInvalidArgument, "RINGPRESS_BUDGET=" + budget + ": " + codec.status().message()};
  }
  if (codec.value()->projection() != nullptr || codec.value()->agreement() != nullptr) {
    return {Code::kInvalidArgument,
            "RINGPRESS_BUDGET=" + budget +
                ": no codec that looks at tensors as a whole or whose ranks talk before they "
                "encode; allowed are such as q4, q8 or bf16"};
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin
