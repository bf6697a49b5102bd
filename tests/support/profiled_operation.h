// An operation as NCCL tells its profiler of it and hands over its pieces, without a network.
#ifndef TESTS_SUPPORT_PROFILED_OPERATION_H_
#define TESTS_SUPPORT_PROFILED_OPERATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include "nccl_plugin/plugin/profiled_tensors.h"
#include "nccl_plugin/plugin/tensor_registry.h"
#include "tests/support/collnet_operations.h"

namespace ringpress::testing {

using nccl_plugin::plugin::ProfiledTensors;
using nccl_plugin::plugin::TensorEvent;
using nccl_plugin::plugin::TensorPart;
using nccl_plugin::plugin::TensorPiece;
using nccl_plugin::plugin::TensorRegistry;

/// How a tensor is cut on a node of one rank.
struct Layout {
  TensorEvent event;
  std::size_t channels = 1;
  std::size_t chunk_bytes = 32768;

  std::size_t steps() const {
    const std::size_t loop = channels * chunk_bytes;
    return (event.count * event.element_bytes + loop - 1) / loop;
  }
};

class ProfiledOperation {
 public:
  /// `steps_too_many`: that the profiler is told of, and that never come.
  ProfiledOperation(ProxyArgsPool* pool, const Layout& layout, std::size_t steps_too_many = 0)
      : pool_(pool),
        layout_(layout),
        told_steps_(layout.steps() + steps_too_many),
        send_(pool->take()),
        receive_(pool->take()) {}
  ProfiledOperation(ProfiledOperation&& other) noexcept
      : pool_(other.pool_),
        layout_(other.layout_),
        told_steps_(other.told_steps_),
        send_(other.send_),
        receive_(other.receive_),
        taken_(other.taken_) {
    other.pool_ = nullptr;
  }
  ~ProfiledOperation() {
    if (pool_ == nullptr) return;
    pool_->give_back(send_);
    pool_->give_back(receive_);
  }
  ProfiledOperation(const ProfiledOperation&) = delete;
  ProfiledOperation& operator=(const ProfiledOperation&) = delete;
  ProfiledOperation& operator=(ProfiledOperation&&) = delete;

  const Layout& layout() const { return layout_; }
  std::size_t groups() const {
    return (layout_.channels + kProxyGroupChannels - 1) / kProxyGroupChannels;
  }
  std::size_t piece_count() const { return layout_.steps() * groups(); }
  std::size_t taken() const { return taken_; }
  std::size_t channels_of(std::size_t piece) const {
    const std::size_t first = piece % groups() * kProxyGroupChannels;
    return std::min(kProxyGroupChannels, layout_.channels - first);
  }

  /// Its Coll event and its ProxyOp events.
  std::uint64_t tell(TensorRegistry* registry, ProfiledTensors* profiled) {
    const std::uint64_t tensor = registry->start_tensor(layout_.event);
    tell_as(tensor, registry, profiled);
    return tensor;
  }
  void tell_as(std::uint64_t tensor, TensorRegistry* registry, ProfiledTensors* profiled) {
    const bool all = registry->profiled() == nccl_plugin::plugin::ProfiledChannels::kAll;
    for (std::size_t sub = 0; sub < (all ? layout_.channels : 1); ++sub) {
      for (ProxyArgs* args : {send_, receive_}) {
        profiled->add_channel(registry, {tensor, static_cast<unsigned>(sub), told_steps_,
                                         layout_.chunk_bytes, &args->subs[sub].event});
      }
    }
  }
  void forget(ProfiledTensors* profiled) {
    for (std::size_t sub = 0; sub < layout_.channels; ++sub)
      profiled->forget(&send_->subs[sub].event);
  }

  /// The place for the next piece's request.
  void** next_request() {
    const std::size_t last = taken_ % groups() * kProxyGroupChannels + channels_of(taken_) - 1;
    return &send_->subs[last].requests[taken_++ / groups() % kProxySteps];
  }
  /// Its next piece.
  std::optional<TensorPiece> take(ProfiledTensors* profiled, std::size_t workers = 1) {
    return take_bytes(profiled, channels_of(taken_) * layout_.chunk_bytes, workers);
  }
  std::optional<TensorPiece> take_bytes(ProfiledTensors* profiled, std::size_t bytes,
                                        std::size_t workers = 1,
                                        TensorPart part = TensorPart::kWhole) {
    return profiled->take_piece({next_request(), bytes, workers, part});
  }

 private:
  ProxyArgsPool* pool_;
  const Layout layout_;
  const std::size_t told_steps_;
  ProxyArgs* const send_;
  ProxyArgs* const receive_;
  std::size_t taken_ = 0;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_PROFILED_OPERATION_H_
