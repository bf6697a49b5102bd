#include "nccl_plugin/plugin/next_net_devices.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "nccl_plugin/plugin/merged_devices.h"
#include "nccl_plugin/plugin/net_tables.h"
#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {

constinit NextTables next_tables;
std::atomic<int> next_version{0};

namespace {

template <typename Properties, typename Table>
std::vector<Device> list_devices(const Table& table) {
  int count = 0;
  if (table.devices(&count) != ncclSuccess) return {};
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) {
    Properties properties{};
    if (table.get_properties(index, &properties) != ncclSuccess) return {};
    Device device;
    if (properties.name != nullptr) device.name = properties.name;
    if (properties.pci_path != nullptr) device.pci_path = properties.pci_path;
    device.guid = properties.guid;
    device.speed_mbps = properties.speed_mbps;
    if constexpr (requires { properties.rail; }) {
      device.rail = properties.rail;
      device.plane = properties.plane;
    }
    if constexpr (requires { properties.virtual_device; }) {
      const auto& parts = properties.virtual_device;
      if (parts.count > 1 && static_cast<std::size_t>(parts.count) <= std::size(parts.devices)) {
        device.parts.assign(parts.devices, parts.devices + parts.count);
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<Device> list_next_devices(int version) {
  switch (version) {
    case 7:
      return list_devices<abi::NetPropertiesV7>(next_tables.v7);
    case 8:
      return list_devices<abi::NetPropertiesV8>(next_tables.v8);
    case 9:
      return list_devices<abi::NetPropertiesV9>(next_tables.v9);
    case 10:
      return list_devices<abi::NetPropertiesV10>(next_tables.v10);
    case 11:
      return list_devices<abi::NetPropertiesV11>(next_tables.v11);
    default:
      return list_devices<abi::NetPropertiesV12>(next_tables.v12);
  }
}

/// The list that is shown, and the ones before it: NCCL may still hold names of theirs.
struct DeviceLists {
  std::mutex mutex;
  std::vector<std::unique_ptr<const std::vector<Device>>> kept;
  std::atomic<const std::vector<Device>*> shown{nullptr};

  /// As the next plugin has them now. With `anew` false: unless there is a list already.
  void fill(bool anew) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (next_version == 0 || (!anew && shown.load() != nullptr)) return;
    kept.push_back(std::make_unique<const std::vector<Device>>(list_next_devices(next_version)));
    shown = kept.back().get();
  }
};

DeviceLists& device_lists() {
  static DeviceLists* const lists = new DeviceLists;
  return *lists;
}

// --- merging devices ---

MergedDevices& merged() {
  static MergedDevices* const devices = new MergedDevices;
  return *devices;
}

/// Above 0 while CollNet has devices merged in this thread: the table may be a dress of an older
/// one, whose function is ours as well.
thread_local int making = 0;

/// Of one version: the next plugin's functions, and ours in front of them.
template <typename Net, typename VirtualDevice>
struct Merging {
  static inline decltype(Net::devices) next_devices = nullptr;
  static inline decltype(Net::make_virtual_device) next_make = nullptr;

  static MergedDevices::Parts parts_of(const VirtualDevice* parts) {
    const int room = static_cast<int>(std::size(parts->devices));
    return {parts->devices, parts->devices + std::clamp(parts->count, 0, room)};
  }

  static ncclResult_t devices(int* count) {
    const ncclResult_t result = next_devices(count);
    if (result == ncclSuccess && count != nullptr) *count = merged().seen(*count);
    return result;
  }

  static ncclResult_t make(int* device, VirtualDevice* parts) {
    if (making > 0 || device == nullptr || parts == nullptr) return next_make(device, parts);
    std::optional<int> made;
    static_cast<void>(answer("ncclNet makeVDevice", [&] {
      made = merged().take(parts_of(parts));
      return Status::ok();
    }));
    if (!made) return next_make(device, parts);
    *device = *made;
    return ncclSuccess;
  }

  static ncclResult_t make_for_collnet(int* device, VirtualDevice* parts) {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t failure = answer("ncclCollNet makeVDevice", [&]() -> Status {
      if (device == nullptr || parts == nullptr) {
        return Status(Code::kInvalidArgument, "the device or its parts are null");
      }
      MergedDevices::Parts wanted = parts_of(parts);
      ++making;
      result = next_make(device, parts);
      --making;
      if (result != ncclSuccess) return Status::ok();
      merged().add(std::move(wanted), *device);
      device_lists().fill(true);
      return Status::ok();
    });
    return failure != ncclSuccess ? failure : result;
  }

  /// Where the next plugin can merge devices, NCCL's questions about that go through us.
  template <typename CollNet>
  static void install(Net& net, CollNet& collnet) {
    if (net.make_virtual_device == nullptr) return;
    next_devices = net.devices;
    next_make = net.make_virtual_device;
    net.devices = devices;
    net.make_virtual_device = make;
    collnet.make_virtual_device = make_for_collnet;
  }
};

}  // namespace

/// The newest first: a dress keeps the functions that the table under it has now.
void take_part_in_merging() {
  Merging<abi::NetV12, abi::NetVirtualDeviceV12>::install(ncclNetPlugin_v12, ncclCollNetPlugin_v12);
  Merging<abi::NetV11, abi::NetVirtualDeviceV11>::install(ncclNetPlugin_v11, ncclCollNetPlugin_v11);
  Merging<abi::NetV10, abi::NetVirtualDeviceV10>::install(ncclNetPlugin_v10, ncclCollNetPlugin_v10);
  Merging<abi::NetV9, abi::NetVirtualDeviceV9>::install(ncclNetPlugin_v9, ncclCollNetPlugin_v9);
}

const std::vector<Device>& next_net_devices() {
  static const std::vector<Device>* const none = new std::vector<Device>;
  device_lists().fill(false);
  const std::vector<Device>* const shown = device_lists().shown;
  return shown != nullptr ? *shown : *none;
}

}  // namespace ringpress::nccl_plugin::plugin
