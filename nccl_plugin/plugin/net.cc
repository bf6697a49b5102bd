#include "nccl_plugin/plugin/net.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "nccl_plugin/plugin/device.h"
#include "nccl_plugin/plugin/nccl_encryption.h"
#include "nccl_plugin/plugin/net_objects.h"
#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/pending_connects.h"
#include "nccl_plugin/plugin/report.h"
#include "ring/factory.h"
#include "ringpress/internal/settings.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

static_assert(kMaxLinkRequests >= abi::kMaxRequests);
static_assert(sizeof(LinkHandle) == abi::kHandleBytes);

Status check_place(const void* place, const char* name) {
  if (place != nullptr) return Status::ok();
  return Status(Code::kInvalidArgument, std::string(name) + " is null");
}

Status check_buffer(const NetBuffer& buffer) {
  const std::size_t bytes = buffer.bytes;
  if (buffer.data == nullptr && bytes > 0) {
    return Status(Code::kInvalidArgument,
                  "a message of " + std::to_string(bytes) + " bytes at null");
  }
  return check_registered(buffer.mhandle, ObjectKind::kNetMemory, {buffer.data, bytes});
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

/// What a connection's failure returns.
template <typename Peer>
Status fail(Peer& connection, const Status& failure, bool* is_told) {
  *is_told = std::exchange(connection.is_failure_told, true);
  return failure;
}

/// Tries to finish one request of a connection.
template <typename Peer>
Status test_request(NetRequest& request, int* done, int* size, bool* is_told) {
  auto& connection = *static_cast<Peer*>(request.connection);
  if (!request.failure.is_ok()) return fail(connection, request.failure, is_told);
  const Result<Completion> tested = connection.link->test(request.inner);
  if (!tested.is_ok()) {
    request.failure = tested.status();
    return fail(connection, request.failure, is_told);
  }
  if (!tested.value().done) return Status::ok();
  *done = 1;
  if (size != nullptr) *size = static_cast<int>(tested.value().view.bytes);
  connection.requests.give(&request);
  return Status::ok();
}

/// `start` gives the link's request, or null while it has no room.
template <typename Peer, typename Start>
Status start_request(Peer& connection, void** request, bool* is_told, Start&& start) {
  *request = nullptr;
  NetRequest* const taken = connection.requests.take();
  if (taken == nullptr) return Status::ok();
  const Result<Request*> started = start(*connection.link);
  if (!started.is_ok() || started.value() == nullptr) {
    connection.requests.give(taken);
    return started.is_ok() ? Status::ok() : fail(connection, started.status(), is_told);
  }
  taken->inner = started.value();
  taken->failure = Status::ok();
  *request = taken->handle();
  return Status::ok();
}

/// Of a connection of either direction.
Result<RegisteredMemory*> memory_of(const void* comm) {
  if (NetReceiver* const receiver = object_as<NetReceiver>(comm)) return &receiver->memory;
  RINGPRESS_ASSIGN_OR_RETURN(NetSender* const sender, find_object<NetSender>(comm));
  return &sender->memory;
}

template <typename Closed>
Status close(void* comm) {
  if (comm == nullptr) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const Closed* const closed, find_object<Closed>(comm));
  delete closed;
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
  const Settings settings = read_settings();
  if (!settings.mistake.empty()) {
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet, "%s; the default is used",
        settings.mistake.c_str());
  }
  LinkOptions options;
  options.extra_secret = settings.secret;
  options.is_encrypted = is_encrypted(settings);
  options.timeout = settings.timeout;
  options.sockets = settings.sockets_per_peer;
  options.congestion = settings.congestion;
  options.address.family = settings.address.family;
  configuration().options = options;
  log(abi::LogLevel::kInfo, abi::kLogInit | abi::kLogNet,
      "version " RINGPRESS_VERSION ", network over TCP, %d sockets a connection, %zu devices",
      options.sockets, devices().size());
  return Status::ok();
}

bool is_net_initialised() {
  return link_options().is_ok();
}

Status net_init_context(void** ctx, abi::Logger logger) {
  if (ctx != nullptr) *ctx = nullptr;
  RINGPRESS_RETURN_IF_ERROR(net_init(logger));
  if (ctx != nullptr) *ctx = (new NetContext)->handle();
  return Status::ok();
}

Status net_finalize(void* ctx) {
  if (ctx == nullptr) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const NetContext* const context, find_object<NetContext>(ctx));
  pending_connects().give_up(ctx);
  delete context;
  return Status::ok();
}

Status net_devices(int* count) {
  RINGPRESS_RETURN_IF_ERROR(check_place(count, "the count of devices"));
  RINGPRESS_RETURN_IF_ERROR(link_options().status());
  // Without a device NCCL takes its own network.
  *count = is_network_left_to_nccl() ? 0 : static_cast<int>(devices().size());
  return Status::ok();
}

