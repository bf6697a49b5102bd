// Two workers' models, or what a codec leaves of how far they are from a base that all ranks have
// in common, and their mean. And the memory that this takes.
#ifndef NCCL_PLUGIN_GOSSIP_MODEL_EXCHANGE_H_
#define NCCL_PLUGIN_GOSSIP_MODEL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nccl_plugin/gossip/models.h"
#include "nccl_plugin/gossip/options.h"
#include "nccl_plugin/gossip/peers.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::gossip {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> bytes_of(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

struct Exchanged {
  bool is_partial = false;  // Some values were too far apart for the codec, and stay as they are.
  std::uint64_t sent_bytes = 0;
};

/// Of one worker. All ranks keep their base and average together.
class ModelExchange {
 public:
  ModelExchange(const GossipOptions& options, std::unique_ptr<Models> models);

  Models& models() const { return *models_; }
  /// Before all others.
  Status allocate();

  /// How far the model is from what it was at keep_reference().
  Result<compress_kernels::Change> measure_change(const void* model) const {
    return models_->measure_change(span_of(model), reference_.get());
  }
  /// The same from itself: whether it is finite.
  Result<compress_kernels::Change> look_at(const void* model) const {
    return models_->measure_change(span_of(model), model);
  }
  Result<double> value_at(const void* model, std::size_t element) const;

  Status keep_reference(const void* model);
  /// Rank 0's model is the base.
  Status keep_base(Peers& peers, const void* model);
  /// Moves the model and that of `peer` towards their mean. `step` is the same on both.
  Status exchange(Peers& peers, int peer, void* model, std::uint64_t step, Exchanged* exchanged);
  /// All models are their mean, and so is the base.
  Status average(Peers& peers, void* model);

 private:
  ModelSpan span_of(const void* model, std::size_t first = 0) const;
  ModelSpan part_of(const void* model, std::size_t first, std::size_t most) const;
  Status exchange_values(Peers& peers, int peer, const ModelSpan& chunk, Exchanged* exchanged);
  Status exchange_differences(Peers& peers, int peer, const ModelSpan& chunk,
                              const RandomKey& random, Exchanged* exchanged);
  Status move_base(const void* model);
  float* base() const { return reinterpret_cast<float*>(base_.get()); }

  const GossipOptions options_;
  const std::unique_ptr<Models> models_;
  const bool is_identity_;  // Models are sent as they are.
  std::shared_ptr<std::byte> reference_;
  std::shared_ptr<std::byte> base_;  // Null if models are sent as they are, and so what follows.
  std::shared_ptr<std::byte> own_, theirs_;  // Differences of a chunk, float32.
  std::shared_ptr<std::byte> sent_;          // A chunk's wire.
  std::shared_ptr<std::byte> received_;      // The same, or a chunk of a model.
  std::shared_ptr<std::byte> sums_;          // Doubles, for a mean of all.
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_MODEL_EXCHANGE_H_
