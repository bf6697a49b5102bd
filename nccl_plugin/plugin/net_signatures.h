// Each version's signatures over net.h, for net_tables.cc. A function is named after the first
// version whose signature it has.
#ifndef NCCL_PLUGIN_PLUGIN_NET_SIGNATURES_H_
#define NCCL_PLUGIN_PLUGIN_NET_SIGNATURES_H_

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/plugin/device.h"
#include "nccl_plugin/plugin/net.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {

inline ncclResult_t init_v7(abi::Logger logger) {
  return answer("ncclNet init", [&] { return net_init(logger); });
}

inline ncclResult_t init_v10(abi::Logger logger, abi::ProfilerCallback) {
  return init_v7(logger);
}

template <typename Config>
ncclResult_t init_v11(void** ctx, std::uint64_t, Config*, abi::Logger logger,
                      abi::ProfilerCallback) {
  return answer("ncclNet init", [&] { return net_init_context(ctx, logger); });
}

inline ncclResult_t devices_v7(int* count) {
  return answer("ncclNet devices", [&] { return net_devices(count); });
}

/// A device that was not merged consists of itself.
template <typename VirtualDevice>
void describe_parts(int index, const Device& device, VirtualDevice* parts) {
  const std::size_t room = std::size(parts->devices);
  parts->count = 1;
  parts->devices[0] = index;
  if (device.parts.empty() || device.parts.size() > room) return;
  parts->count = static_cast<int>(device.parts.size());
  std::copy(device.parts.begin(), device.parts.end(), parts->devices);
}

/// Fills what this version's properties have.
template <typename Properties>
void describe_device(int index, const Device& device, Properties* properties) {
  // The names live as long as the process; NCCL only reads them.
  properties->name = const_cast<char*>(device.name.c_str());
  if (!device.pci_path.empty()) properties->pci_path = const_cast<char*>(device.pci_path.c_str());
  properties->guid = device.guid;
  properties->pointer_support = abi::kPointerHost;
  properties->speed_mbps = device.speed_mbps;
  properties->max_comms = kMaxConnections;
  properties->max_receives = 1;
  properties->device_type = abi::NetDeviceType::kHost;
  if constexpr (requires { properties->registration_is_global; }) {
    properties->registration_is_global = 1;
  }
  if constexpr (requires { properties->virtual_device; }) {
    describe_parts(index, device, &properties->virtual_device);
    properties->max_p2p_bytes = kMaxMessageBytes;
    properties->max_coll_bytes = kMaxCollBytes;
  }
  if constexpr (requires { properties->max_multi_request_size; }) {
    properties->max_multi_request_size = 1;
  }
  if constexpr (requires { properties->rail; }) {
    properties->rail = device.rail;
    properties->plane = device.plane;
  }
}

template <typename Properties>
Status fill_properties(int index, Properties* properties) {
  if (properties == nullptr) return Status(Code::kInvalidArgument, "the properties are null");
  std::memset(properties, 0, sizeof *properties);
  RINGPRESS_ASSIGN_OR_RETURN(const Device* const device, device_at(index));
  describe_device(index, *device, properties);
  return Status::ok();
}

template <typename Properties>
ncclResult_t get_properties_v7(int index, Properties* properties) {
  return answer("ncclNet getProperties", [&] { return fill_properties(index, properties); });
}

inline ncclResult_t listen_v7(int device, void* handle, void** listen_comm) {
  return answer("ncclNet listen", [&] { return net_listen(device, handle, listen_comm); });
}

inline ncclResult_t listen_v11(void*, int device, void* handle, void** listen_comm) {
  return listen_v7(device, handle, listen_comm);
}

inline ncclResult_t connect_v11(void* ctx, int device, void* handle, void** send_comm,
                                abi::NetDeviceHandle** device_comm) {
  if (device_comm != nullptr) *device_comm = nullptr;
  return answer("ncclNet connect", [&] { return net_connect(ctx, device, handle, send_comm); });
}

inline ncclResult_t connect_v7(int device, void* handle, void** send_comm,
                               abi::NetDeviceHandle** device_comm) {
  return connect_v11(nullptr, device, handle, send_comm, device_comm);
}

inline ncclResult_t connect_v10(int device, abi::NetCommConfigV10*, void* handle, void** send_comm,
                                abi::NetDeviceHandle** device_comm) {
  return connect_v7(device, handle, send_comm, device_comm);
}

inline ncclResult_t accept_v7(void* listen_comm, void** receive_comm,
                              abi::NetDeviceHandle** device_comm) {
  if (device_comm != nullptr) *device_comm = nullptr;
  return answer("ncclNet accept", [&] { return net_accept(listen_comm, receive_comm); });
}

inline ncclResult_t reg_mr_v8(void* comm, void* data, std::size_t bytes, int type, void** mhandle) {
  return answer("ncclNet regMr", [&] { return net_register(comm, {data, bytes}, type, mhandle); });
}

