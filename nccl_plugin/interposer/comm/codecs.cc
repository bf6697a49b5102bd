#include "nccl_plugin/interposer/comm/codecs.h"

#include <algorithm>

#include "compress_kernels/factory.h"
#include "nccl_plugin/interposer/calls/agreeing_stream_call.h"
#include "nccl_plugin/interposer/stream/stream_scales.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// Elements of all shards' chunks together, at most: a few of them are in memory at a time.
constexpr std::size_t kLargestSlice = 2 * 1024 * 1024;
// Projections of tensors up to this size have memory from the start; for others it is made when
// they are first seen.
constexpr std::size_t kPreparedElements = 8 * 1024 * 1024;

}  // namespace

ToKeep PreparedCodec::to_keep(const Decision& decision, std::size_t count) const {
  ToKeep wanted;
  wanted.codec = of_tensor().specification();
  wanted.is_projected = projection != nullptr;
  wanted.residual = decision.error_feedback && !of_tensor().traits().lossless;
  if (projection != nullptr) wanted.memory_count = projection_state_floats(*projection, count);
  return wanted;
}

/// Whether there are kernels for every form that a call makes.
Status DeviceCodecs::check_forms(const DeviceCodec& codec) const {
  const std::size_t partial = is_ring_ ? world_ / 2 : 1;
  for (std::size_t summed = 1; summed <= partial; ++summed) {
    RINGPRESS_RETURN_IF_ERROR(codec.supports({summed, world_}, 1));
  }
  // Summaries of all ranks are merged at once, also where sums go round a ring.
  const bool adds_two = is_ring_ && codec.codec().agreement() == nullptr;
  return codec.supports({world_, world_}, adds_two ? 2 : world_ - 1);
}

/// A projection, and the codec of its sums.
Status DeviceCodecs::make_projection(DType dtype, ReduceOp op, const std::string& specification,
                                     PreparedCodec* made) const {
  RINGPRESS_ASSIGN_OR_RETURN(made->projection, device_.make_projection(specification, dtype, op));
  const Codec& inner = made->of_tensor().projection()->inner();
  if (inner.traits().identity) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(made->codec,
                             device_.make_codec(inner.specification(), inner.dtype(), inner.op()));
  return Status::ok();
}

/// The same on all ranks: of a codec that can have scales, where the device has kernels for them.
Status DeviceCodecs::make_scaled(DType dtype, ReduceOp op, const std::string& specification,
                                 PreparedCodec* made) const {
  auto scaled = compress_kernels::make_scaled_device_codec(device_, specification, dtype, op);
  if (scaled.status().code() == Code::kUnsupported) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(scaled.status());
  RINGPRESS_RETURN_IF_ERROR(check_forms(*scaled.value()));
  RINGPRESS_ASSIGN_OR_RETURN(made->scale_block, compress_kernels::block_of_scales(specification));
  made->scaled = std::move(scaled).value();
  return Status::ok();
}

Result<PreparedCodec> DeviceCodecs::make(DType dtype, ReduceOp op,
                                         const std::string& specification) const {
  PreparedCodec made;
  if (compress_kernels::projects(specification)) {
    RINGPRESS_RETURN_IF_ERROR(make_projection(dtype, op, specification, &made));
  } else {
    RINGPRESS_ASSIGN_OR_RETURN(made.codec, device_.make_codec(specification, dtype, op));
  }
  if (made.codec != nullptr) RINGPRESS_RETURN_IF_ERROR(check_forms(*made.codec));
  if (wants_scales_) RINGPRESS_RETURN_IF_ERROR(make_scaled(dtype, op, specification, &made));
  RINGPRESS_ASSIGN_OR_RETURN(made.takes_error_feedback,
                             compress_kernels::takes_error_feedback(specification));
  made.loss = loss_without_feedback(specification, false);
  return made;
}

Status DeviceCodecs::prepare(DType dtype, ReduceOp op, const std::string& specification) {
  if (specification == kNoCodec) return Status::ok();
  const auto make_one = [this](const std::string& name, DType type, ReduceOp operation) {
    return make(type, operation, name);
  };
  const auto found = cache_.find_or_make(specification, dtype, op, make_one);
  Status made = found.status();
  if (!made.is_ok() && made.code() != Code::kUnsupported) return made;
  const bool has_scales = made.is_ok() && found.value()->scaled != nullptr;
  have_scales_ |= has_scales;
  usable_ = combine_hash(usable_, (made.is_ok() ? 1U : 0U) + (has_scales ? 2U : 0U));
  if (problem_.is_ok()) problem_ = made;
  return Status::ok();
}

/// Rounds of an agreement on a chunk.
std::size_t DeviceCodecs::most_rounds() const {
  int rounds = 0;
  cache_.for_each([&rounds](const PreparedCodec& made) {
    const Agreement* const agreement =
        made.codec == nullptr ? nullptr : made.codec->codec().agreement();
    if (agreement != nullptr) rounds = std::max(rounds, agreement->rounds());
  });
  return static_cast<std::size_t>(rounds);
}

/// Room for the largest chunk in every form, what is agreed on for it, and what an operation on it
/// needs, whatever the type.
void DeviceCodecs::size_lane(LaneShape* shape, std::size_t world) const {
  const std::size_t tiles = std::max<std::size_t>(1, kLargestSlice / kTileElements / world);
  shape->chunk_elements = tiles * kTileElements;
  shape->region_bytes = 1;
  cache_.for_each([shape, world](const PreparedCodec& made) {
    if (made.codec == nullptr) return;
    const Codec& codec = made.codec->codec();
    shape->scratch_bytes =
        std::max(shape->scratch_bytes, made.codec->scratch_bytes(world, shape->chunk_elements));
    if (made.scaled != nullptr) {
      shape->scales_bytes = std::max({shape->scales_bytes, StreamScales::kScratchBytes,
                                      made.scaled->scratch_bytes(world, shape->chunk_elements)});
    }
    shape->agreement_bytes =
        std::max(shape->agreement_bytes, agreement_bytes(codec, shape->chunk_elements, world));
    for (std::size_t summed = 1; summed <= world; ++summed) {
      shape->region_bytes =
          std::max(shape->region_bytes, codec.wire_bytes(shape->chunk_elements, {summed, world}));
    }
  });
}

WorkspaceShape DeviceCodecs::room(std::size_t hosts, bool gathers) const {
  WorkspaceShape shape;
  const std::size_t rounds = most_rounds();
  shape.whole = is_ring_ ? ring_lane(world_, rounds) : sra_lane(world_, rounds);
  if (gathers) make_room_to_gather(world_, &shape.whole);
  size_lane(&shape.whole, world_);
  if (hosts > 0) {
    shape.cross = sra_lane(hosts, rounds);
    size_lane(&shape.cross, hosts);
  }
  cache_.for_each([&shape](const PreparedCodec& made) {
    if (made.projection == nullptr) return;
    shape.projected_bytes =
        std::max(shape.projected_bytes, projection_bytes(*made.projection, kPreparedElements));
  });
  return shape;
}

}  // namespace ringpress::nccl_plugin::interposer
