// A call of the API after its arguments were checked: what groups keep until their end.
#ifndef NCCL_PLUGIN_HOST_OPERATION_H_
#define NCCL_PLUGIN_HOST_OPERATION_H_

#include <cstddef>
#include <cstdint>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::host {

enum class OperationKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};

struct Operation {
  OperationKind kind = OperationKind::kAllReduce;
  DType dtype = DType::kFloat32;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // Elements, as the caller counts them for this kind of call.
  Reduction reduction;
  int root = -1;  // Root, or the peer of a send or receive.
};

inline bool is_point_to_point(const Operation& operation) {
  return operation.kind == OperationKind::kSend || operation.kind == OperationKind::kReceive;
}

/// One half of an exchange. `operation` must be point to point.
Transfer to_transfer(const Operation& operation);

/// Runs one operation to its end.
Status perform(Communicator& communicator, const Operation& operation);

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_OPERATION_H_
