#include "nccl_plugin/session/calls/place_order.h"

namespace ringpress::nccl_plugin {

bool PlaceOrder::follow(CallsBy by, const CallPattern& pattern, std::size_t position,
                        std::uint64_t calls) {
  const Sequence sequence{by, pattern.cycle().id};
  if (followed_ == sequence) return false;
  followed_ = sequence;
  order_.clear();
  const std::size_t period = pattern.cycle().period();
  const std::size_t beginning =
      (static_cast<std::size_t>(calls % period) + period - position) % period;
  const std::size_t first = beginnings_.try_emplace(sequence, beginning).first->second;
  // (From the place that comes first on: several may be one tensor's.)
  for (std::size_t order = 0; order < period; ++order) {
    const std::size_t at = (order + period - first) % period;
    const TensorPlace tensor =
        by == CallsBy::kBuffer ? pattern.cycle().tensors[at] : TensorPlace{pattern.cycle().id, at};
    order_.try_emplace(KeptPlace{by, tensor.cycle, tensor.position}, order);
  }
  return true;
}

/// What follows may have other places then.
void PlaceOrder::forget(CallsBy by, std::uint64_t cycle) {
  beginnings_.erase({by, cycle});
  if (!followed_ || followed_->first != by) return;
  followed_.reset();
  order_.clear();
}

std::optional<std::size_t> PlaceOrder::of(const KeptPlace& place) const {
  const auto found = order_.find(place);
  if (found == order_.end()) return std::nullopt;
  return found->second;
}

}  // namespace ringpress::nccl_plugin
