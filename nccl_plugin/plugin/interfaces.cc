#include "nccl_plugin/plugin/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>

namespace ringpress::nccl_plugin::plugin {
namespace {

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

InterfaceFilter parse_filter(std::string_view text) {
  InterfaceFilter filter;
  while (!text.empty() && (text[0] == '^' || text[0] == '=')) {
    (text[0] == '^' ? filter.excludes : filter.whole_names) = true;
    text.remove_prefix(1);
  }
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) filter.names.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return filter;
}

std::vector<std::string> preferred(std::vector<std::string> names) {
  std::vector<std::string> found = select_interfaces(names, "^lo,docker");
  if (!found.empty()) return found;
  if (names.size() > 1) names.resize(1);
  return names;
}

}  // namespace

std::vector<std::string> usable_interfaces(const char* family) {
  const std::string_view wanted = family == nullptr ? "" : family;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<std::string> names;
  for (const bool loopback : {false, true}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
      const int has = entry->ifa_addr->sa_family;
      if (has != AF_INET && has != AF_INET6) continue;
      if ((wanted == "AF_INET" && has != AF_INET) || (wanted == "AF_INET6" && has != AF_INET6)) {
        continue;
      }
      if (((entry->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
      const std::string name = entry->ifa_name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> select_interfaces(const std::vector<std::string>& interfaces,
                                           std::string_view value) {
  const InterfaceFilter filter = parse_filter(value);
  std::vector<std::string> found;
  std::copy_if(interfaces.begin(), interfaces.end(), std::back_inserter(found),
               [&](const std::string& name) { return filter.accepts(name); });
  return found;
}

InterfaceChoice choose_interfaces(const Lookup& process) {
  InterfaceChoice choice;
  errno = 0;
  choice.usable = usable_interfaces(process("NCCL_SOCKET_FAMILY"));
  if (choice.usable.empty()) choice.error = errno;
  for (const char* variable : kInterfaceVariables) {
    const char* const wanted = process(variable);
    if (wanted == nullptr || *wanted == '\0') continue;
    choice.variable = variable;
    choice.value = wanted;
    choice.selected = select_interfaces(choice.usable, wanted);
    return choice;
  }
  choice.selected = preferred(choice.usable);
  return choice;
}

}  // namespace ringpress::nccl_plugin::plugin
