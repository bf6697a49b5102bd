// The tables of the network, one a version, that NCCL looks up in this library by name. They are
// ringpress's own network until a next plugin takes their place (next_net.h).
#ifndef NCCL_PLUGIN_PLUGIN_NET_TABLES_H_
#define NCCL_PLUGIN_PLUGIN_NET_TABLES_H_

#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"

extern "C" {
__attribute__((visibility("default"))) extern ringpress::abi::NetV7 ncclNetPlugin_v7;
__attribute__((visibility("default"))) extern ringpress::abi::NetV8 ncclNetPlugin_v8;
__attribute__((visibility("default"))) extern ringpress::abi::NetV9 ncclNetPlugin_v9;
__attribute__((visibility("default"))) extern ringpress::abi::NetV10 ncclNetPlugin_v10;
__attribute__((visibility("default"))) extern ringpress::abi::NetV11 ncclNetPlugin_v11;
__attribute__((visibility("default"))) extern ringpress::abi::NetV12 ncclNetPlugin_v12;
// Of those that can merge devices; they do where a next plugin does.
__attribute__((visibility("default"))) extern ringpress::abi::CollNetV9 ncclCollNetPlugin_v9;
__attribute__((visibility("default"))) extern ringpress::abi::CollNetV10 ncclCollNetPlugin_v10;
__attribute__((visibility("default"))) extern ringpress::abi::CollNetV11 ncclCollNetPlugin_v11;
__attribute__((visibility("default"))) extern ringpress::abi::CollNetV12 ncclCollNetPlugin_v12;
}

#endif  // NCCL_PLUGIN_PLUGIN_NET_TABLES_H_
