// The network devices that this library shows to NCCL. The net and the CollNet plugin show the same
// list: NCCL joins the two by name and takes the index for that of both.
#ifndef NCCL_PLUGIN_PLUGIN_DEVICE_H_
#define NCCL_PLUGIN_PLUGIN_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Of one all-reduce of CollNet, as a device's properties say. An answer counts bytes in an int.
inline constexpr std::size_t kMaxCollBytes = std::size_t{1} << 30;

struct Device {
  std::string name;      // Of the network interface.
  std::string pci_path;  // In /sys, or empty.
  std::uint64_t guid = 0;
  int speed_mbps = 0;      // At least 10000: NCCL leaves slower ones out of its CollNet search.
  std::vector<int> parts;  // Of a device that others were merged to; else empty.
  int rail = -1;           // -1: not known.
  int plane = -1;
};

/// The devices of this process: found at the first call, unchanged after it.
///
/// With a next plugin (next_net.h): its devices, once it is initialised, and behind them those that
/// CollNet has had merged. Otherwise what the settings select (interfaces.h).
const std::vector<Device>& devices();

/// kInvalidArgument, with what there is, for an index out of range.
Result<const Device*> device_at(int index);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_DEVICE_H_
