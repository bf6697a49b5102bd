#include "nccl_plugin/plugin/device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr int kLeastSpeedMbps = 10000;

struct InterfaceFilter {
  bool excludes = false;
  bool whole_names = false;
  std::vector<std::string> names;

  bool accepts(const std::string& interface) const {
    const auto matches = [&](const std::string& name) {
      return whole_names ? interface == name : interface.compare(0, name.size(), name) == 0;
    };
    return std::any_of(names.begin(), names.end(), matches) != excludes;
  }
};

InterfaceFilter parse_filter(std::string text) {
  InterfaceFilter filter;
  while (!text.empty() && (text[0] == '^' || text[0] == '=')) {
    (text[0] == '^' ? filter.excludes : filter.whole_names) = true;
    text.erase(0, 1);
  }
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) filter.names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return filter;
}

/// Names of the interfaces that are up and have an address, each once, the loopback ones last.
std::vector<std::string> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<std::string> names;
  for (const bool loopback : {false, true}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
      const int family = entry->ifa_addr->sa_family;
      if (family != AF_INET && family != AF_INET6) continue;
      if (((entry->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
      const std::string name = entry->ifa_name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

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

/// Those of `names` that the value of `variable` selects.
std::vector<std::string> selected(const std::vector<std::string>& names, const char* variable) {
  const InterfaceFilter filter = parse_filter(std::getenv(variable));
  std::vector<std::string> found;
  std::string all;
  for (const std::string& name : names) {
    all += " " + name;
    if (filter.accepts(name)) found.push_back(name);
  }
  if (found.empty()) {
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet,
        "%s=%s selects none of the network interfaces that are up:%s", variable,
        std::getenv(variable), all.c_str());
  }
  return found;
}

std::vector<std::string> preferred(std::vector<std::string> names) {
  const InterfaceFilter others = parse_filter("^lo,docker");
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found),
               [&](const std::string& name) { return others.accepts(name); });
  if (!found.empty()) return found;
  if (names.size() > 1) names.resize(1);
  return names;
}

std::vector<std::string> selected_interfaces() {
  for (const char* variable : {"RINGPRESS_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const char* const wanted = std::getenv(variable);
    if (wanted != nullptr && *wanted != '\0') return selected(interfaces(), variable);
  }
  return preferred(interfaces());
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
