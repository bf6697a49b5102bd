#include "nccl_plugin/host/arguments.h"

#include <string>

#include "nccl_plugin/host/comm.h"

namespace ringpress::nccl_plugin::host {

Status check_pointer(const void* pointer, const char* name) {
  if (pointer != nullptr) return Status::ok();
  return Status(Code::kInvalidArgument, std::string(name) + " is null");
}

Status check_rank(int value, int size, const char* name) {
  if (value >= 0 && value < size) return Status::ok();
  return Status(Code::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                            ", but must be from 0 to " + std::to_string(size - 1));
}

Result<DType> to_dtype(int value) {
  if (value >= 0 && value < kDTypeCount) return static_cast<DType>(value);
  return Status(Code::kInvalidArgument,
                "datatype " + std::to_string(value) + " is not an ncclDataType_t");
}

Status check_bytes(std::size_t count, DType dtype, int blocks) {
  constexpr std::size_t kLimit = std::size_t{1} << 56;  // No process has more addresses.
  if (count <= kLimit / dtype_size(dtype) / static_cast<std::size_t>(blocks)) return Status::ok();
  return Status(Code::kInvalidArgument,
                "count " + std::to_string(count) + " of " + dtype_name(dtype) +
                    (blocks > 1 ? " for each of " + std::to_string(blocks) + " ranks" : "") +
                    " does not fit into memory");
}

Result<Reduction> to_reduction(ncclComm& comm, int op, DType dtype) {
  if (op >= 0 && op < kReduceOpCount) return Reduction{static_cast<ReduceOp>(op), 1};
  return comm.objects().operators.resolve(op, dtype);
}

}  // namespace ringpress::nccl_plugin::host
