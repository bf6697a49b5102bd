// A call of the API after its arguments were checked: what groups keep until their end.
#ifndef NCCL_PLUGIN_HOST_OPERATION_H_
#define NCCL_PLUGIN_HOST_OPERATION_H_

#include <cstddef>

#include "ringpress/internal/call_options.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::host {

struct Operation {
  /// Makes the call, to its end.
  Status (*run)(Communicator& communicator, const Operation& operation) = nullptr;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;           // Elements, as the caller counts them for this kind of call.
  int root = -1;                   // Root, or the peer of a send or receive.
  bool is_point_to_point = false;  // A group makes it together with others.
  DType dtype = DType::kInt8;
  Reduction reduction = {};
  CallOptions options = {};
};

/// Makes the call with its options.
Status run_operation(Communicator& communicator, const Operation& operation);

/// One half of an exchange. `operation` must be point to point.
Transfer to_transfer(const Operation& operation);

// Collectives that are made of sends and receives.
Status all_to_all(Communicator& communicator, const Operation& operation);
Status gather(Communicator& communicator, const Operation& operation);
Status scatter(Communicator& communicator, const Operation& operation);

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_OPERATION_H_
