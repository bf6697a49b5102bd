#include "nccl_plugin/plugin/pending_connects.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ring/factory.h"

namespace ringpress::nccl_plugin::plugin {

template <typename Condition>
std::vector<PendingConnects::Pending> PendingConnects::take_all(Condition&& condition) {
  std::vector<Pending> taken;
  const auto split = std::partition(all_.begin(), all_.end(),
                                    [&](const Pending& pending) { return !condition(pending); });
  std::move(split, all_.end(), std::back_inserter(taken));
  all_.erase(split, all_.end());
  return taken;
}

PendingConnects::Pending PendingConnects::take(const void* address, const LinkHandle& handle) {
  std::vector<Pending> forgotten;
  const std::lock_guard<std::mutex> lock(mutex_);
  forgotten = take_all(
      [now = Clock::now()](const Pending& pending) { return now >= pending.forgotten_at; });
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Pending& pending) {
    return pending.address == address && pending.handle == handle;
  });
  Pending taken;
  taken.address = address;
  taken.handle = handle;
  if (found != all_.end()) {
    taken = std::move(*found);
    all_.erase(found);
  }
  return taken;
}

void PendingConnects::give_up(const void* context) {
  std::vector<Pending> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  taken = take_all([&](const Pending& pending) { return pending.context == context; });
}

Result<std::unique_ptr<SendLink>> PendingConnects::advance(const void* context, const void* handle,
                                                           const LinkOptions& options) {
  LinkHandle bytes;
  std::memcpy(bytes.data(), handle, bytes.size());
  Pending pending = take(handle, bytes);
  pending.context = context;
  if (pending.connector == nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(pending.connector, ring::open_link(bytes, options));
  }
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<SendLink> link, pending.connector->connect());
  if (link != nullptr) return link;
  pending.forgotten_at = Clock::now() + options.timeout;
  const std::lock_guard<std::mutex> lock(mutex_);
  all_.push_back(std::move(pending));
  return link;
}

}  // namespace ringpress::nccl_plugin::plugin
