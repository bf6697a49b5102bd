#include "nccl_plugin/plugin/net.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/plugin/device.h"
#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/pending_connects.h"
#include "nccl_plugin/plugin/report.h"
#include "ring/factory.h"
#include "ringpress/settings.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

static_assert(kMaxLinkRequests >= abi::kMaxRequests);
static_assert(sizeof(LinkHandle) == abi::kHandleBytes);

/// What a pointer that NCCL hands back points to. Each object begins with its kind.
enum class Kind : std::uint32_t {
  kListener = 0x52504c31,
  kSender = 0x52505331,
  kReceiver = 0x52505231,
  kRequest = 0x52505131,
};

struct Object {
  Kind kind;
};

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kListener:
      return "listening communicator";
    case Kind::kSender:
      return "sending communicator";
    case Kind::kReceiver:
      return "receiving communicator";
    case Kind::kRequest:
      return "request";
  }
  return "object";
}

struct NetRequest : Object {
  Object* connection = nullptr;
  Request* inner = nullptr;
  Status failure;
};

/// A connection's requests, all there from the start.
class Requests {
 public:
  explicit Requests(Object* connection) {
    free_.reserve(all_.size());
    for (NetRequest& request : all_) {
      request.kind = Kind::kRequest;
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

struct Listener : Object {
  std::unique_ptr<LinkListener> link;
};

template <typename Link, Kind the_kind>
struct Connection : Object {
  static constexpr Kind kKind = the_kind;
  explicit Connection(std::unique_ptr<Link> opened)
      : Object{the_kind}, link(std::move(opened)), requests(this) {}
  std::unique_ptr<Link> link;
  Requests requests;
};
using Sender = Connection<SendLink, Kind::kSender>;
using Receiver = Connection<ReceiveLink, Kind::kReceiver>;

Status check_kind(const void* object, Kind kind) {
  if (object == nullptr) {
    return Status(Code::kInvalidArgument, std::string("the ") + kind_name(kind) + " is null");
  }
  if (static_cast<const Object*>(object)->kind != kind) {
    return Status(Code::kInvalidArgument, std::string("not a ") + kind_name(kind));
  }
  return Status::ok();
}

Status check_place(const void* place, const char* name) {
  if (place != nullptr) return Status::ok();
  return Status(Code::kInvalidArgument, std::string(name) + " is null");
}

Status check_message(const void* data, std::size_t bytes) {
  if (data != nullptr || bytes == 0) return Status::ok();
  return Status(Code::kInvalidArgument, "a message of " + std::to_string(bytes) + " bytes at null");
}

/// What the settings said at the first net_init().
struct Configuration {
  std::mutex mutex;
  std::optional<LinkOptions> options;
};

Configuration& configuration() {
  static Configuration* const kept = new Configuration;
  return *kept;
}

Result<LinkOptions> link_options() {
  const std::lock_guard<std::mutex> lock(configuration().mutex);
  if (configuration().options) return *configuration().options;
  return Status(Code::kInvalidUsage, "the network has not been initialised");
}

PendingConnects& pending_connects() {
  static PendingConnects* const pending = new PendingConnects;
  return *pending;
}

/// Tries to finish one request of a connection.
template <typename Peer>
Status test_request(NetRequest& request, int* done, int* size) {
  if (!request.failure.is_ok()) return request.failure;
  auto& connection = *static_cast<Peer*>(request.connection);
  const Result<Completion> tested = connection.link->test(request.inner);
  if (!tested.is_ok()) return request.failure = tested.status();
  if (!tested.value().done) return Status::ok();
  *done = 1;
  if (size != nullptr) *size = static_cast<int>(tested.value().view.bytes);
  connection.requests.give(&request);
  return Status::ok();
}

/// `start` gives the link's request, or null while it has no room.
template <typename Peer, typename Start>
Status start_request(Peer& connection, void** request, Start&& start) {
  *request = nullptr;
  NetRequest* const taken = connection.requests.take();
  if (taken == nullptr) return Status::ok();
  const Result<Request*> started = start(*connection.link);
  if (!started.is_ok() || started.value() == nullptr) {
    connection.requests.give(taken);
    return started.status();
  }
  taken->inner = started.value();
  taken->failure = Status::ok();
  *request = taken;
  return Status::ok();
}

template <typename Closed>
Status close(void* comm, Kind kind) {
  if (comm == nullptr) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(check_kind(comm, kind));
  delete static_cast<Closed*>(comm);
  return Status::ok();
}

}  // namespace

Status net_init(abi::Logger logger) {
  set_logger(logger);
  const std::lock_guard<std::mutex> lock(configuration().mutex);
  if (configuration().options) return Status::ok();
  const Status next = next_net_status();
  if (!next.is_ok()) {
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet, "%s; ringpress's own TCP is used",
        next.message().c_str());
  }
  const Settings settings = settings_from_environment();
  if (!settings.mistake.empty()) {
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet, "%s; the default is used",
        settings.mistake.c_str());
  }
  LinkOptions options;
  options.extra_secret = settings.secret;
  options.timeout = std::chrono::milliseconds(settings.timeout_ms);
  options.sockets = settings.sockets_per_peer;
  configuration().options = options;
  log(abi::LogLevel::kInfo, abi::kLogInit | abi::kLogNet,
      "version %d.%d.%d, network over TCP, %d sockets a connection, %zu devices",
      RINGPRESS_VERSION_MAJOR, RINGPRESS_VERSION_MINOR, RINGPRESS_VERSION_PATCH, options.sockets,
      devices().size());
  return Status::ok();
}

