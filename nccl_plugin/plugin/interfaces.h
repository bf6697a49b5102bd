// Which network interfaces the settings select: for the device list.
#ifndef NCCL_PLUGIN_PLUGIN_INTERFACES_H_
#define NCCL_PLUGIN_PLUGIN_INTERFACES_H_

#include <string>
#include <vector>

#include "ringpress/internal/address_choice.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Without names in the choice: all but the loopback and docker's, or the first of all if there is
/// no other. kInvalidArgument, with those there are, where it names some and none matches; kSystem
/// where the system does not say.
Result<std::vector<std::string>> choose_interfaces(const AddressChoice& choice);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_INTERFACES_H_
