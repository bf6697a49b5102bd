// Calls any version of the plugin library's CollNet and profiler tables through one interface, with
// each version's own signatures.
#ifndef TESTS_SUPPORT_COLLNET_API_H_
#define TESTS_SUPPORT_COLLNET_API_H_

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"
#include "nccl_plugin/abi/profiler_v4.h"
#include "nccl_plugin/abi/profiler_v5.h"
#include "nccl_plugin/abi/profiler_v6.h"
#include "nccl_plugin/abi/profiler_v7.h"

namespace ringpress::testing {

/// As NCCL opens plugins.
inline void* open_plugin(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

template <typename Table>
Table& plugin_table(void* library, const std::string& name) {
  void* const symbol = dlsym(library, name.c_str());
  if (symbol == nullptr) throw std::runtime_error("no " + name);
  return *static_cast<Table*>(symbol);
}

/// What the versions' properties have in common.
struct CollNetProperties {
  std::string name;
  int pointer_support = 0;
  int speed_mbps = 0;
  std::size_t max_coll_bytes = 1;
};

struct CollNetApi {
  std::function<ncclResult_t(void** ctx, std::uint64_t comm_id, abi::Logger log)> init;
  std::function<ncclResult_t(int* count)> devices;
  std::function<ncclResult_t(int device, CollNetProperties* properties)> get_properties;
  std::function<ncclResult_t(void* ctx, int device, void* handle, void** listen_comm)> listen;
  std::function<ncclResult_t(void** handles, int count, int rank, void* listen_comm,
                             void** coll_comm)>
      connect;
  std::function<ncclResult_t(int type, int op, int* supported)> reduce_support;
  std::function<ncclResult_t(void* coll_comm, void* data, std::size_t size, int type,
                             void** mhandle)>
      reg_mr;
  std::function<ncclResult_t(void* coll_comm, void* mhandle)> dereg_mr;
  std::function<ncclResult_t(void* coll_comm, void* send, void* receive, std::size_t count,
                             int type, void** mhandles, void** request)>
      iallreduce;
  std::function<ncclResult_t(void* coll_comm, void* data, int size, void* mhandle, void** request)>
      iflush;
  std::function<ncclResult_t(void* request, int* done, int* size)> test;
  std::function<ncclResult_t(void* coll_comm)> close_coll;
  std::function<ncclResult_t(void* listen_comm)> close_listen;
  std::function<ncclResult_t(void* ctx)> finalize;
  bool gathers = false;  // It has an all-gather or a reduce-scatter.
};

template <typename Table, typename Properties>
CollNetApi collnet_api(Table& table) {
  CollNetApi api;
  api.init = [&table](void** ctx, std::uint64_t comm_id, abi::Logger log) {
    if constexpr (requires { table.finalize; }) {
      return table.init(ctx, comm_id, log);
    } else {
      *ctx = nullptr;
      static_cast<void>(comm_id);
      return table.init(log);
    }
  };
  api.devices = table.devices;
  api.get_properties = [&table](int device, CollNetProperties* properties) {
    Properties own;
    std::memset(static_cast<void*>(&own), 0xee, sizeof own);  // The plugin must fill all of it.
    const ncclResult_t result = table.get_properties(device, &own);
    if (result != ncclSuccess) return result;
    *properties = {own.name, own.pointer_support, own.speed_mbps, 1};
    if constexpr (requires { own.max_coll_bytes; }) properties->max_coll_bytes = own.max_coll_bytes;
    return result;
  };
  api.listen = [&table](void* ctx, int device, void* handle, void** listen_comm) {
    if constexpr (requires { table.finalize; }) {
      return table.listen(ctx, device, handle, listen_comm);
    } else {
      static_cast<void>(ctx);
      return table.listen(device, handle, listen_comm);
    }
  };
  api.connect = table.connect;
  api.reduce_support = table.reduce_support;
  api.reg_mr = [&table](void* coll_comm, void* data, std::size_t size, int type, void** mhandle) {
    if constexpr (requires { table.iallgather; }) {
      return table.reg_mr(coll_comm, data, size, type, mhandle);
    } else {
      return table.reg_mr(coll_comm, data, static_cast<int>(size), type, mhandle);
    }
  };
  api.dereg_mr = table.dereg_mr;
  api.iallreduce = [&table](void* coll_comm, void* send, void* receive, std::size_t count, int type,
                            void** mhandles, void** request) {
    if constexpr (requires { table.make_virtual_device; }) {
      return table.iallreduce(coll_comm, send, receive, count, type, ncclSum, mhandles[0],
                              mhandles[1], request);
    } else {
      return table.iallreduce(coll_comm, send, receive, static_cast<int>(count), type, ncclSum,
                              mhandles[0], mhandles[1], request);
    }
  };
  api.iflush = table.iflush;
  api.test = table.test;
  api.close_coll = table.close_coll;
  api.close_listen = table.close_listen;
  api.finalize = [&table](void* ctx) {
    if constexpr (requires { table.finalize; }) return table.finalize(ctx);
    static_cast<void>(table), static_cast<void>(ctx);
    return ncclSuccess;
  };
  if constexpr (requires { table.iallgather; }) {
    api.gathers = table.iallgather != nullptr || table.ireducescatter != nullptr;
  }
  return api;
}

inline CollNetApi collnet_api_of(void* library, int version) {
  const std::string name = "ncclCollNetPlugin_v" + std::to_string(version);
  switch (version) {
    case 7:
      return collnet_api<abi::CollNetV7, abi::NetPropertiesV7>(
          plugin_table<abi::CollNetV7>(library, name));
    case 8:
      return collnet_api<abi::CollNetV8, abi::NetPropertiesV8>(
          plugin_table<abi::CollNetV8>(library, name));
    case 9:
      return collnet_api<abi::CollNetV9, abi::NetPropertiesV9>(
          plugin_table<abi::CollNetV9>(library, name));
    case 10:
      return collnet_api<abi::CollNetV10, abi::NetPropertiesV10>(
          plugin_table<abi::CollNetV10>(library, name));
    case 11:
      return collnet_api<abi::CollNetV11, abi::NetPropertiesV11>(
          plugin_table<abi::CollNetV11>(library, name));
    case 12:
      return collnet_api<abi::CollNetV12, abi::NetPropertiesV12>(
          plugin_table<abi::CollNetV12>(library, name));
    default:
      throw std::runtime_error("no such version: " + name);
  }
}

/// A collective as NCCL's profiler events tell of it.
struct ProfiledTensor {
  const void* send = nullptr;
  std::size_t count = 0;
  const char* datatype = "ncclFloat32";
  const char* algorithm = "COLLNET_CHAIN";
  std::uint64_t sequence = 0;
  std::uint64_t tag = 0;  // From version 7 on.
};

/// Of a communicator, as NCCL tells its profiler.
struct ProfiledShape {
  std::uint64_t comm_id = 1;
  int nodes = 1;
  int ranks = 1;
  int rank = 0;
};

struct ProfilerApi {
  std::function<void(void** ctx, const ProfiledShape& shape)> init;
  std::function<void*(void* ctx, const ProfiledTensor& tensor)> start_tensor;
  std::function<void(void* event)> stop;
  /// `place`: for the event's handle.
  std::function<void(void* ctx, void* tensor, int channel, int steps, int chunk_bytes,
                     void** place)>
      start_channel;
  std::function<void(pid_t process, void* ctx, void* tensor)> start_channel_of;
  std::function<void(void* ctx)> finalize;
};

template <typename Table, typename Event>
ProfilerApi profiler_api(Table& table) {
  const auto check = [](ncclResult_t result) {
    if (result != ncclSuccess) throw std::runtime_error("a profiler call failed");
  };
  ProfilerApi api;
  api.init = [&table, check](void** ctx, const ProfiledShape& shape) {
    int mask = 0;
    if constexpr (std::is_same_v<Table, abi::ProfilerV4>) {
      check(table.init(ctx, &mask, "name", shape.comm_id, shape.nodes, shape.ranks, shape.rank,
                       nullptr));
    } else {
      check(table.init(ctx, shape.comm_id, &mask, "name", shape.nodes, shape.ranks, shape.rank,
                       nullptr));
    }
    if (mask != (abi::kProfileColl | abi::kProfileProxyOp)) throw std::runtime_error("mask");
  };
  api.start_tensor = [&table, check](void* ctx, const ProfiledTensor& tensor) {
    Event event;
    std::memset(static_cast<void*>(&event), 0, sizeof event);
    event.type = abi::kProfileGroup;
    void* group = nullptr;
    check(table.start_event(ctx, &group, &event));
    // NCCL 2.27, the release of version 4, tells of collectives only where a group has a handle.
    if (std::is_same_v<Table, abi::ProfilerV4> && group == nullptr) return group;
    check(table.stop_event(group));
    event.type = abi::kProfileColl;
    event.coll.function = "AllReduce";
    event.coll.send = tensor.send;
    event.coll.count = tensor.count;
    event.coll.datatype = tensor.datatype;
    event.coll.algorithm = tensor.algorithm;
    event.coll.sequence = tensor.sequence;
    if constexpr (requires { event.coll.tag; }) event.coll.tag = tensor.tag;
    void* handle = nullptr;
    check(table.start_event(ctx, &handle, &event));
    return handle;
  };
  api.stop = [&table, check](void* event) {
    if (event != nullptr) check(table.stop_event(event));
  };
  api.start_channel = [&table, check](void* ctx, void* tensor, int channel, int steps,
                                      int chunk_bytes, void** place) {
    Event event;
    std::memset(static_cast<void*>(&event), 0, sizeof event);
    event.type = abi::kProfileProxyOp;
    event.parent = tensor;
    event.proxy_op.process = getpid();
    event.proxy_op.channel = static_cast<std::uint8_t>(channel);
    event.proxy_op.steps = steps;
    event.proxy_op.chunk_bytes = chunk_bytes;
    check(table.start_event(ctx, place, &event));
  };
  api.start_channel_of = [&table, check](pid_t process, void* ctx, void* tensor) {
    Event event;
    std::memset(static_cast<void*>(&event), 0, sizeof event);
    event.type = abi::kProfileProxyOp;
    event.parent = tensor;
    event.proxy_op.process = process;
    event.proxy_op.steps = 1;
    event.proxy_op.chunk_bytes = 32768;
    void* handle = nullptr;
    check(table.start_event(ctx, &handle, &event));
  };
  api.finalize = [&table, check](void* ctx) { check(table.finalize(ctx)); };
  return api;
}

inline ProfilerApi profiler_api_of(void* library, int version) {
  const std::string name = "ncclProfiler_v" + std::to_string(version);
  switch (version) {
    case 4:
      return profiler_api<abi::ProfilerV4, abi::EventV4>(
          plugin_table<abi::ProfilerV4>(library, name));
    case 5:
      return profiler_api<abi::ProfilerV5, abi::EventV5>(
          plugin_table<abi::ProfilerV5>(library, name));
    case 6:
      return profiler_api<abi::ProfilerV6, abi::EventV6>(
          plugin_table<abi::ProfilerV6>(library, name));
    case 7:
      return profiler_api<abi::ProfilerV7, abi::EventV7>(
          plugin_table<abi::ProfilerV7>(library, name));
    default:
      throw std::runtime_error("no such version: " + name);
  }
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_API_H_
