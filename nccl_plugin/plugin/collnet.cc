#include "nccl_plugin/plugin/collnet.h"

#include <net/if.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/plugin/coll_comm.h"
#include "nccl_plugin/plugin/coll_connect.h"
#include "nccl_plugin/plugin/device.h"
#include "nccl_plugin/plugin/nccl_encryption.h"
#include "nccl_plugin/plugin/report.h"
#include "ring/factory.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

static_assert(sizeof(UniqueId) == abi::kHandleBytes);

std::atomic<bool> is_initialised{false};

/// What listen gives and connect uses up.
struct CollListener : Object {
  static constexpr ObjectKind kKind = ObjectKind::kCollNetListener;
  CollListener() : Object(kKind) {}

  std::optional<std::uint64_t> comm_id;
  Settings settings;
  std::unique_ptr<Rendezvous> rendezvous;  // Null: this node cannot listen.
};

/// kInvalidArgument where interfaces are asked for that this node has not: devices() takes others.
Result<Settings> settings_of(const Device& device) {
  Settings settings = read_settings();
  RINGPRESS_RETURN_IF_ERROR(ring::check_address(settings.address));
  // The setting may name several; devices() has chosen. A next plugin's are not network interfaces.
  if (if_nametoindex(device.name.c_str()) != 0) settings.address.interfaces = "=" + device.name;
  return settings;
}

/// Code::kInvalidArgument for types that CollNet is not given.
Result<DType> dtype_of(abi::DataTypeNumber type) {
  switch (type) {
    case ncclFloat32:
      return DType::kFloat32;
    case ncclFloat16:
      return DType::kFloat16;
    case ncclBfloat16:
      return DType::kBfloat16;
    default:
      return Status(Code::kInvalidArgument,
                    "type " + std::to_string(type) + " is not one that reduceSupport has named");
  }
}

/// NCCL keeps to the limit where its version knows that property.
Status check_size(std::size_t count, DType dtype) {
  if (count <= kMaxCollBytes / dtype_size(dtype)) return Status::ok();
  return Status(Code::kInvalidArgument, "an all-reduce of " + std::to_string(count) +
                                            " elements of " + std::to_string(dtype_size(dtype)) +
                                            " bytes: at most " + std::to_string(kMaxCollBytes) +
                                            " bytes are possible");
}

Status check_memory(const void* mhandle, const MemoryRange& used) {
  return check_registered(mhandle, ObjectKind::kCollNetMemory, used);
}

}  // namespace

Status collnet_init(abi::Logger logger) {
  set_logger(logger);
  is_initialised.store(true);
  return Status::ok();
}

Status collnet_finalize(void* ctx) {
  if (ctx == nullptr) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const CollNetContext* const known, find_object<CollNetContext>(ctx));
  delete known;
  return Status::ok();
}

Status collnet_devices(int* count) {
  if (count == nullptr) return Status(Code::kInvalidArgument, "the place for the count is null");
  if (!is_initialised.load()) {
    return Status(Code::kInvalidUsage, "CollNet has not been initialised");
  }
  *count = is_network_left_to_nccl() ? 0 : static_cast<int>(devices().size());
  return Status::ok();
}

Status collnet_listen(void* ctx, int device, void* handle, void** listen_comm) {
  if (handle == nullptr || listen_comm == nullptr) {
    return Status(Code::kInvalidArgument, "the handle or the place for the listener is null");
  }
  // NCCL may have finalized it with the communicator that this one was split off from, and the
  // other ranks wait for a handle.
  const Result<CollNetContext*> context = find_object<CollNetContext>(ctx);
  if (!context.is_ok() && object_of(ctx) != nullptr) return context.status();
  std::memset(handle, 0, abi::kHandleBytes);
  auto listener = std::make_unique<CollListener>();
  if (context.is_ok()) listener->comm_id = context.value()->comm_id;
  const Status opened = catch_all([&]() -> Status {
    if (is_network_left_to_nccl()) {
      return Status(Code::kUnsupported, "the program has NCCL encrypt what it sends");
    }
    RINGPRESS_ASSIGN_OR_RETURN(const Device* const found, device_at(device));
    RINGPRESS_ASSIGN_OR_RETURN(listener->settings, settings_of(*found));
    RINGPRESS_ASSIGN_OR_RETURN(listener->rendezvous, prepare_unique_id(listener->settings));
    return Status::ok();
  });
  if (opened.is_ok()) {
    std::memcpy(handle, listener->rendezvous->id().data(), abi::kHandleBytes);
  } else {
    log(abi::LogLevel::kWarn, abi::kLogNet, "ncclCollNet listen: %s", opened.message().c_str());
  }
  *listen_comm = listener.release()->handle();
  return Status::ok();
}

