// What is kept of tensors that are known by their place in a sequence of shapes, which is the same
// on all ranks: so all ranks keep, and forget, of the same calls.
#ifndef NCCL_PLUGIN_SESSION_CALLS_PLACED_TENSORS_H_
#define NCCL_PLUGIN_SESSION_CALLS_PLACED_TENSORS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/call_sequence.h"

namespace ringpress::nccl_plugin {

/// `Tensor` has bytes(), equal on all ranks. Of one communicator.
template <typename Tensor>
class PlacedTensors {
 public:
  using Key = std::pair<std::uint64_t, std::size_t>;  // CallCycle::id, and its place.
  // Sequences whose tensors are kept: that of the steps, and one that comes between them.
  static constexpr std::size_t kMostCycles = 2;

  explicit PlacedTensors(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// What belongs to sequences that are no more is dropped: of each call that is asked about.
  void forget(const CallPlaces& places) {
    for (const std::uint64_t cycle : places.shapes.forgotten()) drop(cycle);
  }
  /// The tensor of a call that has a place by shape: what was kept, or what make() says, which
  /// takes `bytes`. Null: that would be above the limit.
  template <typename Make>
  Tensor* at(const CallPlaces& places, std::size_t bytes, Make&& make) {
    const Key key{places.shapes.cycle().id, *places.by_shape};
    use(key.first);
    const auto found = known_.find(key);
    if (found != known_.end()) return &found->second;
    if (limit_bytes_ != 0 && (bytes > limit_bytes_ || bytes_ > limit_bytes_ - bytes)) {
      return nullptr;
    }
    Tensor* const made = &known_.emplace(key, make()).first->second;
    bytes_ += made->bytes();
    return made;
  }

  std::size_t bytes() const { return bytes_; }
  const std::map<Key, Tensor>& all() const { return known_; }
  /// The last used first.
  const std::vector<std::uint64_t>& cycles() const { return cycles_; }

  /// For a state: instead of what was kept,
  void set_cycles(std::vector<std::uint64_t> cycles) { cycles_ = std::move(cycles); }
  /// False: there is one.
  bool add(const Key& key, Tensor tensor) {
    bytes_ += tensor.bytes();
    return known_.emplace(key, std::move(tensor)).second;
  }
  /// Goes on with what `loaded` has.
  void adopt(PlacedTensors&& loaded) {
    known_ = std::move(loaded.known_);
    cycles_ = std::move(loaded.cycles_);
    bytes_ = std::exchange(loaded.bytes_, 0);
  }

 private:
  void use(std::uint64_t cycle) {
    if (!cycles_.empty() && cycles_.front() == cycle) return;
    cycles_.erase(std::remove(cycles_.begin(), cycles_.end(), cycle), cycles_.end());
    cycles_.insert(cycles_.begin(), cycle);
    while (cycles_.size() > kMostCycles) drop(cycles_.back());
  }

  void drop(std::uint64_t cycle) {
    cycles_.erase(std::remove(cycles_.begin(), cycles_.end(), cycle), cycles_.end());
    auto tensor = known_.lower_bound({cycle, 0});
    while (tensor != known_.end() && tensor->first.first == cycle) {
      bytes_ -= tensor->second.bytes();
      tensor = known_.erase(tensor);
    }
  }

  const std::size_t limit_bytes_;  // 0: none.
  std::size_t bytes_ = 0;
  std::map<Key, Tensor> known_;
  std::vector<std::uint64_t> cycles_;  // The last used first.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_PLACED_TENSORS_H_
