#include "nccl_plugin/plugin/next_net_steps.h"

#include <array>
#include <climits>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>

#include "nccl_plugin/plugin/object.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

/// What NCCL itself tells of plugins that have no such limits.
constexpr std::size_t kOldMaxP2pBytes = std::size_t{1} << 30;
constexpr std::size_t kOldMaxCollBytes = std::size_t{1} << 29;
/// Of one irecv, by NCCL's own limit.
constexpr int kMaxReceives = 8;

abi::NetV7* v7 = nullptr;
abi::NetV8* v8 = nullptr;
abi::NetV9* v9 = nullptr;
abi::NetV10* v10 = nullptr;
abi::NetV11* v11 = nullptr;

ncclResult_t too_large(const char* function, std::size_t bytes) {
  return report(function, Status(Code::kInvalidArgument,
                                 std::to_string(bytes) + " bytes: the next plugin counts in int"));
}

ncclResult_t missing(const char* function, const char* what) {
  return report(function, Status(Code::kInvalidArgument, std::string(what) + " are null"));
}

/// The functions whose signature has been the same since version 7.
template <typename Older, typename Newer>
void copy_constant(const Older& older, Newer& newer) {
  newer = Newer{};
  newer.name = older.name;
  newer.devices = older.devices;
  newer.accept = older.accept;
  newer.reg_mr_dma_buf = older.reg_mr_dma_buf;
  newer.dereg_mr = older.dereg_mr;
  newer.iflush = older.iflush;
  newer.test = older.test;
  newer.close_send = older.close_send;
  newer.close_receive = older.close_receive;
  newer.close_listen = older.close_listen;
  newer.get_device_mr = older.get_device_mr;
  newer.irecv_consumed = older.irecv_consumed;
}

/// All properties that both versions have.
template <typename Older, typename Newer>
void copy_properties(const Older& older, int device, Newer* newer) {
  *newer = Newer{};
  newer->name = older.name;
  newer->pci_path = older.pci_path;
  newer->guid = older.guid;
  newer->pointer_support = older.pointer_support;
  newer->speed_mbps = older.speed_mbps;
  newer->port = older.port;
  newer->latency_us = older.latency_us;
  newer->max_comms = older.max_comms;
  newer->max_receives = older.max_receives;
  newer->device_type = older.device_type;
  newer->device_version = older.device_version;
  if constexpr (requires { older.registration_is_global; }) {
    newer->registration_is_global = older.registration_is_global;
  }
  if constexpr (requires { older.virtual_device; }) {
    newer->force_flush = older.force_flush;
    newer->virtual_device.count = older.virtual_device.count;
    std::memcpy(newer->virtual_device.devices, older.virtual_device.devices,
                sizeof older.virtual_device.devices);
    newer->max_p2p_bytes = older.max_p2p_bytes;
    newer->max_coll_bytes = older.max_coll_bytes;
  } else if constexpr (requires { newer->virtual_device; }) {
    newer->virtual_device.count = 1;
    newer->virtual_device.devices[0] = device;
    newer->max_p2p_bytes = kOldMaxP2pBytes;
    newer->max_coll_bytes = kOldMaxCollBytes;
  }
  if constexpr (requires { older.max_multi_request_size; }) {
    newer->max_multi_request_size = older.max_multi_request_size;
  } else if constexpr (requires { newer->max_multi_request_size; }) {
    newer->max_multi_request_size = 1;
  }
  if constexpr (requires { newer->rail; }) newer->rail = newer->plane = -1;
}

template <auto& table, typename Older, typename Newer>
ncclResult_t get_properties(int device, Newer* newer) {
  if (newer == nullptr) return missing("ncclNet getProperties", "properties");
  Older older{};
  const ncclResult_t result = table->get_properties(device, &older);
  if (result == ncclSuccess) copy_properties(older, device, newer);
  return result;
}

/// The structures of merged devices differ only in how many fit.
template <auto& table, typename Older, typename Newer>
ncclResult_t make_virtual_device(int* device, Newer* parts) {
  if (device == nullptr || parts == nullptr) return missing("ncclNet makeVDevice", "devices");
  Older older{};
  constexpr int kRoom = static_cast<int>(std::size(decltype(older.devices){}));
  if (parts->count < 0 || parts->count > kRoom) {
    return report("ncclNet makeVDevice",
                  Status(Code::kUnsupported, std::to_string(parts->count) +
                                                 " devices: the next plugin merges at most " +
                                                 std::to_string(kRoom)));
  }
  older.count = parts->count;
  std::memcpy(older.devices, parts->devices, sizeof older.devices);
  return table->make_virtual_device(device, &older);
}

