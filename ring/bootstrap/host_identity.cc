#include "ring/bootstrap/host_identity.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sodium.h>
#include <unistd.h>

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

bool usable(const ifaddrs& entry, int family) {
  return entry.ifa_addr != nullptr && entry.ifa_addr->sa_family == family &&
         (entry.ifa_flags & IFF_UP) != 0;
}

SocketAddress copy_address(const ifaddrs& entry) {
  SocketAddress address;
  address.length =
      entry.ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.storage, entry.ifa_addr, address.length);
  return address;
}

/// The first address that `filter` allows, IPv4 first, or ""; loopback only if asked for by name.
Result<std::string> find_interface(const NameFilter& filter, bool loopback) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return transport::system_error("cannot list network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (!usable(*entry, family) || !filter.allows(entry->ifa_name)) continue;
      if (!loopback && (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
      return host_part(copy_address(*entry));
    }
  }
  return std::string();
}

}  // namespace

HostIdentity host_identity() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  const char* named = std::getenv("NCCL_HOSTID");
  const std::string host =
      named != nullptr && *named != '\0' ? std::string("id:") + named : boot + "/" + host_name();
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

Result<std::string> interface_address(const std::string& names) {
  if (!names.empty()) {
    RINGPRESS_ASSIGN_OR_RETURN(const std::string found, find_interface(parse_filter(names), true));
    if (!found.empty()) return found;
    return Status(Code::kInvalidArgument, "no network interface matches \"" + names + "\"");
  }
  // An address of the documentation range (RFC 5737): reached by the default route, never
  // contacted.
  const Result<std::string> routed = route_address("203.0.113.1:9");
  if (routed.is_ok()) return routed.value();
  RINGPRESS_ASSIGN_OR_RETURN(const std::string found,
                             find_interface(NameFilter{false, true, {}}, false));
  return found.empty() ? std::string("127.0.0.1") : found;
}

}  // namespace ringpress::ring::bootstrap
