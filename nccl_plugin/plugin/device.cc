#include "nccl_plugin/plugin/device.h"

#include <limits.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "nccl_plugin/plugin/interfaces.h"
#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/report.h"
#include "ringpress/internal/settings.h"

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

/// Where nothing matches, all nodes still have a device: NCCL fails in several ways where only some
/// have one. Who refuses such settings is the tuner, when a communicator is made.
std::vector<std::string> selected_interfaces() {
  AddressChoice choice = settings_from_environment().address;
  Result<std::vector<std::string>> chosen = choose_interfaces(choice);
  if (chosen.is_ok()) return std::move(chosen).value();
  log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet, "%s", chosen.status().message().c_str());
  choice.interfaces.clear();
  if (chosen.status().code() == Code::kInvalidArgument) chosen = choose_interfaces(choice);
  return chosen.is_ok() ? std::move(chosen).value() : std::vector<std::string>();
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
