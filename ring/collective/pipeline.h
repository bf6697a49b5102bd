// What ring and sra share: the order of work, and memory that is being sent.
#ifndef RING_COLLECTIVE_PIPELINE_H_
#define RING_COLLECTIVE_PIPELINE_H_

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "ringpress/internal/collective.h"

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
  SendWindow(const CollectiveContext& context, std::size_t first_slot, std::size_t slots,
             std::size_t bytes)
      : mesh_(context.mesh),
        first_slot_(first_slot),
        bytes_(bytes),
        pending_(slots, context.memory) {}

  /// Waits until all sends of the slot's last use are done; gives its memory, or null if slots have
  /// none.
  Result<std::byte*> acquire(std::size_t index) {
    RINGPRESS_RETURN_IF_ERROR(finish(pending_[index % pending_.size()]));
    if (bytes_ == 0) return static_cast<std::byte*>(nullptr);
    RINGPRESS_ASSIGN_OR_RETURN(const Buffer memory,
                               mesh_->staging(first_slot_ + index % pending_.size(), bytes_));
    return memory.data;
  }

  /// Holds a send that has begun, as part of slot `index`.
  Status keep(std::size_t index, const Result<Request*>& send) {
    if (!send.is_ok()) return send.status();
    pending_[index % pending_.size()].push_back(send.value());
    return Status::ok();
  }

  /// Waits for all sends.
  Status drain() {
    for (auto& slot : pending_) RINGPRESS_RETURN_IF_ERROR(finish(slot));
    return Status::ok();
  }

 private:
  Status finish(std::pmr::vector<Request*>& sends) {
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
  std::pmr::vector<std::pmr::vector<Request*>> pending_;
};

/// Receives that have been posted and not yet been waited for: one for each row (a peer or a stage)
/// and chunk, of at most `window` chunks in a row at a time.
class ReceiveWindow {
 public:
  ReceiveWindow(const CollectiveContext& context, std::size_t rows, std::size_t window)
      : window_(window), requests_(rows * window, context.memory) {}

  void put(std::size_t row, std::size_t chunk, Request* request) {
    Request*& place = requests_[row * window_ + chunk % window_];
    RINGPRESS_EXPECTS(place == nullptr, "more chunks are under way than a window has room for");
    place = request;
  }
  Request* take(std::size_t row, std::size_t chunk) {
    return std::exchange(requests_[row * window_ + chunk % window_], nullptr);
  }

 private:
  std::size_t window_;
  std::pmr::vector<Request*> requests_;
};

/// What has arrived from several ranks for one hop, in the order of summation. Used again for every
/// chunk of a call.
class Arrivals {
 public:
  Arrivals(const CollectiveContext& context, std::size_t most)
      : mesh_(context.mesh),
        views_(context.memory),
        wires_(context.memory),
        wire_sizes_(context.memory) {
    views_.reserve(most);
    wires_.reserve(most);
    wire_sizes_.reserve(most);
  }

  /// Waits for `view`, which is the next in order.
  Status wait_for(Request* view) {
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh_->wait(view));
    views_.push_back(view);
    wires_.push_back(payload.data);
    wire_sizes_.push_back(payload.bytes);
    return Status::ok();
  }
  std::span<const std::byte* const> wires() const { return wires_; }
  std::span<const std::size_t> wire_sizes() const { return wire_sizes_; }
  /// Gives all views back.
  void release() {
    for (Request* view : views_) mesh_->release(view);
    views_.clear();
    wires_.clear();
    wire_sizes_.clear();
  }

 private:
  Mesh* mesh_;
  std::pmr::vector<Request*> views_;
  std::pmr::vector<const std::byte*> wires_;
  std::pmr::vector<std::size_t> wire_sizes_;
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_PIPELINE_H_