Status collnet_connect(void* const* handles, int count, int rank, void* listen_comm,
                       void** coll_comm) {
  if (coll_comm != nullptr) *coll_comm = nullptr;
  RINGPRESS_ASSIGN_OR_RETURN(CollListener* const listener, find_object<CollListener>(listen_comm));
  std::unique_ptr<CollListener> kept(listener);
  if (handles == nullptr || coll_comm == nullptr || count < 1 || rank < 0 || rank >= count) {
    return Status(Code::kInvalidArgument, "a null pointer or a rank out of range");
  }
  std::vector<UniqueId> ids(static_cast<std::size_t>(count));
  for (std::size_t node = 0; node < ids.size(); ++node) {
    if (handles[node] == nullptr) return Status(Code::kInvalidArgument, "a null handle");
    std::memcpy(ids[node].data(), handles[node], abi::kHandleBytes);
  }
  const CollConnectOptions options{kept->comm_id, kept->settings, kept->rendezvous.get()};
  RINGPRESS_ASSIGN_OR_RETURN(auto comm, connect_nodes(ids, rank, options));
  *coll_comm = comm.release()->handle();
  static_cast<void>(kept.release());  // NCCL closes it now.
  return Status::ok();
}

Status collnet_reduce_support(abi::DataTypeNumber type, abi::OperationNumber op, int* supported) {
  if (supported == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *supported = op == ncclSum && dtype_of(type).is_ok() ? 1 : 0;
  return Status::ok();
}

Status collnet_register(void* coll_comm, const MemoryRange& range, int type, void** mhandle) {
  if (mhandle == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *mhandle = nullptr;
  RINGPRESS_ASSIGN_OR_RETURN(CollComm* const comm, find_object<CollComm>(coll_comm));
  RINGPRESS_ASSIGN_OR_RETURN(*mhandle, comm->memory().add(range, type));
  return Status::ok();
}

Status collnet_deregister(void* coll_comm, void* mhandle) {
  RINGPRESS_ASSIGN_OR_RETURN(CollComm* const comm, find_object<CollComm>(coll_comm));
  return comm->memory().remove(mhandle);
}

Status collnet_iallreduce(void* coll_comm, const CollNetAllReduce& call, void** request) {
  if (request == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *request = nullptr;
  CollComm* const comm = object_as<CollComm>(coll_comm);
  if (comm == nullptr) return no_object(coll_comm, CollComm::kKind);
  if (call.op != ncclSum) {
    return Status(Code::kInvalidArgument, "an operation other than the sum");
  }
  RINGPRESS_ASSIGN_OR_RETURN(const DType dtype, dtype_of(call.type));
  const bool has_memory = call.send != nullptr && call.receive != nullptr;
  if (call.count > 0 && !has_memory) return Status(Code::kInvalidArgument, "a null buffer");
  RINGPRESS_RETURN_IF_ERROR(check_size(call.count, dtype));
  const std::size_t bytes = call.count * dtype_size(dtype);
  RINGPRESS_RETURN_IF_ERROR(check_memory(call.send_mhandle, {call.send, bytes}));
  RINGPRESS_RETURN_IF_ERROR(check_memory(call.receive_mhandle, {call.receive, bytes}));
  if (!comm->is_of_this_process()) {
    return Status(Code::kInvalidUsage,
                  "the communicator is that of a process which forked this one");
  }
  RINGPRESS_RETURN_IF_ERROR(comm->check_events());
  const CollRequest* const taken =
      comm->all_reduce({call.send, call.receive, call.count, dtype, request});
  if (taken != nullptr) *request = taken->handle();
  return Status::ok();
}

Status collnet_iflush(void* coll_comm, const MemoryRange& range, void* mhandle, void** request) {
  if (request == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *request = nullptr;
  RINGPRESS_RETURN_IF_ERROR(find_object<CollComm>(coll_comm).status());
  return check_memory(mhandle, range);
}

Status collnet_test(void* request, int* done, int* bytes, bool* is_told) {
  if (done == nullptr) return Status(Code::kInvalidArgument, "the place for the answer is null");
  CollRequest* const waited = object_as<CollRequest>(request);
  if (waited == nullptr) return no_object(request, CollRequest::kKind);
  const std::size_t size = waited->call.count * dtype_size(waited->call.dtype);
  *done = 0;
  RINGPRESS_ASSIGN_OR_RETURN(const bool is_done, waited->owner->test(waited, is_told));
  *done = is_done ? 1 : 0;
  if (bytes != nullptr) {
    *bytes = static_cast<int>(
        std::min<std::size_t>(size, static_cast<std::size_t>(std::numeric_limits<int>::max())));
  }
  return Status::ok();
}

Status collnet_close(void* coll_comm) {
  if (coll_comm == nullptr) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const CollComm* const comm, find_object<CollComm>(coll_comm));
  // In a forked child there is nothing to end: what the other nodes hear is its parent's to say.
  if (comm->is_of_this_process()) delete comm;
  return Status::ok();
}

Status collnet_close_listen(void* listen_comm) {
  if (listen_comm == nullptr) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const CollListener* const listener,
                             find_object<CollListener>(listen_comm));
  delete listener;
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::plugin
