// A codec of calls, and what decisions on them ask about it.
#ifndef NCCL_PLUGIN_SESSION_CALLS_NAMED_CODEC_H_
#define NCCL_PLUGIN_SESSION_CALLS_NAMED_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nccl_plugin/session/decision_chain.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

struct NamedCodec {
  std::unique_ptr<Codec> codec;
  std::uint64_t hash = 0;         // By which ranks compare it.
  std::unique_ptr<Codec> scaled;  // With coordinate scales; null: it has none.
  std::size_t scale_block = 0;    // Elements of it that share a step; 0: the same.
  bool takes_error_feedback = true;
  bool needs_error_feedback = true;  // Or is better with it.
  std::string unbiased;              // Specification of its unbiased variant; empty: there is none.
  std::string loss;                  // As loss_without_feedback() of other calls than all-reduces.
};

/// Whether such a codec is for error feedback: without it sums are far off.
bool loses_without_feedback(const std::string& specification);
/// What is to be said of calls that are to have error feedback and have none, where such a codec is
/// for it; else empty.
std::string lost_without_feedback(const std::string& specification);
/// What is to be said of calls that have no error feedback, as the user has switched it off or as
/// they are no all-reduces, where such a codec is for error feedback; else empty.
std::string loss_without_feedback(const std::string& specification, bool is_switched_off);
/// Says it, once a process, of a call with a codec. `loss`: of that.
void warn_of_loss(const std::string& loss, CollectiveKind kind, const CallSettings& settings);

/// As compress_kernels::make_codec().
Result<NamedCodec> make_named_codec(const std::string& specification, DType dtype, ReduceOp op);

/// What it does with the values of such a call, on host memory. Lives as long as `named`.
CodecLimits limits_of(const NamedCodec& named, const PlanRequest& request);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_NAMED_CODEC_H_
