// A network plugin for tests that carries nothing and writes down every call, with all that it was
// given. FAKE_NET_LEAST and FAKE_NET_MOST are the versions that it has.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"

namespace {

using namespace ringpress::abi;

std::string calls;
bool initialised = false;
int merged = 0;  // Devices, behind the two that it has.

void* object(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

template <typename... Values>
ncclResult_t note(const char* function, int version, const Values&... values) {
  std::ostringstream line;
  line << function << "_v" << version;
  ((line << ' ' << values), ...);
  calls += line.str() + '\n';
  return ncclSuccess;
}

std::string list(int count, void** data, const auto* sizes, const int* tags, void** mhandles) {
  std::ostringstream text;
  for (int i = 0; i < count; ++i) {
    text << '(' << data[i] << ',' << sizes[i] << ',' << tags[i] << ',' << mhandles[i] << ')';
  }
  return text.str();
}

template <int version>
struct Fake {
  static ncclResult_t init(Logger) {
    initialised = true;
    return note("init", version);
  }
  static ncclResult_t init_profiler(Logger logger, ProfilerCallback profiler) {
    init(logger);
    return note("profiler", version, profiler != nullptr);
  }
  template <typename Config>
  static ncclResult_t init_context(void** ctx, std::uint64_t comm_id, Config* config, Logger logger,
                                   ProfilerCallback profiler) {
    init_profiler(logger, profiler);
    *ctx = object(0xc0);
    return note("context", version, comm_id, config->traffic_class);
  }
  static ncclResult_t devices(int* count) {
    *count = initialised ? 2 + merged : 0;
    return note("devices", version);
  }
  template <typename Properties>
  static ncclResult_t get_properties(int device, Properties* properties) {
    static char names[4][16] = {"fake0", "fake1", "fake0+fake1", "fake1+fake0"};
    static char path[] = "/sys/fake";
    *properties = Properties{};
    properties->name = names[device];
    properties->pci_path = device == 0 ? path : nullptr;
    properties->guid = 100u + static_cast<unsigned>(device);
    properties->pointer_support = kPointerHost | kPointerCuda;
    properties->speed_mbps = 400000 + device;
    properties->port = 3;
    properties->latency_us = 1.5F;
    properties->max_comms = 1234;
    properties->max_receives = 8;
    properties->device_type = NetDeviceType::kHost;
    properties->device_version = 7;
    if constexpr (requires { properties->registration_is_global; }) {
      properties->registration_is_global = 1;
    }
    if constexpr (requires { properties->virtual_device; }) {
      properties->force_flush = 1;
      properties->virtual_device.count = 2;
      properties->virtual_device.devices[0] = device;
      properties->virtual_device.devices[1] = 9;
      if (device >= 2) {
        properties->virtual_device.devices[0] = device == 2 ? 0 : 1;
        properties->virtual_device.devices[1] = device == 2 ? 1 : 0;
      }
      properties->max_p2p_bytes = 111;
      properties->max_coll_bytes = 222;
    }
    if constexpr (requires { properties->max_multi_request_size; }) {
      properties->max_multi_request_size = 4;
    }
    if constexpr (requires { properties->rail; }) properties->rail = 5, properties->plane = 6;
    return note("get_properties", version, device);
  }
  static ncclResult_t listen(int device, void* handle, void** listen_comm) {
    *listen_comm = object(0x11);
    return note("listen", version, device, handle);
  }
  static ncclResult_t listen_context(void* ctx, int device, void* handle, void** listen_comm) {
    note("ctx", version, ctx);
    return listen(device, handle, listen_comm);
  }
  static ncclResult_t connect(int device, void* handle, void** send_comm, NetDeviceHandle** comm) {
    *send_comm = object(0x22);
    return note("connect", version, device, handle, comm != nullptr);
  }
  template <typename Config>
  static ncclResult_t connect_config(int device, Config* config, void* handle, void** send_comm,
                                     NetDeviceHandle** comm) {
    note("config", version, config->traffic_class);
    return connect(device, handle, send_comm, comm);
  }
  static ncclResult_t connect_context(void* ctx, int device, void* handle, void** send_comm,
                                      NetDeviceHandle** comm) {
    note("ctx", version, ctx);
    return connect(device, handle, send_comm, comm);
  }
  static ncclResult_t accept(void* listen_comm, void** receive_comm, NetDeviceHandle** comm) {
    *receive_comm = object(0x33);
    return note("accept", version, listen_comm, comm != nullptr);
  }
  template <typename Size>
  static ncclResult_t reg_mr(void* comm, void* data, Size size, int type, void** mhandle) {
    *mhandle = object(0x44);
    return note("reg_mr", version, comm, data, size, type);
  }
  static ncclResult_t reg_mr_dma_buf(void* comm, void* data, std::size_t size, int type,
                                     std::uint64_t offset, int descriptor, void** mhandle) {
    *mhandle = object(0x55);
    return note("reg_mr_dma_buf", version, comm, data, size, type, offset, descriptor);
  }
  static ncclResult_t dereg_mr(void* comm, void* mhandle) {
    return note("dereg_mr", version, comm, mhandle);
  }
  template <typename Size>
  static ncclResult_t isend(void* comm, void* data, Size size, int tag, void* mhandle,
                            void** request) {
    *request = object(0x66);
    return note("isend", version, comm, data, size, tag, mhandle);
  }
  static ncclResult_t isend_profiled(void* comm, void* data, std::size_t size, int tag,
                                     void* mhandle, void* phandle, void** request) {
    note("phandle", version, phandle);
    return isend<std::size_t>(comm, data, size, tag, mhandle, request);
  }
  template <typename Size>
  static ncclResult_t irecv(void* comm, int count, void** data, Size* sizes, int* tags,
                            void** mhandles, void** request) {
    note("request", version, *request);
    *request = object(0x77);
    return note("irecv", version, comm, count, list(count, data, sizes, tags, mhandles));
  }
  static ncclResult_t irecv_profiled(void* comm, int count, void** data, std::size_t* sizes,
                                     int* tags, void** mhandles, void** phandles, void** request) {
    note("phandles", version, phandles[0]);
    return irecv<std::size_t>(comm, count, data, sizes, tags, mhandles, request);
  }
  static ncclResult_t iflush(void* comm, int count, void** data, int* sizes, void** mhandles,
                             void** request) {
    *request = object(0x88);
    return note("iflush", version, comm, count, data[0], sizes[0], mhandles[0]);
  }
  static ncclResult_t test(void* request, int* done, int* sizes) {
    *done = 1;
    sizes[0] = 99;
    note("test", version, request);
    return ncclRemoteError;
  }
  static ncclResult_t close_send(void* comm) { return note("close_send", version, comm); }
  static ncclResult_t close_receive(void* comm) { return note("close_receive", version, comm); }
  static ncclResult_t close_listen(void* comm) { return note("close_listen", version, comm); }
  static ncclResult_t get_device_mr(void* comm, void* mhandle, void** device_mhandle) {
    *device_mhandle = object(0x99);
    return note("get_device_mr", version, comm, mhandle);
  }
  static ncclResult_t irecv_consumed(void* comm, int count, void* request) {
    return note("irecv_consumed", version, comm, count, request);
  }
  template <typename Parts>
  static ncclResult_t make_virtual_device(int* device, Parts* parts) {
    *device = 2 + merged++;
    return note("make_virtual_device", version, parts->count, parts->devices[0], parts->devices[1],
                parts->devices[2], parts->devices[3]);
  }
  static ncclResult_t finalize(void* ctx) { return note("finalize", version, ctx); }
  template <typename Attributes>
  static ncclResult_t set_net_attributes(void* ctx, Attributes* attributes) {
    return note("set_net_attributes", version, ctx, attributes->send.max_concurrent_peers,
                attributes->operations, attributes->protocols);
  }

  template <typename Table>
  static void fill_common(Table& table) {
    table.name = "Fake Net";
    table.devices = devices;
    table.accept = accept;
    table.reg_mr_dma_buf = reg_mr_dma_buf;
    table.dereg_mr = dereg_mr;
    table.iflush = iflush;
    table.test = test;
    table.close_send = close_send;
    table.close_receive = close_receive;
    table.close_listen = close_listen;
    table.get_device_mr = get_device_mr;
    table.irecv_consumed = irecv_consumed;
    table.get_properties = get_properties;
    table.reg_mr = reg_mr;
    if constexpr (version <= 9) {
      table.init = init;
      table.connect = connect;
      table.isend = isend;
      table.irecv = irecv;
    } else {
      table.isend = isend_profiled;
      table.irecv = irecv_profiled;
    }
    if constexpr (version == 10) table.init = init_profiler, table.connect = connect_config;
    if constexpr (version <= 10) table.listen = listen;
    if constexpr (version >= 9) table.make_virtual_device = make_virtual_device;
    if constexpr (version >= 11) {
      table.init = init_context;
      table.listen = listen_context;
      table.connect = connect_context;
      table.finalize = finalize;
      table.set_net_attributes = set_net_attributes;
    }
  }
  template <typename Table>
  static Table make() {
    Table table{};
    fill_common(table);
    return table;
  }
};

}  // namespace

#define FAKE_NET_EXPORT __attribute__((visibility("default")))
#define FAKE_NET_TABLE(version) \
  FAKE_NET_EXPORT NetV##version ncclNetPlugin_v##version = Fake<version>::make<NetV##version>();

extern "C" {
/// Forgets the devices that were merged.
FAKE_NET_EXPORT void fake_net_split() {
  merged = 0;
}
/// The calls since the last time, a line each.
FAKE_NET_EXPORT const char* fake_net_calls() {
  static std::string taken;
  taken = std::exchange(calls, {});
  return taken.c_str();
}
#if FAKE_NET_LEAST <= 7 && FAKE_NET_MOST >= 7
FAKE_NET_TABLE(7)
#endif
#if FAKE_NET_LEAST <= 8 && FAKE_NET_MOST >= 8
FAKE_NET_TABLE(8)
#endif
#if FAKE_NET_LEAST <= 9 && FAKE_NET_MOST >= 9
FAKE_NET_TABLE(9)
#endif
#if FAKE_NET_LEAST <= 10 && FAKE_NET_MOST >= 10
FAKE_NET_TABLE(10)
#endif
#if FAKE_NET_LEAST <= 11 && FAKE_NET_MOST >= 11
FAKE_NET_TABLE(11)
#endif
#if FAKE_NET_LEAST <= 12 && FAKE_NET_MOST >= 12
FAKE_NET_TABLE(12)
#endif
}
