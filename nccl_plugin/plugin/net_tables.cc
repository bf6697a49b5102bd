// The tables of the network that NCCL looks up, one a version, over net.h. A function is named after
// the first version whose signature it has.
#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"
#include "nccl_plugin/plugin/net.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

[[maybe_unused]] ncclResult_t init_v7(abi::Logger logger) {
  return answer("ncclNet init", [&] { return net_init(logger); });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin

#define RINGPRESS_EXPORT __attribute__((visibility("default")))
extern "C" {
RINGPRESS_EXPORT ringpress::abi::NetV7 ncclNetPlugin_v7 = {};
RINGPRESS_EXPORT ringpress::abi::NetV8 ncclNetPlugin_v8 = {};
RINGPRESS_EXPORT ringpress::abi::NetV9 ncclNetPlugin_v9 = {};
RINGPRESS_EXPORT ringpress::abi::NetV10 ncclNetPlugin_v10 = {};
RINGPRESS_EXPORT ringpress::abi::NetV11 ncclNetPlugin_v11 = {};
RINGPRESS_EXPORT ringpress::abi::NetV12 ncclNetPlugin_v12 = {};
}
