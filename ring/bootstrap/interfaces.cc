#include "ring/bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "ring/factory.h"

namespace ringpress::ring {
namespace bootstrap {
namespace {

using transport::SocketAddress;

struct NameFilter {
  bool exact = false;
  bool exclude = false;
  std::vector<std::string> names;

  bool allows(const std::string& name) const {
    for (const std::string& wanted : names) {
      const bool hit = exact ? name == wanted : name.compare(0, wanted.size(), wanted) == 0;
      if (hit) return !exclude;
    }
    return exclude;
  }
};

NameFilter parse_filter(std::string text) {
  NameFilter filter;
  if (!text.empty() && text.front() == '^') {
    filter.exclude = true;
    text.erase(0, 1);
  }
  if (!text.empty() && text.front() == '=') {
    filter.exact = true;
    text.erase(0, 1);
  }
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    if (comma > start) filter.names.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return filter;
}

SocketAddress copy_address(const ifaddrs& entry) {
  SocketAddress address;
  address.length =
      entry.ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.storage, entry.ifa_addr, address.length);
  return address;
}

AddressClass class_of(const ifaddrs& entry) {
  if (entry.ifa_addr->sa_family == AF_INET) return AddressClass::kIpv4;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? AddressClass::kIpv6OfOneLink : AddressClass::kIpv6;
}

bool is_of_family(const ifaddrs& entry, AddressFamily family) {
  const int has = entry.ifa_addr->sa_family;
  switch (family) {
    case AddressFamily::kAny:
      return has == AF_INET || has == AF_INET6;
    case AddressFamily::kIpv4:
      return has == AF_INET;
    case AddressFamily::kIpv6:
      return has == AF_INET6;
  }
  return false;
}

const char* family_text(AddressFamily family) {
  switch (family) {
    case AddressFamily::kAny:
      return "";
    case AddressFamily::kIpv4:
      return " with an IPv4 address";
    case AddressFamily::kIpv6:
      return " with an IPv6 address";
  }
  return "";
}

/// Each once, the loopback ones last.
std::vector<std::string> names_of(const std::vector<InterfaceAddress>& all) {
  std::vector<std::string> names;
  for (const bool loopback : {false, true}) {
    for (const InterfaceAddress& address : all) {
      const bool is_new = std::find(names.begin(), names.end(), address.interface) == names.end();
      if (address.is_loopback == loopback && is_new) names.push_back(address.interface);
    }
  }
  return names;
}

Status nothing_matches(const AddressChoice& choice, const std::vector<InterfaceAddress>& all) {
  std::string list;
  for (const std::string& name : names_of(all)) list += (list.empty() ? "" : ", ") + name;
  return {Code::kInvalidArgument, choice.variable + "=" + choice.interfaces +
                                      " matches no network interface" + family_text(choice.family) +
                                      "; there are: " + (list.empty() ? "none" : list)};
}

}  // namespace

std::string host_part(const SocketAddress& address) {
  const std::string text = transport::to_text(address);
  return text.substr(0, text.rfind(':'));
}

Result<std::vector<InterfaceAddress>> list_addresses(AddressFamily family) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return transport::system_error("cannot list network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (!is_of_family(*entry, family)) continue;
    found.push_back({entry->ifa_name, class_of(*entry), (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     host_part(copy_address(*entry))});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& one, const auto& other) {
    return one.address_class < other.address_class;
  });
  return found;
}

Result<std::string> address_by_name(const AddressChoice& choice) {
  const NameFilter filter = parse_filter(choice.interfaces);
  RINGPRESS_ASSIGN_OR_RETURN(const auto all, list_addresses(choice.family));
  const InterfaceAddress* loopback = nullptr;
  for (const InterfaceAddress& address : all) {
    if (!filter.allows(address.interface)) continue;
    if (!filter.exclude || !address.is_loopback) return address.host;
    if (loopback == nullptr) loopback = &address;
  }
  if (loopback != nullptr) return loopback->host;
  return nothing_matches(choice, all);
}

}  // namespace bootstrap

Result<std::vector<std::string>> interface_names(AddressFamily family) {
  RINGPRESS_ASSIGN_OR_RETURN(const auto all, bootstrap::list_addresses(family));
  return bootstrap::names_of(all);
}

std::vector<std::string> select_interfaces(const std::vector<std::string>& names,
                                           const std::string& value) {
  const bootstrap::NameFilter filter = bootstrap::parse_filter(value);
  std::vector<std::string> selected;
  for (const std::string& name : names) {
    if (filter.allows(name)) selected.push_back(name);
  }
  return selected;
}

Status check_address(const AddressChoice& choice) {
  if (choice.interfaces.empty()) return Status::ok();
  return bootstrap::address_by_name(choice).status();
}

}  // namespace ringpress::ring
