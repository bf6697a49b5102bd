// The tables of the next plugin (next_net.h), and its devices.
#ifndef NCCL_PLUGIN_PLUGIN_NEXT_NET_DEVICES_H_
#define NCCL_PLUGIN_PLUGIN_NEXT_NET_DEVICES_H_

#include <atomic>

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"

namespace ringpress::nccl_plugin::plugin {

/// The next plugin's tables, as they are. Where a name is null it has no such version.
struct NextTables {
  abi::NetV7 v7{};
  abi::NetV8 v8{};
  abi::NetV9 v9{};
  abi::NetV10 v10{};
  abi::NetV11 v11{};
  abi::NetV12 v12{};
};

extern NextTables next_tables;
/// The version by which NCCL has initialised the next plugin, or 0.
extern std::atomic<int> next_version;

/// Has CollNet merge devices wherever the next plugin can (merged_devices.h). Once, after the
/// tables of the network were taken over.
void take_part_in_merging();

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NEXT_NET_DEVICES_H_