Status net_devices(int* count) {
  RINGPRESS_RETURN_IF_ERROR(check_place(count, "the count of devices"));
  RINGPRESS_RETURN_IF_ERROR(link_options().status());
  *count = static_cast<int>(devices().size());
  return Status::ok();
}

Status net_listen(int device, void* handle, void** listen_comm) {
  RINGPRESS_RETURN_IF_ERROR(check_place(listen_comm, "the place of the communicator"));
  *listen_comm = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_place(handle, "the handle"));
  RINGPRESS_ASSIGN_OR_RETURN(LinkOptions options, link_options());
  RINGPRESS_ASSIGN_OR_RETURN(const Device* const found, device_at(device));
  options.interface = "=" + found->name;
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<LinkListener> link, ring::listen_for_links(options));
  std::memcpy(handle, link->handle().data(), abi::kHandleBytes);
  *listen_comm = new Listener{{Kind::kListener}, std::move(link)};
  return Status::ok();
}

Status net_connect(int device, const void* handle, void** send_comm) {
  RINGPRESS_RETURN_IF_ERROR(check_place(send_comm, "the place of the communicator"));
  *send_comm = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_place(handle, "the handle"));
  RINGPRESS_RETURN_IF_ERROR(device_at(device).status());
  RINGPRESS_ASSIGN_OR_RETURN(const LinkOptions options, link_options());
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<SendLink> link,
                             pending_connects().advance(handle, options));
  if (link != nullptr) *send_comm = new Sender(std::move(link));
  return Status::ok();
}

Status net_accept(void* listen_comm, void** receive_comm) {
  RINGPRESS_RETURN_IF_ERROR(check_place(receive_comm, "the place of the communicator"));
  *receive_comm = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_kind(listen_comm, Kind::kListener));
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<ReceiveLink> link,
                             static_cast<Listener*>(listen_comm)->link->accept());
  if (link != nullptr) *receive_comm = new Receiver(std::move(link));
  return Status::ok();
}

Status net_register(void* comm, void* data, int type, void** mhandle) {
  RINGPRESS_RETURN_IF_ERROR(check_place(mhandle, "the place of the memory handle"));
  *mhandle = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_place(comm, "the communicator"));
  if (type != abi::kPointerHost) {
    return Status(Code::kUnsupported, "memory of type " + std::to_string(type) +
                                          ": this network takes host memory only");
  }
  *mhandle = data != nullptr ? data : comm;  // Only to be some value that is not null.
  return Status::ok();
}

Status net_deregister(void* comm) {
  return check_place(comm, "the communicator");
}

Status net_isend(void* send_comm, const void* data, std::size_t bytes, void** request) {
  RINGPRESS_RETURN_IF_ERROR(check_place(request, "the place of the request"));
  RINGPRESS_RETURN_IF_ERROR(check_kind(send_comm, Kind::kSender));
  RINGPRESS_RETURN_IF_ERROR(check_message(data, bytes));
  if (bytes > kMaxMessageBytes) {
    return Status(Code::kInvalidArgument, "a message of " + std::to_string(bytes) +
                                              " bytes: at most " +
                                              std::to_string(kMaxMessageBytes) + " are possible");
  }
  return start_request(*static_cast<Sender*>(send_comm), request,
                       [&](SendLink& link) { return link.isend(ConstBuffer(data, bytes)); });
}

Status net_irecv(void* receive_comm, void* data, std::size_t bytes, void** request) {
  RINGPRESS_RETURN_IF_ERROR(check_place(request, "the place of the request"));
  RINGPRESS_RETURN_IF_ERROR(check_kind(receive_comm, Kind::kReceiver));
  RINGPRESS_RETURN_IF_ERROR(check_message(data, bytes));
  const Buffer into{static_cast<std::byte*>(data), std::min(bytes, kMaxMessageBytes)};
  return start_request(*static_cast<Receiver*>(receive_comm), request,
                       [&](ReceiveLink& link) { return link.irecv(into); });
}

Status net_test(void* request, int* done, int* size) {
  RINGPRESS_RETURN_IF_ERROR(check_place(done, "the place of the answer"));
  *done = 0;
  RINGPRESS_RETURN_IF_ERROR(check_kind(request, Kind::kRequest));
  auto& tested = *static_cast<NetRequest*>(request);
  if (tested.inner == nullptr) return Status(Code::kInvalidUsage, "the request is done already");
  return tested.connection->kind == Kind::kSender ? test_request<Sender>(tested, done, size)
                                                  : test_request<Receiver>(tested, done, size);
}

Status net_close_send(void* send_comm) {
  return close<Sender>(send_comm, Kind::kSender);
}

Status net_close_receive(void* receive_comm) {
  return close<Receiver>(receive_comm, Kind::kReceiver);
}

Status net_close_listen(void* listen_comm) {
  return close<Listener>(listen_comm, Kind::kListener);
}

}  // namespace ringpress::nccl_plugin::plugin
