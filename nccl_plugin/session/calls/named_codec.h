// A codec of calls, and what decisions on them ask about it.
#ifndef NCCL_PLUGIN_SESSION_CALLS_NAMED_CODEC_H_
#define NCCL_PLUGIN_SESSION_CALLS_NAMED_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "nccl_plugin/session/decision_chain.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

struct NamedCodec {
  std::unique_ptr<Codec> codec;
  std::uint64_t hash = 0;  // By which ranks compare it.
  bool takes_error_feedback = true;
  bool needs_error_feedback = true;  // Or is better with it.
  std::string unbiased;              // Specification of its unbiased variant; empty: there is none.
};

/// As compress_kernels::make_codec().
Result<NamedCodec> make_named_codec(const std::string& specification, DType dtype, ReduceOp op);

/// What it does with the values of such a call, on host memory. Lives as long as `named`.
CodecLimits limits_of(const NamedCodec& named, const PlanRequest& request);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_NAMED_CODEC_H_
