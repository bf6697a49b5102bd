// A call as those know it who keep something of its tensor.
#ifndef NCCL_PLUGIN_SESSION_CALLS_TENSOR_CALL_H_
#define NCCL_PLUGIN_SESSION_CALLS_TENSOR_CALL_H_

#include <cstddef>
#include <cstdint>

#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// What is known of a call that may carry a residual.
struct TensorCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const void* address = nullptr;  // Of the send buffer; null where it is not to be trusted.
  std::uint64_t layout = 0;       // PiecewiseTensor::layout.

  bool operator==(const TensorCall&) const = default;
};

/// True if they differ in nothing but their addresses.
bool has_shape_of(const TensorCall& call, const TensorCall& other);

// As a state has them (state/state_bytes.h).
inline constexpr std::size_t kSavedCallBytes = 27;
void save_call(const TensorCall& call, StateWriter& to);
TensorCall load_call(StateReader& from);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_TENSOR_CALL_H_