ncclResult_t reg_mr_v8(void* comm, void* data, std::size_t size, int type, void** mhandle) {
  if (size > INT_MAX) return too_large("ncclNet regMr", size);
  return v7->reg_mr(comm, data, static_cast<int>(size), type, mhandle);
}

ncclResult_t isend_v9(void* comm, void* data, std::size_t size, int tag, void* mhandle,
                      void** request) {
  if (size > INT_MAX) return too_large("ncclNet isend", size);
  return v8->isend(comm, data, static_cast<int>(size), tag, mhandle, request);
}

ncclResult_t irecv_v9(void* comm, int count, void** data, std::size_t* sizes, int* tags,
                      void** mhandles, void** request) {
  if (sizes == nullptr) return missing("ncclNet irecv", "sizes");
  std::array<int, kMaxReceives> narrow{};
  if (count < 0 || count > kMaxReceives) {
    return report("ncclNet irecv", Status(Code::kInvalidArgument,
                                          std::to_string(count) + " receives: at most 8 go"));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (sizes[i] > INT_MAX) return too_large("ncclNet irecv", sizes[i]);
    narrow[i] = static_cast<int>(sizes[i]);
  }
  return v8->irecv(comm, count, data, narrow.data(), tags, mhandles, request);
}

ncclResult_t init_v10(abi::Logger logger, abi::ProfilerCallback) {
  return v9->init(logger);
}

ncclResult_t connect_v10(int device, abi::NetCommConfigV10*, void* handle, void** send_comm,
                         abi::NetDeviceHandle** device_comm) {
  return v9->connect(device, handle, send_comm, device_comm);
}

ncclResult_t isend_v10(void* comm, void* data, std::size_t size, int tag, void* mhandle, void*,
                       void** request) {
  return v9->isend(comm, data, size, tag, mhandle, request);
}

ncclResult_t irecv_v10(void* comm, int count, void** data, std::size_t* sizes, int* tags,
                       void** mhandles, void**, void** request) {
  return v9->irecv(comm, count, data, sizes, tags, mhandles, request);
}

/// What version 11 gives as the context: connect needs the configuration of the communicator.
struct NextNetContext : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNextNetContext;
  explicit NextNetContext(int traffic_class) : Object(kKind), config{traffic_class} {}
  abi::NetCommConfigV10 config;
};
constexpr int kAnyTrafficClass = -1;

/// Version 11 initialises for each communicator; older ones must be initialised once.
std::mutex init_mutex;
int initialised = 0;

ncclResult_t init_v11(void** ctx, std::uint64_t, abi::NetCommConfigV11* config, abi::Logger logger,
                      abi::ProfilerCallback profiler) {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t failure = answer("ncclNet init", [&]() -> Status {
    if (ctx == nullptr) return Status(Code::kInvalidArgument, "the place of the context is null");
    *ctx = nullptr;
    const int traffic_class = config != nullptr ? config->traffic_class : kAnyTrafficClass;
    auto kept = std::make_unique<NextNetContext>(traffic_class);
    const std::lock_guard<std::mutex> lock(init_mutex);
    if (initialised == 0) result = v10->init(logger, profiler);
    if (result != ncclSuccess) return Status::ok();
    ++initialised;
    *ctx = kept.release()->handle();
    return Status::ok();
  });
  return failure != ncclSuccess ? failure : result;
}

ncclResult_t finalize_v11(void* ctx) {
  return answer("ncclNet finalize", [&]() -> Status {
    if (ctx == nullptr) return Status::ok();
    RINGPRESS_ASSIGN_OR_RETURN(const NextNetContext* const kept, find_object<NextNetContext>(ctx));
    const std::lock_guard<std::mutex> lock(init_mutex);
    --initialised;
    delete kept;
    return Status::ok();
  });
}

ncclResult_t listen_v11(void*, int device, void* handle, void** listen_comm) {
  return v10->listen(device, handle, listen_comm);
}

