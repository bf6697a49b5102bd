#include "nccl_plugin/firewall.h"

namespace ringpress::nccl_plugin {

ncclResult_t to_nccl_result(Code code) {
  switch (code) {
    case Code::kOk:
      return ncclSuccess;
    case Code::kInvalidArgument:
      return ncclInvalidArgument;
    case Code::kInvalidUsage:
    case Code::kUnsupported:  // NCCL, too, answers so when its build lacks a feature.
    case Code::kMismatch:     // Each rank's arguments are valid alone; together they are not.
      return ncclInvalidUsage;
    case Code::kTimeout:   // Beyond this process: a peer hangs,
    case Code::kPeerLost:  // or is gone,
    case Code::kCorrupt:   // or bytes changed on their way,
    case Code::kAborted:   // or somebody, here or there, gave the communicator up.
      return ncclRemoteError;
    case Code::kInProgress:
      return ncclInProgress;
    case Code::kSystem:
      return ncclSystemError;
    case Code::kInternal:
      return ncclInternalError;
  }
  return ncclInternalError;
}

}  // namespace ringpress::nccl_plugin
