#include "nccl_plugin/session/calls/named_codec.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/savings.h"

namespace ringpress::nccl_plugin {

Result<NamedCodec> make_named_codec(const std::string& specification, DType dtype, ReduceOp op) {
  NamedCodec made;
  RINGPRESS_ASSIGN_OR_RETURN(made.codec, compress_kernels::make_codec(specification, dtype, op));
  const std::string& text = made.codec->specification();
  made.hash = XXH3_64bits(text.data(), text.size());
  RINGPRESS_ASSIGN_OR_RETURN(made.takes_error_feedback,
                             compress_kernels::takes_error_feedback(specification));
  RINGPRESS_ASSIGN_OR_RETURN(const compress_kernels::FeedbackNeed need,
                             compress_kernels::feedback_need(specification));
  made.needs_error_feedback = need != compress_kernels::FeedbackNeed::kNone;
  RINGPRESS_ASSIGN_OR_RETURN(made.unbiased,
                             compress_kernels::unbiased_specification(specification));
  return made;
}

CodecLimits limits_of(const NamedCodec& named, const PlanRequest& request) {
  const Codec& codec = *named.codec;
  return {named.takes_error_feedback, !saves_bytes(codec, request), codec.projection() != nullptr,
          named.unbiased, named.needs_error_feedback};
}

}  // namespace ringpress::nccl_plugin
