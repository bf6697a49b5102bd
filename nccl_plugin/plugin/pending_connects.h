// Connections that NCCL is opening: it calls connect with the same handle until there is one, and
// gives no other sign that two calls belong together. Nothing is stored in the handle, for its
// bytes come from another process.
#ifndef NCCL_PLUGIN_PLUGIN_PENDING_CONNECTS_H_
#define NCCL_PLUGIN_PLUGIN_PENDING_CONNECTS_H_

#include <memory>
#include <mutex>
#include <vector>

#include "ringpress/internal/link.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/transport.h"

namespace ringpress::nccl_plugin::plugin {

/// Threads: any. No lock is held while sockets are used.
class PendingConnects {
 public:
  /// Begins, or goes on with, the connection of the handle at this address. Null: call again.
  /// Connections that nobody asked after for as long as connecting may take are given up.
  /// `context`: who begins it, for give_up(); may be null.
  Result<std::unique_ptr<SendLink>> advance(const void* context, const void* handle,
                                            const LinkOptions& options);
  /// Those that this context has begun.
  void give_up(const void* context);

 private:
  struct Pending {
    const void* context = nullptr;
    const void* address = nullptr;
    LinkHandle handle{};
    Deadline forgotten_at{};
    std::unique_ptr<LinkConnector> connector;
  };

  /// The one with this address and handle, taken out, or one without a connector.
  Pending take(const void* address, const LinkHandle& handle);
  /// Takes out those that meet a condition, to be closed when the lock is open.
  template <typename Condition>
  std::vector<Pending> take_all(Condition&& condition);

  std::mutex mutex_;
  std::vector<Pending> all_;
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_PENDING_CONNECTS_H_
