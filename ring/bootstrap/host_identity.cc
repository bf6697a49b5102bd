#include "ring/bootstrap/host_identity.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "ring/transport/common/socket.h"

namespace ringpress::ring::bootstrap {
namespace {

using transport::Fd;
using transport::SocketAddress;

HostHash hash_of(const std::string& text) {
  HostHash hash;
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return hash;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string network_namespace() {
  char name[64] = "";
  const ssize_t length = readlink("/proc/self/ns/net", name, sizeof name - 1);
  return std::string(name, length > 0 ? static_cast<std::size_t>(length) : 0);
}

/// The text of an address without its port.
std::string host_part(const SocketAddress& address) {
  const std::string text = transport::to_text(address);
  return text.substr(0, text.rfind(':'));
}

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

/// In this order they are preferred.
enum class AddressClass { kIpv4, kIpv6, kIpv6OfOneLink };

struct InterfaceAddress {
  std::string interface;
  AddressClass address_class = AddressClass::kIpv4;
  bool is_loopback = false;
  std::string host;  // Without a port.
};

AddressClass class_of(const ifaddrs& entry) {
  if (entry.ifa_addr->sa_family == AF_INET) return AddressClass::kIpv4;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? AddressClass::kIpv6OfOneLink : AddressClass::kIpv6;
}

/// Of the interfaces that are up, what is preferred first.
Result<std::vector<InterfaceAddress>> list_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return transport::system_error("cannot list network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({entry->ifa_name, class_of(*entry), (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     host_part(copy_address(*entry))});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& one, const auto& other) {
    return one.address_class < other.address_class;
  });
  return found;
}

bool is_of_family(const InterfaceAddress& address, AddressFamily family) {
  switch (family) {
    case AddressFamily::kAny:
      return true;
    case AddressFamily::kIpv4:
      return address.address_class == AddressClass::kIpv4;
    case AddressFamily::kIpv6:
      return address.address_class != AddressClass::kIpv4;
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

Status nothing_matches(const AddressChoice& choice, const std::vector<InterfaceAddress>& all) {
  std::vector<std::string> names;
  for (const InterfaceAddress& address : all) {
    const bool is_new = std::find(names.begin(), names.end(), address.interface) == names.end();
    if (is_new && is_of_family(address, choice.family)) names.push_back(address.interface);
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return {Code::kInvalidArgument, choice.variable + "=" + choice.interfaces +
                                      " matches no network interface" +
                                      family_text(choice.family) +
                                      "; there are: " + (list.empty() ? "none" : list)};
}

/// A list of interfaces to leave out seldom names the loopback, which no other host reaches: it is
/// the last that is left over.
Result<std::string> address_by_name(const AddressChoice& choice) {
  const NameFilter filter = parse_filter(choice.interfaces);
  RINGPRESS_ASSIGN_OR_RETURN(const auto all, list_addresses());
  const InterfaceAddress* loopback = nullptr;
  for (const InterfaceAddress& address : all) {
    if (!is_of_family(address, choice.family) || !filter.allows(address.interface)) continue;
    if (!filter.exclude || !address.is_loopback) return address.host;
    if (loopback == nullptr) loopback = &address;
  }
  if (loopback != nullptr) return loopback->host;
  return nothing_matches(choice, all);
}

/// Addresses of the documentation ranges (RFC 5737, RFC 3849): reached by the default route, never
/// contacted.
constexpr const char* kIpv4Elsewhere = "203.0.113.1:9";
constexpr const char* kIpv6Elsewhere = "[2001:db8::1]:9";

Result<std::string> default_address(AddressFamily family) {
  const bool is_ipv6 = family == AddressFamily::kIpv6;
  const Result<std::string> routed = route_address(is_ipv6 ? kIpv6Elsewhere : kIpv4Elsewhere);
  if (routed.is_ok()) return routed.value();
  RINGPRESS_ASSIGN_OR_RETURN(const auto all, list_addresses());
  for (const InterfaceAddress& address : all) {
    if (is_of_family(address, family) && !address.is_loopback) return address.host;
  }
  return std::string(is_ipv6 ? "[::1]" : "127.0.0.1");
}

}  // namespace

HostIdentity host_identity(const std::string& host_id) {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  const char* const variable = std::getenv("NCCL_HOSTID");
  const std::string named = host_id.empty() && variable != nullptr ? variable : host_id;
  const std::string host = named.empty() ? boot + "/" + host_name() : "id:" + named;
  return {hash_of(host + "/" + network_namespace()), hash_of(boot)};
}

Result<std::string> route_address(const std::string& target) {
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress address, transport::parse_address(target));
  // Connecting a datagram socket sends nothing; it only asks the routing table.
  Fd socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return transport::system_error("socket");
  if (::connect(socket.get(), address.get(), address.length) != 0) {
    return transport::system_error("no route to " + target);
  }
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress local, transport::local_address(socket.get()));
  return host_part(local);
}

Result<std::string> interface_address(const AddressChoice& choice) {
  return choice.interfaces.empty() ? default_address(choice.family) : address_by_name(choice);
}

}  // namespace ringpress::ring::bootstrap
