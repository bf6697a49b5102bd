// Which of a host's addresses is used.
#ifndef RINGPRESS_INTERNAL_ADDRESS_CHOICE_H_
#define RINGPRESS_INTERNAL_ADDRESS_CHOICE_H_

#include <string>

namespace ringpress {

enum class AddressFamily { kAny, kIpv4, kIpv6 };

struct AddressChoice {
  /// A comma-separated list of prefixes of names of network interfaces; "=" before the list means
  /// whole names, "^" means all but these. Empty: the interface that the default route takes.
  std::string interfaces = {};
  /// kAny: IPv4 where an interface has it, else IPv6.
  AddressFamily family = AddressFamily::kAny;
  /// The variable that `interfaces` is from, for messages.
  std::string variable = "RINGPRESS_SOCKET_IFNAME";

  bool is_open() const { return interfaces.empty() && family == AddressFamily::kAny; }
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_ADDRESS_CHOICE_H_
