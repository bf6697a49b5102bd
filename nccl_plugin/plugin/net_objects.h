// What the pointers that net.h gives to NCCL, and gets back from it, point to.
#ifndef NCCL_PLUGIN_PLUGIN_NET_OBJECTS_H_
#define NCCL_PLUGIN_PLUGIN_NET_OBJECTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ringpress/link.h"
#include "ringpress/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Each object begins with its kind, so that a pointer to another one is noticed.
enum class NetKind : std::uint32_t {
  kListener = 0x52504c31,
  kSender = 0x52505331,
  kReceiver = 0x52505231,
  kRequest = 0x52505131,
};

struct NetObject {
  NetKind kind;
};

inline const char* net_kind_name(NetKind kind) {
  switch (kind) {
    case NetKind::kListener:
      return "listening communicator";
    case NetKind::kSender:
      return "sending communicator";
    case NetKind::kReceiver:
      return "receiving communicator";
    case NetKind::kRequest:
      return "request";
  }
  return "object";
}

struct NetRequest : NetObject {
  NetObject* connection = nullptr;
  Request* inner = nullptr;
  Status failure;
};

/// A connection's requests, all there from the start.
class NetRequests {
 public:
  explicit NetRequests(NetObject* connection) {
    free_.reserve(all_.size());
    for (NetRequest& request : all_) {
      request.kind = NetKind::kRequest;
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

struct NetListener : NetObject {
  std::unique_ptr<LinkListener> link;
};

template <typename Link, NetKind the_kind>
struct NetConnection : NetObject {
  explicit NetConnection(std::unique_ptr<Link> opened)
      : NetObject{the_kind}, link(std::move(opened)), requests(this) {}
  std::unique_ptr<Link> link;
  NetRequests requests;
};
using NetSender = NetConnection<SendLink, NetKind::kSender>;
using NetReceiver = NetConnection<ReceiveLink, NetKind::kReceiver>;

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NET_OBJECTS_H_
