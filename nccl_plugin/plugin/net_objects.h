// What the pointers that net.h gives to NCCL, and gets back from it, point to.
#ifndef NCCL_PLUGIN_PLUGIN_NET_OBJECTS_H_
#define NCCL_PLUGIN_PLUGIN_NET_OBJECTS_H_

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "nccl_plugin/plugin/object.h"
#include "nccl_plugin/plugin/registered_memory.h"
#include "ringpress/internal/link.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// What init of version 11 and later gives for a communicator of NCCL's.
struct NetContext : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNetContext;
  NetContext() : Object(kKind) {}
};

struct NetRequest : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNetRequest;
  NetRequest() : Object(kKind) {}
  bool is_send = false;
  Object* connection = nullptr;  // A NetSender or a NetReceiver.
  Request* inner = nullptr;
  Status failure;
};

/// A connection's requests, all there from the start.
class NetRequests {
 public:
  NetRequests(Object* connection, bool is_send) {
    free_.reserve(all_.size());
    for (NetRequest& request : all_) {
      request.is_send = is_send;
      request.connection = connection;
      free_.push_back(&request);
    }
  }
  /// Null when none is free.
  NetRequest* take() {
    if (free_.empty()) return nullptr;
    NetRequest* request = free_.back();
    free_.pop_back();
    return request;
  }
  void give(NetRequest* request) {
    request->inner = nullptr;
    free_.push_back(request);
  }

 private:
  std::array<NetRequest, kMaxLinkRequests> all_{};
  std::vector<NetRequest*> free_;
};

struct NetListener : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNetListener;
  explicit NetListener(std::unique_ptr<LinkListener> opened)
      : Object(kKind), link(std::move(opened)) {}
  std::unique_ptr<LinkListener> link;
};

template <typename Link, ObjectKind the_kind>
struct NetConnection : Object {
  static constexpr ObjectKind kKind = the_kind;
  explicit NetConnection(std::unique_ptr<Link> opened)
      : Object(kKind), link(std::move(opened)), requests(this, kKind == ObjectKind::kNetSender) {}
  std::unique_ptr<Link> link;
  NetRequests requests;
  RegisteredMemory memory{ObjectKind::kNetMemory};
  bool is_failure_told = false;  // The first one is final.
};
using NetSender = NetConnection<SendLink, ObjectKind::kNetSender>;
using NetReceiver = NetConnection<ReceiveLink, ObjectKind::kNetReceiver>;

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NET_OBJECTS_H_