Status net_listen(int device, void* handle, void** listen_comm) {
  RINGPRESS_RETURN_IF_ERROR(check_place(listen_comm, "the place of the communicator"));
  *listen_comm = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_place(handle, "the handle"));
  // The device was there before the program asked for encryption.
  if (is_network_left_to_nccl()) {
    return Status(Code::kUnsupported,
                  "ncclSetEncryption was called when the network had been chosen: call it first");
  }
  RINGPRESS_ASSIGN_OR_RETURN(LinkOptions options, link_options());
  RINGPRESS_ASSIGN_OR_RETURN(const Device* const found, device_at(device));
  options.address.interfaces = "=" + found->name;
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<LinkListener> link, ring::listen_for_links(options));
  std::memcpy(handle, link->handle().data(), abi::kHandleBytes);
  *listen_comm = (new NetListener(std::move(link)))->handle();
  return Status::ok();
}

Status net_connect(const void* ctx, int device, const void* handle, void** send_comm) {
  RINGPRESS_RETURN_IF_ERROR(check_place(send_comm, "the place of the communicator"));
  *send_comm = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_place(handle, "the handle"));
  RINGPRESS_RETURN_IF_ERROR(device_at(device).status());
  RINGPRESS_ASSIGN_OR_RETURN(const LinkOptions options, link_options());
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<SendLink> link,
                             pending_connects().advance(ctx, handle, options));
  if (link != nullptr) *send_comm = (new NetSender(std::move(link)))->handle();
  return Status::ok();
}

Status net_accept(void* listen_comm, void** receive_comm) {
  RINGPRESS_RETURN_IF_ERROR(check_place(receive_comm, "the place of the communicator"));
  *receive_comm = nullptr;
  RINGPRESS_ASSIGN_OR_RETURN(const NetListener* const listener,
                             find_object<NetListener>(listen_comm));
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<ReceiveLink> link, listener->link->accept());
  if (link != nullptr) *receive_comm = (new NetReceiver(std::move(link)))->handle();
  return Status::ok();
}

Status net_register(void* comm, const MemoryRange& range, int type, void** mhandle) {
  RINGPRESS_RETURN_IF_ERROR(check_place(mhandle, "the place of the memory handle"));
  *mhandle = nullptr;
  RINGPRESS_ASSIGN_OR_RETURN(RegisteredMemory* const memory, memory_of(comm));
  RINGPRESS_ASSIGN_OR_RETURN(*mhandle, memory->add(range, type));
  return Status::ok();
}

Status net_deregister(void* comm, void* mhandle) {
  RINGPRESS_ASSIGN_OR_RETURN(RegisteredMemory* const memory, memory_of(comm));
  return memory->remove(mhandle);
}

Status net_isend(void* send_comm, const NetBuffer& message, void** request, bool* is_told) {
  RINGPRESS_RETURN_IF_ERROR(check_place(request, "the place of the request"));
  NetSender* const sender = object_as<NetSender>(send_comm);
  if (sender == nullptr) return no_object(send_comm, NetSender::kKind);
  RINGPRESS_RETURN_IF_ERROR(check_buffer(message));
  if (message.bytes > kMaxMessageBytes) {
    return Status(Code::kInvalidArgument, "a message of " + std::to_string(message.bytes) +
                                              " bytes: at most " +
                                              std::to_string(kMaxMessageBytes) + " are possible");
  }
  const ConstBuffer from(message.data, message.bytes);
  return start_request(*sender, request, is_told, [&](SendLink& link) { return link.isend(from); });
}

Status net_irecv(void* receive_comm, const NetBuffer& place, void** request, bool* is_told) {
  RINGPRESS_RETURN_IF_ERROR(check_place(request, "the place of the request"));
  NetReceiver* const receiver = object_as<NetReceiver>(receive_comm);
  if (receiver == nullptr) return no_object(receive_comm, NetReceiver::kKind);
  RINGPRESS_RETURN_IF_ERROR(check_buffer(place));
  const Buffer into{static_cast<std::byte*>(place.data), std::min(place.bytes, kMaxMessageBytes)};
  return start_request(*receiver, request, is_told,
                       [&](ReceiveLink& link) { return link.irecv(into); });
}

Status net_iflush(void* receive_comm, const NetBuffer& place, void** request) {
  RINGPRESS_RETURN_IF_ERROR(check_place(request, "the place of the request"));
  *request = nullptr;
  RINGPRESS_RETURN_IF_ERROR(find_object<NetReceiver>(receive_comm).status());
  return check_buffer(place);
}

Status net_test(void* request, int* done, int* size, bool* is_told) {
  RINGPRESS_RETURN_IF_ERROR(check_place(done, "the place of the answer"));
  *done = 0;
  NetRequest* const tested = object_as<NetRequest>(request);
  if (tested == nullptr) return no_object(request, NetRequest::kKind);
  if (tested->inner == nullptr) return Status(Code::kInvalidUsage, "the request is done already");
  return tested->is_send ? test_request<NetSender>(*tested, done, size, is_told)
                         : test_request<NetReceiver>(*tested, done, size, is_told);
}

Status net_close_send(void* send_comm) {
  return close<NetSender>(send_comm);
}

Status net_close_receive(void* receive_comm) {
  return close<NetReceiver>(receive_comm);
}

Status net_close_listen(void* listen_comm) {
  return close<NetListener>(listen_comm);
}

}  // namespace ringpress::nccl_plugin::plugin