/// Those split off from a communicator connect with its context, be it finalized or not.
ncclResult_t connect_v11(void* ctx, int device, void* handle, void** send_comm,
                         abi::NetDeviceHandle** device_comm) {
  abi::NetCommConfigV10 any{kAnyTrafficClass};
  NextNetContext* const kept = object_as<NextNetContext>(ctx);
  return v10->connect(device, kept != nullptr ? &kept->config : &any, handle, send_comm,
                      device_comm);
}

ncclResult_t init_v12(void** ctx, std::uint64_t comm_id, abi::NetCommConfigV12* config,
                      abi::Logger logger, abi::ProfilerCallback profiler) {
  abi::NetCommConfigV11 older{config != nullptr ? config->traffic_class : -1};
  return v11->init(ctx, comm_id, &older, logger, profiler);
}

ncclResult_t set_net_attributes_v12(void* ctx, abi::NetAttributesV12* attributes) {
  static_assert(sizeof(abi::NetAttributesV11) == sizeof(abi::NetAttributesV12));
  if (attributes == nullptr) return missing("ncclNet setNetAttr", "attributes");
  abi::NetAttributesV11 older;
  std::memcpy(&older, attributes, sizeof older);
  return v11->set_net_attributes(ctx, &older);
}

}  // namespace

void dress(abi::NetV7& older, abi::NetV8& newer) {
  v7 = &older;
  copy_constant(older, newer);
  newer.init = older.init;
  newer.get_properties = get_properties<v7, abi::NetPropertiesV7, abi::NetPropertiesV8>;
  newer.listen = older.listen;
  newer.connect = older.connect;
  newer.reg_mr = reg_mr_v8;
  newer.isend = older.isend;
  newer.irecv = older.irecv;
}

void dress(abi::NetV8& older, abi::NetV9& newer) {
  v8 = &older;
  copy_constant(older, newer);
  newer.init = older.init;
  newer.get_properties = get_properties<v8, abi::NetPropertiesV8, abi::NetPropertiesV9>;
  newer.listen = older.listen;
  newer.connect = older.connect;
  newer.reg_mr = older.reg_mr;
  newer.isend = isend_v9;
  newer.irecv = irecv_v9;
}

void dress(abi::NetV9& older, abi::NetV10& newer) {
  v9 = &older;
  copy_constant(older, newer);
  newer.init = init_v10;
  newer.get_properties = get_properties<v9, abi::NetPropertiesV9, abi::NetPropertiesV10>;
  newer.listen = older.listen;
  newer.connect = connect_v10;
  newer.reg_mr = older.reg_mr;
  newer.isend = isend_v10;
  newer.irecv = irecv_v10;
  if (older.make_virtual_device != nullptr) {
    newer.make_virtual_device =
        make_virtual_device<v9, abi::NetVirtualDeviceV9, abi::NetVirtualDeviceV10>;
  }
}

void dress(abi::NetV10& older, abi::NetV11& newer) {
  v10 = &older;
  copy_constant(older, newer);
  newer.init = init_v11;
  newer.get_properties = get_properties<v10, abi::NetPropertiesV10, abi::NetPropertiesV11>;
  newer.listen = listen_v11;
  newer.connect = connect_v11;
  newer.reg_mr = older.reg_mr;
  newer.isend = older.isend;
  newer.irecv = older.irecv;
  if (older.make_virtual_device != nullptr) {
    newer.make_virtual_device =
        make_virtual_device<v10, abi::NetVirtualDeviceV10, abi::NetVirtualDeviceV11>;
  }
  newer.finalize = finalize_v11;
}

void dress(abi::NetV11& older, abi::NetV12& newer) {
  v11 = &older;
  copy_constant(older, newer);
  newer.init = init_v12;
  newer.get_properties = get_properties<v11, abi::NetPropertiesV11, abi::NetPropertiesV12>;
  newer.listen = older.listen;
  newer.connect = older.connect;
  newer.reg_mr = older.reg_mr;
  newer.isend = older.isend;
  newer.irecv = older.irecv;
  if (older.make_virtual_device != nullptr) {
    newer.make_virtual_device =
        make_virtual_device<v11, abi::NetVirtualDeviceV11, abi::NetVirtualDeviceV12>;
  }
  newer.finalize = older.finalize;
  if (older.set_net_attributes != nullptr) newer.set_net_attributes = set_net_attributes_v12;
}

}  // namespace ringpress::nccl_plugin::plugin
