#include "ring/bootstrap/host_identity.h"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "ring/bootstrap/interfaces.h"
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

/// Addresses of the documentation ranges (RFC 5737, RFC 3849): reached by the default route, never
/// contacted.
constexpr const char* kIpv4Elsewhere = "203.0.113.1:9";
constexpr const char* kIpv6Elsewhere = "[2001:db8::1]:9";

Result<std::string> default_address(AddressFamily family) {
  const bool is_ipv6 = family == AddressFamily::kIpv6;
  const Result<std::string> routed = route_address(is_ipv6 ? kIpv6Elsewhere : kIpv4Elsewhere);
  if (routed.is_ok()) return routed.value();
  RINGPRESS_ASSIGN_OR_RETURN(const auto all, list_addresses(family));
  for (const InterfaceAddress& address : all) {
    if (!address.is_loopback) return address.host;
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
