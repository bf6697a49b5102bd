#include "nccl_plugin/errors/firewall.h"

#include <string>

namespace ringpress::nccl_plugin {

ncclResult_t to_nccl_result(Code code) {
  switch (code) {
    case Code::kOk:
      return ncclSuccess;
    case Code::kInvalidArgument:
    case Code::kRefused:
      return ncclInvalidArgument;
    case Code::kInvalidUsage:
    case Code::kUnsupported:  // NCCL, too, answers so when its build lacks a feature.
    case Code::kMismatch:     // Each rank's arguments are valid alone; together they are not.
      return ncclInvalidUsage;
    case Code::kTimeout:   // Beyond this process: a peer hangs,
    case Code::kPeerLost:  // or is gone,
    case Code::kCorrupt:   // or bytes changed on their way,
    case Code::kAborted:   // or somebody, here or there, gave the communicator up.
    case Code::kRevoked:
      return ncclRemoteError;
    case Code::kInProgress:
      return ncclInProgress;
    case Code::kSystem:
      return ncclSystemError;
    case Code::kInternal:
      return ncclInternalError;
    case Code::kDevice:
      return ncclUnhandledCudaError;
  }
  return ncclInternalError;
}

namespace {

Code code_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return Code::kOk;
    case ncclUnhandledCudaError:
      return Code::kDevice;
    case ncclSystemError:
      return Code::kSystem;
    case ncclInternalError:
      return Code::kInternal;
    case ncclInvalidArgument:
      return Code::kInvalidArgument;
    case ncclInvalidUsage:
      return Code::kInvalidUsage;
    case ncclRemoteError:
      return Code::kPeerLost;
    case ncclInProgress:
      return Code::kInProgress;
    case ncclTimeout:
      return Code::kTimeout;
    case ncclNumResults:
      break;
  }
  return Code::kSystem;
}

}  // namespace

Status answered(const char* function, ncclResult_t result) {
  if (result == ncclSuccess) return Status::ok();
  return {code_of(result),
          std::string(function) + " of the real NCCL answers " + std::to_string(result)};
}

}  // namespace ringpress::nccl_plugin
