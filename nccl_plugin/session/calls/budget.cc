#include "nccl_plugin/session/calls/budget.h"

#include <string>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {

Status check_budget(const std::string& codec, const std::string& given) {
  const auto made = compress_kernels::make_codec(codec, DType::kFloat32, ReduceOp::kSum);
  if (!made.is_ok()) {
    return {Code::kInvalidArgument, given + codec + ": " + made.status().message()};
  }
  if (made.value()->projection() != nullptr || made.value()->agreement() != nullptr) {
    return {Code::kInvalidArgument,
            given + codec +
                ": no codec that looks at tensors as a whole or whose ranks talk before they "
                "encode; allowed are such as q4, q8 or bf16"};
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin
