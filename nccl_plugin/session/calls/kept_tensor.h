// What is kept of one tensor from call to call, and where it lies.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSOR_H_
#define NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSOR_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "nccl_plugin/session/calls/place_order.h"
#include "nccl_plugin/session/calls/tensor_call.h"
#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin {

/// What is to be kept of a tensor.
struct ToKeep {
  bool residual = true;
  std::size_t state_count = 0;   // Floats of ProjectionState.
  std::size_t memory_count = 0;  // Floats of ResidualMemory, zero at first, beside the residual.
  std::string_view codec = {};   // Its specification, to warn of what it loses without.
  bool is_projected = false;     // Its codec projects.
};

/// What is kept of a tensor. Null: nothing of the kind.
struct Kept {
  float* residual = nullptr;  // call.count floats, zero at first.
  float* usual = nullptr;     // Its size of late (residual_spike.h).
  ProjectionState* state = nullptr;
  float* memory = nullptr;  // ToKeep::memory_count floats, aligned as the memory's allocations are.
};

/// Where residuals lie: in host memory or on a device.
class ResidualMemory {
 public:
  virtual ~ResidualMemory() = default;
  /// `count` zeros, or null if there is no room.
  virtual float* allocate(std::size_t count) = 0;
  /// Of this or another one of the same kind and device.
  virtual void free(float* memory) = 0;
};
/// That of the process. Lives for ever.
ResidualMemory& host_residual_memory();

struct FreeFloats {
  ResidualMemory* memory = nullptr;
  void operator()(float* values) const { memory->free(values); }
};

struct KeptTensor {
  KeptPlace place;
  TensorCall call;
  ToKeep kept;
  std::unique_ptr<float[], FreeFloats> residual;  // Or null; as
  std::unique_ptr<float[], FreeFloats> memory;    // Kept::memory.
  ProjectionState state;
  float usual = 0;         // Kept::usual.
  bool is_halved = false;  // Since it was found last.
  std::size_t passes = 0;  // So often its place has come and it was not found, since then.
  std::uint64_t used = 0;  // Of one with a name: the number of the last use.
  std::uint64_t gap = 0;   // How many uses lay between that and the one before; 0: not known.

  std::size_t bytes() const;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KEPT_TENSOR_H_
