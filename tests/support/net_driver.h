// Calls any version of the plugin's network table the way NCCL does, through one interface.
#ifndef TESTS_SUPPORT_NET_DRIVER_H_
#define TESTS_SUPPORT_NET_DRIVER_H_

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"

namespace ringpress::testing {

/// What the plugin wrote to NCCL's log.
class NetLog {
 public:
  static void write(abi::LogLevel level, unsigned long, const char*, int, const char* format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const std::lock_guard<std::mutex> lock(mutex());
    if (level == abi::LogLevel::kWarn) warnings().push_back(text);
    lines().push_back(text);
  }
  /// Takes the warnings out.
  static std::vector<std::string> take_warnings() {
    const std::lock_guard<std::mutex> lock(mutex());
    return std::exchange(warnings(), {});
  }
  static bool contains(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex());
    for (const std::string& line : lines()) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex kept;
    return kept;
  }
  static std::vector<std::string>& warnings() {
    static std::vector<std::string> kept;
    return kept;
  }
  static std::vector<std::string>& lines() {
    static std::vector<std::string> kept;
    return kept;
  }
};

template <typename Table>
struct NetTraits;
template <>
struct NetTraits<abi::NetV7> {
  static constexpr int kVersion = 7;
  using Properties = abi::NetPropertiesV7;
};
template <>
struct NetTraits<abi::NetV8> {
  static constexpr int kVersion = 8;
  using Properties = abi::NetPropertiesV8;
};
template <>
struct NetTraits<abi::NetV9> {
  static constexpr int kVersion = 9;
  using Properties = abi::NetPropertiesV9;
  using VirtualDevice = abi::NetVirtualDeviceV9;
};
template <>
struct NetTraits<abi::NetV10> {
  static constexpr int kVersion = 10;
  using Properties = abi::NetPropertiesV10;
  using VirtualDevice = abi::NetVirtualDeviceV10;
  using Config = abi::NetCommConfigV10;
};
template <>
struct NetTraits<abi::NetV11> {
  static constexpr int kVersion = 11;
  using Properties = abi::NetPropertiesV11;
  using VirtualDevice = abi::NetVirtualDeviceV11;
  using Config = abi::NetCommConfigV11;
  using Attributes = abi::NetAttributesV11;
};
template <>
struct NetTraits<abi::NetV12> {
  static constexpr int kVersion = 12;
  using Properties = abi::NetPropertiesV12;
  using VirtualDevice = abi::NetVirtualDeviceV12;
  using Config = abi::NetCommConfigV12;
  using Attributes = abi::NetAttributesV12;
};

inline ncclResult_t ignore_profiler(void**, int, void*, std::int64_t, void*) {
  return ncclSuccess;
}

template <typename Table>
class NetDriver {
 public:
  using Traits = NetTraits<Table>;
  using Properties = typename Traits::Properties;
  static constexpr int kVersion = Traits::kVersion;
  static constexpr int kTrafficClass = 77;
  using Handle = std::array<char, abi::kHandleBytes>;

  static Table* find(void* library) {
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(kVersion);
    auto* table = static_cast<Table*>(dlsym(library, symbol.c_str()));
    if (table == nullptr) throw std::runtime_error(symbol + " is missing");
    return table;
  }
  explicit NetDriver(void* library) : table_(find(library)) {}

  Table& table() { return *table_; }
  void* context() const { return context_; }

  ncclResult_t init() {
    if constexpr (kVersion >= 11) {
      typename Traits::Config config{kTrafficClass};
      return table_->init(&context_, 42, &config, NetLog::write, ignore_profiler);
    } else if constexpr (kVersion == 10) {
      return table_->init(NetLog::write, ignore_profiler);
    } else {
      return table_->init(NetLog::write);
    }
  }
  ncclResult_t finalize() {
    if constexpr (kVersion >= 11) return table_->finalize(context_);
    return ncclSuccess;
  }
  ncclResult_t listen(int device, void* handle, void** listen_comm) {
    if constexpr (kVersion >= 11) return table_->listen(context_, device, handle, listen_comm);
    if constexpr (kVersion < 11) return table_->listen(device, handle, listen_comm);
  }
  ncclResult_t connect(int device, void* handle, void** send_comm) {
    abi::NetDeviceHandle* device_comm = nullptr;
    if constexpr (kVersion >= 11) {
      return table_->connect(context_, device, handle, send_comm, &device_comm);
    } else if constexpr (kVersion == 10) {
      typename Traits::Config config{kTrafficClass};
      return table_->connect(device, &config, handle, send_comm, &device_comm);
    } else {
      return table_->connect(device, handle, send_comm, &device_comm);
    }
  }
  ncclResult_t accept(void* listen_comm, void** receive_comm) {
    abi::NetDeviceHandle* device_comm = nullptr;
    return table_->accept(listen_comm, receive_comm, &device_comm);
  }
  ncclResult_t reg_mr(void* comm, void* data, std::size_t size, int type, void** mhandle) {
    if constexpr (kVersion == 7) {
      return table_->reg_mr(comm, data, static_cast<int>(size), type, mhandle);
    } else {
      return table_->reg_mr(comm, data, size, type, mhandle);
    }
  }
  ncclResult_t isend(void* comm, void* data, std::size_t size, void** request, int tag = 5,
                     void* mhandle = nullptr) {
    if constexpr (kVersion >= 10) {
      return table_->isend(comm, data, size, tag, mhandle, nullptr, request);
    } else if constexpr (kVersion == 9) {
      return table_->isend(comm, data, size, tag, mhandle, request);
    } else {
      return table_->isend(comm, data, static_cast<int>(size), tag, mhandle, request);
    }
  }
  ncclResult_t irecv(void* comm, void* data, std::size_t size, void** request, int count = 1,
                     int tag = 5, void* mhandle = nullptr) {
    if constexpr (kVersion >= 10) {
      void* phandle = nullptr;
      return table_->irecv(comm, count, &data, &size, &tag, &mhandle, &phandle, request);
    } else if constexpr (kVersion == 9) {
      return table_->irecv(comm, count, &data, &size, &tag, &mhandle, request);
    } else {
      int narrow = static_cast<int>(size);
      return table_->irecv(comm, count, &data, &narrow, &tag, &mhandle, request);
    }
  }

 private:
  Table* table_;
  void* context_ = nullptr;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_NET_DRIVER_H_
