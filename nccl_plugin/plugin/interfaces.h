// Which network interfaces the settings select: for the device list, and for the command
// `ringpress`, which says so before a job starts.
#ifndef NCCL_PLUGIN_PLUGIN_INTERFACES_H_
#define NCCL_PLUGIN_PLUGIN_INTERFACES_H_

#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/plugin/door_variables.h"

namespace ringpress::nccl_plugin::plugin {

/// The variables that select interfaces; the first that is set and not empty decides.
constexpr const char* kInterfaceVariables[] = {"RINGPRESS_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"};

/// Names of the interfaces that are up and have an address of that family (NCCL_SOCKET_FAMILY's
/// words; null or another: of any), each once, the loopback ones last. Empty, with errno, where the
/// system does not say.
std::vector<std::string> usable_interfaces(const char* family = nullptr);

/// Those of `interfaces` that a variable's value selects: "eth" (names that begin so), "^docker"
/// (all but those), "=eth0,eth1" (whole names).
std::vector<std::string> select_interfaces(const std::vector<std::string>& interfaces,
                                           std::string_view value);

struct InterfaceChoice {
  std::vector<std::string> selected;
  std::vector<std::string> usable;
  const char* variable = nullptr;  // That decided; null: neither is set.
  std::string value;               // Of it.
  int error = 0;                   // Why the system has named no interface: errno.
};
/// Without the variables: all but the loopback and docker's, or the loopback if there is no other.
InterfaceChoice choose_interfaces(const Lookup& process);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_INTERFACES_H_
