// What ring and sra share: the order of work, and memory that is being sent.
#ifndef RING_COLLECTIVE_PIPELINE_H_
#define RING_COLLECTIVE_PIPELINE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ring/collective/schedule.h"
#include "ringpress/collective.h"

namespace ringpress::ring {

/// Does stage s of chunk c at tick c + s * lag. A frame that stage s sends is awaited by the peer's
/// stage s + 1, so it has `lag` ticks to travel while other chunks are encoded and decoded. Every
/// rank works in the same order, so frames between two ranks match in order.
///
/// No deadlock: whatever a rank waits for, a frame or the memory of a send of 2 * lag chunks ago
/// (which a peer gives back as soon as it has used it, in its next stage), a peer has done at least
/// `lag` ticks before. So the rank that is furthest behind never waits for one that waits for it.
template <typename Stage>
Status run_pipeline(std::size_t stages, std::size_t chunks, std::size_t lag, Stage&& stage) {
  if (chunks == 0) return Status::ok();
  const std::size_t ticks = chunks + (stages - 1) * lag;
  for (std::size_t tick = 0; tick < ticks; ++tick) {
    for (std::size_t s = 0; s < stages && s * lag <= tick; ++s) {
      const std::size_t chunk = tick - s * lag;
      if (chunk < chunks) RINGPRESS_RETURN_IF_ERROR(stage(s, chunk));
    }
  }
  return Status::ok();
}

/// Memory slots that frames are sent from, used in turn. A slot is handed out again once its sends
/// are done. Also holds sends from other memory, to bound how many are under way.
class SendWindow {
 public:
  /// `slots` slots of the mesh's staging memory from number `first_slot` on. bytes == 0: no memory,
  /// only bookkeeping.
  SendWindow(Mesh* mesh, std::size_t first_slot, std::size_t slots, std::size_t bytes)
      : mesh_(mesh), first_slot_(first_slot), bytes_(bytes), pending_(slots) {}

  /// Waits until the sends that used slot `index` are done; gives the slot's memory.
  Result<std::byte*> acquire(std::size_t index) {
    RINGPRESS_RETURN_IF_ERROR(finish(pending_[index % pending_.size()]));
    if (bytes_ == 0) return static_cast<std::byte*>(nullptr);
    RINGPRESS_ASSIGN_OR_RETURN(const Buffer memory,
                               mesh_->staging(first_slot_ + index % pending_.size(), bytes_));
    return memory.data;
  }

  /// Sends `payload` as part of slot `index`.
  Status send(std::size_t index, int peer, ConstBuffer payload, const FrameLabel& label) {
    RINGPRESS_ASSIGN_OR_RETURN(Request * request, mesh_->isend(peer, payload, label));
    pending_[index % pending_.size()].push_back(request);
    return Status::ok();
  }

  /// Waits for all sends.
  Status drain() {
    for (auto& slot : pending_) RINGPRESS_RETURN_IF_ERROR(finish(slot));
    return Status::ok();
  }

 private:
  Status finish(std::vector<Request*>& sends) {
    for (Request* request : sends) {
      RINGPRESS_RETURN_IF_ERROR(mesh_->wait(request).status());
      mesh_->release(request);
    }
    sends.clear();
    return Status::ok();
  }

  Mesh* mesh_;
  std::size_t first_slot_;
  std::size_t bytes_;
  std::vector<std::vector<Request*>> pending_;
};

/// The caller's tensors as bytes, addressed by the index of an element in the whole tensor. A
/// buffer that holds one shard only begins at that shard's first element: its origin.
struct TensorView {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t element_bytes = 1;
  std::size_t send_origin = 0;
  std::size_t receive_origin = 0;

  const std::byte* send_at(std::size_t element) const {
    return send + (element - send_origin) * element_bytes;
  }
  std::byte* receive_at(std::size_t element) const {
    return receive + (element - receive_origin) * element_bytes;
  }
};

/// Names the random bits of a chunk.
inline RandomKey random_key(const CollectiveContext& context, std::size_t first_element) {
  return {context.random_seed, context.call.sequence,
          static_cast<std::uint32_t>(context.mesh->rank()), first_element};
}

inline float* residual_at(const CollectiveContext& context, std::size_t element) {
  return context.residual == nullptr ? nullptr : context.residual + element;
}

/// True if frames can be sent from and received into the caller's memory as they are.
inline bool sends_in_place(const CollectiveContext& context) {
  return context.codec->traits().identity && context.input_scale == 1;
}

/// Shards begin at multiples of it: whole tiles, so that blocks are cut alike whatever the number
/// of ranks; a cache line for an identity codec, so that small tensors spread evenly.
inline std::size_t shard_alignment(const Codec& codec) {
  return codec.traits().identity ? 64 : kTileElements;
}

/// What an average divides by.
inline std::size_t divisor_of(const CollectiveContext& context) {
  return context.codec->op() == ReduceOp::kAvg ? static_cast<std::size_t>(context.mesh->size()) : 1;
}

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_PIPELINE_H_