/// A size below zero becomes one that is refused.
inline ncclResult_t reg_mr_v7(void* comm, void* data, int bytes, int type, void** mhandle) {
  return reg_mr_v8(comm, data, static_cast<std::size_t>(bytes), type, mhandle);
}

inline ncclResult_t dereg_mr_v7(void* comm, void* mhandle) {
  return answer("ncclNet deregMr", [&] { return net_deregister(comm, mhandle); });
}

inline ncclResult_t isend_v7(void* send_comm, void* data, int size, int, void* mhandle,
                             void** request) {
  return answer_once("ncclNet isend", [&](bool* is_told) -> Status {
    if (size < 0) return Status(Code::kInvalidArgument, "a message of less than no bytes");
    const NetBuffer message{data, static_cast<std::size_t>(size), mhandle};
    return net_isend(send_comm, message, request, is_told);
  });
}

inline ncclResult_t isend_v9(void* send_comm, void* data, std::size_t size, int, void* mhandle,
                             void** request) {
  return answer_once("ncclNet isend", [&](bool* is_told) {
    return net_isend(send_comm, {data, size, mhandle}, request, is_told);
  });
}

inline ncclResult_t isend_v10(void* send_comm, void* data, std::size_t size, int tag, void* mhandle,
                              void*, void** request) {
  return isend_v9(send_comm, data, size, tag, mhandle, request);
}

/// What irecv and iflush are given: lists, of one message, as get_properties says. `mhandles` may
/// be null: none is registered.
template <typename Size>
Result<NetBuffer> only_buffer(int count, void** data, const Size* sizes, void** mhandles) {
  if (count != 1) {
    return Status(Code::kInvalidArgument,
                  "a receive of " + std::to_string(count) + " messages: one is possible");
  }
  if (data == nullptr || sizes == nullptr) {
    return Status(Code::kInvalidArgument, "the list of places or that of sizes is null");
  }
  if (std::is_signed_v<Size> && sizes[0] < Size{0}) {
    return Status(Code::kInvalidArgument, "a message of less than no bytes");
  }
  void* const mhandle = mhandles != nullptr ? mhandles[0] : nullptr;
  return NetBuffer{data[0], static_cast<std::size_t>(sizes[0]), mhandle};
}

inline ncclResult_t irecv_v7(void* receive_comm, int count, void** data, int* sizes, int*,
                             void** mhandles, void** request) {
  return answer_once("ncclNet irecv", [&](bool* is_told) -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const NetBuffer place, only_buffer(count, data, sizes, mhandles));
    return net_irecv(receive_comm, place, request, is_told);
  });
}

inline ncclResult_t irecv_v9(void* receive_comm, int count, void** data, std::size_t* sizes, int*,
                             void** mhandles, void** request) {
  return answer_once("ncclNet irecv", [&](bool* is_told) -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const NetBuffer place, only_buffer(count, data, sizes, mhandles));
    return net_irecv(receive_comm, place, request, is_told);
  });
}

inline ncclResult_t irecv_v10(void* receive_comm, int count, void** data, std::size_t* sizes,
                              int* tags, void** mhandles, void**, void** request) {
  return irecv_v9(receive_comm, count, data, sizes, tags, mhandles, request);
}

inline ncclResult_t iflush_v7(void* receive_comm, int count, void** data, int* sizes,
                              void** mhandles, void** request) {
  return answer("ncclNet iflush", [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const NetBuffer place, only_buffer(count, data, sizes, mhandles));
    return net_iflush(receive_comm, place, request);
  });
}

inline ncclResult_t test_v7(void* request, int* done, int* sizes) {
  return answer_once("ncclNet test",
                     [&](bool* is_told) { return net_test(request, done, sizes, is_told); });
}

inline ncclResult_t close_send_v7(void* send_comm) {
  return answer("ncclNet closeSend", [&] { return net_close_send(send_comm); });
}

inline ncclResult_t close_receive_v7(void* receive_comm) {
  return answer("ncclNet closeRecv", [&] { return net_close_receive(receive_comm); });
}

inline ncclResult_t close_listen_v7(void* listen_comm) {
  return answer("ncclNet closeListen", [&] { return net_close_listen(listen_comm); });
}

inline ncclResult_t get_device_mr_v7(void*, void*, void** device_mhandle) {
  if (device_mhandle != nullptr) *device_mhandle = nullptr;
  return answer("ncclNet getDeviceMr",
                [] { return Status(Code::kUnsupported, "this network takes host memory only"); });
}

/// NCCL calls it after test() has given the request back.
inline ncclResult_t irecv_consumed_v7(void*, int, void*) {
  return ncclSuccess;
}

inline ncclResult_t finalize_v11(void* ctx) {
  return answer("ncclNet finalize", [&] { return net_finalize(ctx); });
}

/// Traffic is not arranged by what is to come.
template <typename Attributes>
ncclResult_t set_net_attributes_v11(void*, Attributes*) {
  return ncclSuccess;
}

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NET_SIGNATURES_H_
