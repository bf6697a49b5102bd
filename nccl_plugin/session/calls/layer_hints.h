// What a program has told of the layers of its tensors (Communicator::set_layers).
#ifndef NCCL_PLUGIN_SESSION_CALLS_LAYER_HINTS_H_
#define NCCL_PLUGIN_SESSION_CALLS_LAYER_HINTS_H_

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// The hints of one communicator. One thread at a time.
class LayerHints {
 public:
  /// kInvalidArgument, and nothing changes, if a layer reaches beyond the tensor, overlaps another
  /// or is no matrix of rows x columns.
  Status set(const HintedCall& call, std::span<const Layer> layers);

  /// The layers of a call, in ascending order: those for its buffer, or those for any. Valid until
  /// the next set().
  std::span<const Layer> find(const HintedCall& call) const;

 private:
  std::map<HintedCall, std::vector<Layer>> layers_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_LAYER_HINTS_H_
