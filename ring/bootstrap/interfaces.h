// This host's network interfaces, and which of them a variable selects, read as NCCL reads its own.
#ifndef RING_BOOTSTRAP_INTERFACES_H_
#define RING_BOOTSTRAP_INTERFACES_H_

#include <string>
#include <vector>

#include "ring/transport/common/socket.h"
#include "ringpress/internal/address_choice.h"
#include "ringpress/internal/status.h"

namespace ringpress::ring::bootstrap {

/// In this order they are preferred.
enum class AddressClass { kIpv4, kIpv6, kIpv6OfOneLink };

struct InterfaceAddress {
  std::string interface;
  AddressClass address_class = AddressClass::kIpv4;
  bool is_loopback = false;
  std::string host;  // Without a port.
};

/// The text of an address without its port.
std::string host_part(const transport::SocketAddress& address);

/// Of the interfaces that are up, what is preferred first. kSystem where the system does not say.
Result<std::vector<InterfaceAddress>> list_addresses(AddressFamily family);

/// The address of the first interface that the names select. A list of interfaces to leave out
/// seldom names the loopback, which no other host reaches: it is the last that is left over.
/// kInvalidArgument, with what there is, where nothing matches.
Result<std::string> address_by_name(const AddressChoice& choice);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_INTERFACES_H_
