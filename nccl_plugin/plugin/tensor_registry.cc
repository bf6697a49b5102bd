#include "nccl_plugin/plugin/tensor_registry.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ringpress::nccl_plugin::plugin {
namespace {

std::atomic<std::uint64_t> last_number{0};

}  // namespace

TensorRegistry::TensorRegistry(int nodes, int ranks, ProfiledChannels profiled)
    : nodes_(nodes), ranks_(ranks), profiled_(profiled), number_(last_number.fetch_add(1) + 1) {}

std::uint64_t TensorRegistry::start_tensor(const TensorEvent& event) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = last_id_ + 1;
  make_room_for(id);
  events_[id % events_.size()] = {id, event};
  last_id_ = id;
  return id;
}

/// Grows rather than forget a tensor whose channels are still to come.
void TensorRegistry::make_room_for(std::uint64_t id) {
  const std::size_t most = last_begun_ == 0 ? kMostWithoutChannels : kMostRemembered;
  if (id - last_begun_ <= events_.size() || events_.size() >= most) return;
  std::vector<Entry> larger(2 * events_.size());
  for (const Entry& entry : events_) larger[entry.id % larger.size()] = entry;
  events_ = std::move(larger);
}

std::optional<TensorRegistry::Begun> TensorRegistry::begin(std::uint64_t tensor) {
  const std::lock_guard lock(mutex_);
  Entry& entry = events_[tensor % events_.size()];
  if (tensor == 0 || entry.id != tensor || entry.has_begun) return std::nullopt;
  entry.has_begun = true;
  last_begun_ = std::max(last_begun_, tensor);
  const Begun begun{entry.event, last_sequence_ != entry.event.sequence};
  last_sequence_ = entry.event.sequence;
  return begun;
}

namespace {

struct Registries {
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<TensorRegistry>>> open;
};

Registries& registries() {
  static Registries* const instance = new Registries;  // Lives until the process ends.
  return *instance;
}

/// The least of what the registries of so many nodes tell, of all communicators or of one.
std::optional<TensorPart> least_part(std::optional<std::uint64_t> comm_id, int nodes) {
  std::optional<TensorPart> least;
  for (const auto& [id, registry] : registries().open) {
    if (registry->nodes() != nodes || (comm_id && *comm_id != id)) continue;
    least = std::min(least.value_or(registry->part()), registry->part());
  }
  return least;
}

}  // namespace

std::shared_ptr<TensorRegistry> open_tensor_registry(std::uint64_t comm_id, int nodes, int ranks,
                                                     ProfiledChannels profiled) {
  auto registry = std::make_shared<TensorRegistry>(nodes, ranks, profiled);
  const std::lock_guard lock(registries().mutex);
  registries().open.emplace_back(comm_id, registry);
  return registry;
}

void close_tensor_registry(const std::shared_ptr<TensorRegistry>& registry) {
  const std::lock_guard lock(registries().mutex);
  std::erase_if(registries().open, [&](const auto& open) { return open.second == registry; });
}

TensorPart profiled_part(std::optional<std::uint64_t> comm_id, int nodes) {
  const std::lock_guard lock(registries().mutex);
  std::optional<TensorPart> part;
  if (comm_id) part = least_part(comm_id, nodes);
  if (!part) part = least_part(std::nullopt, nodes);
  return part.value_or(TensorPart::kNothing);
}

}  // namespace ringpress::nccl_plugin::plugin
