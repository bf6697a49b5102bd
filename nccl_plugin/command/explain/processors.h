// What a call on host memory takes where processors are the limit: the tuner's formulas know a
// codec's work and the wire, not that the kernel needs the same core to send, nor that ranks share
// one.
#ifndef NCCL_PLUGIN_COMMAND_EXPLAIN_PROCESSORS_H_
#define NCCL_PLUGIN_COMMAND_EXPLAIN_PROCESSORS_H_

#include "ringpress/internal/cost_model.h"

namespace ringpress::nccl_plugin::command {

/// What a prediction is to be multiplied by: what was measured lies between the two.
struct Factors {
  double least = 1;
  double most = 1;
};

struct BusySeconds {
  double seconds = 0;
  bool is_busy = false;  // Processors are the limit, not the link.
  Factors range;
};

/// `call`: as the formulas have it, of a codec of this speed, measured on one core.
/// `cores_per_rank`: below 1, ranks share a core; above 1 the codec does not get quicker, but from
/// 2 on another core sends.
BusySeconds with_processors(const CallCost& call, const CodecSpeed& codec, double cores_per_rank);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_EXPLAIN_PROCESSORS_H_
