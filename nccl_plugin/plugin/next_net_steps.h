// Each version of the network's table over the one before it, which may be itself such a dress.
#ifndef NCCL_PLUGIN_PLUGIN_NEXT_NET_STEPS_H_
#define NCCL_PLUGIN_PLUGIN_NEXT_NET_STEPS_H_

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"

namespace ringpress::nccl_plugin::plugin {

/// Fills `newer` with functions that call `older`, which lives as long as the process. There is one
/// `older` of each version.
void dress(abi::NetV7& older, abi::NetV8& newer);
void dress(abi::NetV8& older, abi::NetV9& newer);
void dress(abi::NetV9& older, abi::NetV10& newer);
void dress(abi::NetV10& older, abi::NetV11& newer);
void dress(abi::NetV11& older, abi::NetV12& newer);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NEXT_NET_STEPS_H_
