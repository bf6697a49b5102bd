#include "nccl_plugin/session/calls/named_codec.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compress_kernels/factory.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/calls/savings.h"

namespace ringpress::nccl_plugin {

Result<NamedCodec> make_named_codec(const std::string& specification, DType dtype, ReduceOp op) {
  NamedCodec made;
  RINGPRESS_ASSIGN_OR_RETURN(made.codec, compress_kernels::make_codec(specification, dtype, op));
  const std::string& text = made.codec->specification();
  made.hash = XXH3_64bits(text.data(), text.size());
  RINGPRESS_ASSIGN_OR_RETURN(made.scale_block, compress_kernels::block_of_scales(specification));
  if (made.scale_block != 0) {
    RINGPRESS_ASSIGN_OR_RETURN(made.scaled,
                               compress_kernels::make_scaled_codec(specification, dtype, op));
  }
  RINGPRESS_ASSIGN_OR_RETURN(made.takes_error_feedback,
                             compress_kernels::takes_error_feedback(specification));
  RINGPRESS_ASSIGN_OR_RETURN(const compress_kernels::FeedbackNeed need,
                             compress_kernels::feedback_need(specification));
  made.needs_error_feedback = need != compress_kernels::FeedbackNeed::kNone;
  RINGPRESS_ASSIGN_OR_RETURN(made.unbiased,
                             compress_kernels::unbiased_specification(specification));
  made.loss = loss_without_feedback(specification, false);
  return made;
}

bool loses_without_feedback(const std::string& specification) {
  const auto need = compress_kernels::feedback_need(specification);
  return need.is_ok() && need.value() == compress_kernels::FeedbackNeed::kNeeded;
}

std::string lost_without_feedback(const std::string& specification) {
  if (!loses_without_feedback(specification)) return "";
  return "what " + specification +
         " leaves out of a call is lost, and sums are far off: it is for error feedback";
}

std::string loss_without_feedback(const std::string& specification, bool is_switched_off) {
  if (!loses_without_feedback(specification)) return "";
  if (is_switched_off) return "RINGPRESS_EF=0: " + lost_without_feedback(specification);
  return "all-gathers and some reduce-scatters have no error feedback: what " + specification +
         " leaves out of them is lost, and their result is far off";
}

/// Of RINGPRESS_EF=0 a communicator has been warned when it was made.
void warn_of_loss(const std::string& loss, CollectiveKind kind, const CallSettings& settings) {
  const bool has_none = kind != CollectiveKind::kAllReduce && has_error_feedback(settings);
  if (has_none && !loss.empty()) warn_once(loss);
}

CodecLimits limits_of(const NamedCodec& named, const PlanRequest& request) {
  const Codec& codec = *named.codec;
  CodecLimits limits;
  limits.takes_error_feedback = named.takes_error_feedback;
  limits.saves_nothing = !saves_bytes(codec, request);
  limits.projects = codec.projection() != nullptr;
  // (Where ranks agree before they encode, the owner of a shard may leave out values of its own.)
  limits.can_scatter_with_feedback = codec.agreement() == nullptr;
  limits.unbiased = named.unbiased;
  limits.needs_error_feedback = named.needs_error_feedback;
  return limits;
}

}  // namespace ringpress::nccl_plugin
