#include "nccl_plugin/plugin/device.h"

#include <limits.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "nccl_plugin/errors/descriptors.h"
#include "nccl_plugin/plugin/interfaces.h"
#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr int kLeastSpeedMbps = 10000;

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : "";
}

int speed_of(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  int speed = 0;
  if (!(file >> speed)) speed = 0;
  return std::max(speed, kLeastSpeedMbps);
}

std::vector<std::string> selected_interfaces() {
  const InterfaceChoice choice =
      choose_interfaces([](const char* name) { return std::getenv(name); });
  if (choice.error != 0) {
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet,
        "no network interfaces can be listed: %s; open files: %s", std::strerror(choice.error),
        describe(count_descriptors()).c_str());
  } else if (choice.variable != nullptr && choice.selected.empty()) {
    std::string all;
    for (const std::string& name : choice.usable) all += " " + name;
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet,
        "%s=%s selects none of the network interfaces that are up:%s", choice.variable,
        choice.value.c_str(), all.c_str());
  }
  return choice.selected;
}

std::vector<Device> find_devices() {
  std::vector<Device> devices;
  for (const std::string& name : selected_interfaces()) {
    Device device;
    device.name = name;
    device.pci_path = real_path("/sys/class/net/" + name + "/device");
    device.guid = devices.size();
    device.speed_mbps = speed_of(name);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

const std::vector<Device>& devices() {
  if (has_next_net()) return next_net_devices();
  static const std::vector<Device>* const found = new std::vector<Device>(find_devices());
  return *found;
}

Result<const Device*> device_at(int index) {
  const std::vector<Device>& all = devices();
  if (index < 0 || static_cast<std::size_t>(index) >= all.size()) {
    return Status(Code::kInvalidArgument,
                  "device " + std::to_string(index) + ": there are " + std::to_string(all.size()));
  }
  return &all[static_cast<std::size_t>(index)];
}

}  // namespace ringpress::nccl_plugin::plugin
