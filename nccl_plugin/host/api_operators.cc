// Entry points of user-made reduction operators.
#include <memory>
#include <string>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::DType;
using ringpress::Status;

namespace {

Status create_scaled_sum(int* op, const void* scalar, DType dtype, int residence, ncclComm& comm) {
  if (residence == ncclScalarDevice) {
    *op = comm.objects().operators.add_deferred(scalar, dtype);
    return Status::ok();
  }
  if (residence != ncclScalarHostImmediate) {
    return Status(Code::kInvalidArgument,
                  "residence " + std::to_string(residence) + " is not an ncclScalarResidence_t");
  }
  RINGPRESS_ASSIGN_OR_RETURN(const double scale, read_scalar(scalar, dtype));
  *op = comm.objects().operators.add(scale, dtype);
  return Status::ok();
}

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                       ncclDataType_t datatype,
                                                       ncclScalarResidence_t residence,
                                                       ncclComm_t comm) {
  return firewall("ncclRedOpCreatePreMulSum", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(op, "op"));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(scalar, "scalar"));
    RINGPRESS_ASSIGN_OR_RETURN(const DType dtype, to_dtype(enum_value(datatype)));
    int value = 0;
    RINGPRESS_RETURN_IF_ERROR(
        create_scaled_sum(&value, scalar, dtype, enum_value(residence), *live));
    *op = static_cast<ncclRedOp_t>(value);
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(RedOpCreatePreMulSum);

RINGPRESS_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return firewall("ncclRedOpDestroy", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    const int value = enum_value(op);
    if (value >= 0 && value < ncclNumOps) {
      return Status(Code::kInvalidArgument,
                    "op " + std::to_string(value) + " is built in and cannot be destroyed");
    }
    return live->objects().operators.remove(value);
  });
}
RINGPRESS_PROFILING_NAME(RedOpDestroy);
