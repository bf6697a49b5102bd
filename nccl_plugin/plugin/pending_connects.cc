#include "nccl_plugin/plugin/pending_connects.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ring/factory.h"

namespace ringpress::nccl_plugin::plugin {

PendingConnects::Pending PendingConnects::take(const void* address, const LinkHandle& handle) {
  std::vector<Pending> forgotten;  // Closed after the lock is open.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto split = std::partition(
      all_.begin(), all_.end(),
      [now = Clock::now()](const Pending& pending) { return now < pending.forgotten_at; });
  std::move(split, all_.end(), std::back_inserter(forgotten));
  all_.erase(split, all_.end());
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

Result<std::unique_ptr<SendLink>> PendingConnects::advance(const void* handle,
                                                           const LinkOptions& options) {
  LinkHandle bytes;
  std::memcpy(bytes.data(), handle, bytes.size());
  Pending pending = take(handle, bytes);
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
